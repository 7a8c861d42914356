"""ONNX Runtime as decoding backend: the hypotheses of Regard's search, for every architecture, without torch.

The compiled model is kept beside the model (`storage/compiled.py`); with it, nothing here imports torch. It returns no
attention weights and no candidates.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path

import numpy as np

from regard.config.models import BahdanauSettings, LuongSettings, ModelConfig, Seq2SeqSettings, TransformerSettings
from regard.config.settings import SearchSettings
from regard.config.vocabulary import UNK
from regard.decoding.engines.engine import Extras, OnceMade, Sentence, maximum_length
from regard.decoding.engines.graphs.builder import WEIGHTS_FILE, Array
from regard.decoding.engines.graphs.compile import GRAPH_BYTES, GRAPH_FILES, compile_model, is_compiled
from regard.decoding.engines.graphs.transformer import MAX_POSITIONS
from regard.decoding.engines.onnxruntime.model import OnnxRuntimeModel, import_onnxruntime
from regard.decoding.hypothesis import Hypothesis, StreamedToken
from regard.decoding.shortlist import Shortlist
from regard.decoding.text_model import TextModel
from regard.errors import ModelFolderError
from regard.machine import processor
from regard.storage.files import write_bytes
from regard.storage.reading import check_regular, read_bounded

CANNOT = {"sample": "sample", "no_repeat_ngram": "block repeated n-grams"}
"""Settings that it does not support; only 0."""


class OnnxRuntimeEngine:
    """Decodes with ONNX graphs of the model, one set for each kind of weights."""

    def __init__(self, model: TextModel, made: OnceMade) -> None:
        self._model = model
        self._made = made

    def why_not(self, settings: SearchSettings) -> str | None:
        own = self._settings
        if own is None:
            return "it supports a single model of a built-in architecture only"
        if self._model.device != "cpu":
            return f"it runs on the CPU, not on {self._model.device}"
        if isinstance(own, Seq2SeqSettings | LuongSettings) and own.batch_norm:
            return "it has no batch normalisation (model.batch_norm)"
        if settings.coverage_penalty and own.kind == "seq2seq":
            return "a coverage penalty needs a model with attention (search.coverage_penalty)"
        wanted = next((name for name in CANNOT if getattr(settings, name)), None)
        return None if wanted is None else f"it cannot {CANNOT[wanted]} (search.{wanted})"

    def prepare(self, settings: SearchSettings) -> None:
        self._copy(settings)

    def is_open(self, settings: SearchSettings) -> bool:
        return self._key(settings) in self._made

    def takes(self, sentence: Sentence, extras: Extras, settings: SearchSettings) -> bool:
        longest, reach = len(sentence.ids), None
        match self._settings:
            case TransformerSettings():
                reach = MAX_POSITIONS
                longest = max(longest, maximum_length(sentence.ids, settings))
            case None:
                return False
            case BahdanauSettings() | LuongSettings() as own if own.score == "location":
                reach = own.max_source_positions  # torch warns about longer sentences
        return not extras and not sentence.prefix and (reach is None or longest <= reach)

    def search(
        self, sentences: Sequence[Sentence], settings: SearchSettings, extras: Extras
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        shortlist = self._model.shortlist_for(settings)

        def columns(batch: Sequence[Sequence[int]]) -> Array:
            assert shortlist is not None
            return shortlist.columns(np.concatenate([np.asarray(ids) for ids in batch]))

        return self._copy(settings).search(
            [sentence.ids for sentence in sentences],
            settings,
            None if shortlist is None else columns,
            UNK if self._model.replaces_unknown(settings) else None,
        )

    def streams(self, settings: SearchSettings) -> bool:
        return True

    def stream(self, sentence: Sentence, settings: SearchSettings) -> Iterator[StreamedToken]:
        shortlist: Shortlist | None = self._model.shortlist_for(settings)
        columns = None if shortlist is None else shortlist.columns(np.asarray(sentence.ids))
        unk = UNK if self._model.replaces_unknown(settings) else None
        return self._copy(settings).stream(sentence.ids, settings, columns, unk)

    @property
    def _settings(self) -> ModelConfig | None:
        if self._model.settings is not None:
            return self._model.settings
        weights = self._model.model.compilable()
        return None if weights is None else weights.settings

    def _copy(self, settings: SearchSettings) -> OnnxRuntimeModel:
        return self._made.get(self._key(settings), lambda: self._open(settings))

    def _key(self, settings: SearchSettings) -> Hashable:
        return "onnxruntime", settings.int8 is True, settings.shortlist

    def _open(self, settings: SearchSettings) -> OnnxRuntimeModel:
        """Open the compiled model; compile it first, if that was not done yet."""
        import_onnxruntime()
        processor.use("onnxruntime", 'search.engine = "onnxruntime"', 'use search.engine = "torch"')
        model, int8 = self._model, settings.int8 is True

        def write(folder: Path) -> None:
            weights = model.model.compilable()
            assert weights is not None  # checked by `why_not`
            arrays = {name: tensor.detach().cpu().float().numpy() for name, tensor in weights.tensors.items()}
            for name, content in compile_model(weights.settings, arrays, int8=int8).items():
                write_bytes(folder / name, content)

        def check(folder: Path) -> bool:
            """Whether the graphs are, byte by byte, those of this model; weights may have any values."""
            try:
                files = {name: read_bounded(folder / name, GRAPH_BYTES) for name in GRAPH_FILES}
                size = check_regular(folder / WEIGHTS_FILE)
            except (ModelFolderError, OSError):
                return False
            own = model.settings
            return own is not None and is_compiled(files, size, own, model.compiled.weight_shapes(), int8=int8)

        with model.compiled.opened(f"onnxruntime-{'int8' if int8 else 'float32'}", write, check) as folder:
            return OnnxRuntimeModel(folder, threads=model.threads, shortlist=settings.shortlist)
