"""A compiled model in ONNX Runtime; nothing here imports torch.

A session has one thread. Threads work on different batches, never on one sentence.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from regard.config.settings import SearchSettings
from regard.decoding.engines.batches import even_batches
from regard.decoding.engines.graphs.builder import WEIGHTS_FILE
from regard.decoding.engines.graphs.compile import GRAPHS, MANIFEST
from regard.decoding.engines.graphs.shortlist import project_columns
from regard.decoding.engines.onnxruntime.search import Request, search, stream
from regard.decoding.engines.onnxruntime.steps import Array, Steps
from regard.decoding.hypothesis import Hypothesis, StreamedToken
from regard.errors import ConfigError

ROWS = 128
"""Maximum hypotheses in a batch."""

LOG_ERRORS_ONLY = 3  # ONNX Runtime's severity level


def import_onnxruntime() -> Any:
    """Import the library."""
    try:
        import onnxruntime
    except ImportError:
        raise ConfigError("onnxruntime is not installed: pip install onnxruntime.") from None
    return onnxruntime


class OnnxRuntimeModel:
    """The graphs of a folder, opened; thread-safe."""

    def __init__(self, folder: Path, *, threads: int = 1, shortlist: bool = False) -> None:
        """Open a compiled model, for searches with a shortlist too; its files are not needed afterwards."""
        self._library = import_onnxruntime()
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        self.architecture: str = manifest["architecture"]
        self.int8: bool = manifest["weights"] == "int8"
        self.vocabulary: int = manifest["target_vocabulary"]
        self.hidden: int = manifest["hidden"]
        self.memory: list[str] = list(manifest["memory"])
        self.states: list[list[int | str]] = manifest["states"]
        self.grows = any("T" in sizes for sizes in self.states)
        self.aligns: bool = manifest["aligns"]
        self.max_positions: int | None = manifest["max_positions"]
        self._threads = threads
        options = self._library.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = LOG_ERRORS_ONLY
        self._options = options
        self._sessions = {name: self._session(str(folder / f"{name}.onnx")) for name in GRAPHS}
        self._encoded = [output.name for output in self._sessions["encode"].get_outputs()]
        self._output: dict[str, Array] = {}
        if shortlist:
            output = manifest["output"]
            self._output = {name: _read(folder / WEIGHTS_FILE, about) for name, about in output.items()}
            self._sessions["columns"] = self._session(project_columns(self.hidden, int8=self.int8))

    def _session(self, model: str | bytes) -> Any:
        return self._library.InferenceSession(model, self._options, providers=["CPUExecutionProvider"])

    # --- what a batch runs --------------------------------------------------------------------------------------------

    def encode(self, source: Array, lengths: Array) -> dict[str, Array]:
        """Memory and first states of sentences (B, S)."""
        found = self._sessions["encode"].run(None, {"source": source, "lengths": lengths})
        return dict(zip(self._encoded, found, strict=True))

    def output_layer(self, columns: Array | None) -> tuple[str, dict[str, Any]]:
        """The graph of the output layer and the inputs that it needs: for a shortlist, its weights."""
        if columns is None:
            return "project", {}
        names = ("int8", "scale", "bias") if self.int8 else ("weight", "bias")
        axis = {"int8": 1}
        return "columns", {
            name: self.value(np.take(self._output[f"output.{name}"], columns, axis=axis.get(name, 0))) for name in names
        }

    def value(self, array: Array) -> Any:
        """An OrtValue that shares the array's memory."""
        return self._library.OrtValue.ortvalue_from_numpy(array)

    def bind(self, name: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Any:
        """An IO binding of a session to buffers."""
        binding = self._sessions[name].io_binding()
        for key, value in inputs.items():
            binding.bind_ortvalue_input(key, value)
        for key, value in outputs.items():
            binding.bind_ortvalue_output(key, value)
        return binding

    def run(self, name: str, binding: Any) -> None:
        """Run a session on its binding."""
        self._sessions[name].run_with_iobinding(binding)

    # --- search -------------------------------------------------------------------------------------------------------

    def search(
        self,
        sentences: Sequence[Sequence[int]],
        settings: SearchSettings,
        columns: Callable[[Sequence[Sequence[int]]], Array] | None = None,
        unk: int | None = None,
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yield index and n-best list of each sentence of source ids, batch after batch.

        `columns` gives the shortlist of a batch. With `unk`, the most attended source position of each token is
        recorded.
        """
        batches = list(even_batches(sentences, settings, ROWS))

        def work(places: list[int]) -> list[list[Hypothesis]]:
            return self._batch([sentences[place] for place in places], settings, columns, unk)

        if self._threads == 1 or len(batches) == 1:
            for places in batches:
                yield from zip(places, work(places), strict=True)
            return
        with ThreadPoolExecutor(self._threads) as pool:
            for places, found in zip(batches, pool.map(work, batches), strict=True):
                yield from zip(places, found, strict=True)

    def _batch(
        self,
        sentences: Sequence[Sequence[int]],
        settings: SearchSettings,
        columns: Callable[[Sequence[Sequence[int]]], Array] | None,
        unk: int | None,
    ) -> list[list[Hypothesis]]:
        chosen = None if columns is None else columns(sentences)
        request = Request(settings, columns=chosen, unk=unk)
        return search(Steps(self, sentences, chosen, request.width), request)

    def stream(
        self, sentence: Sequence[int], settings: SearchSettings, columns: Array | None = None, unk: int | None = None
    ) -> Iterator[StreamedToken]:
        """Stream the tokens of greedy search, whatever the beam."""
        request = Request(settings.model_copy(update={"beam": 1, "n_best": 1}), columns=columns, unk=unk)
        return stream(Steps(self, [sentence], columns, request.width), request)


def _read(path: Path, about: Mapping[str, Any]) -> Array:
    """One array of `weights.bin`."""
    shape = about["shape"]
    return np.fromfile(path, about["type"], math.prod(shape), offset=about["offset"]).reshape(shape)
