"""Regard's search as decoding backend: every model and setting, attention, candidates and interventions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from torch import Tensor

from regard.config.settings import SearchSettings
from regard.config.vocabulary import BOS, EOS, PAD, UNK
from regard.data.text.batches import source_batch
from regard.decoding.decoding import Request
from regard.decoding.engines.engine import Extras, OnceMade, Sentence, plan_batches
from regard.decoding.engines.processes import FEWEST_BATCHES, Batch, Found, Processes, may_fork
from regard.decoding.hypothesis import Hypothesis, StreamedToken
from regard.decoding.search import search, shortlist_columns
from regard.decoding.stream import stream_tokens
from regard.decoding.text_model import TextModel
from regard.errors import ConfigError
from regard.nn.linear import Int8Weights, Weights
from regard.process import leave_parents_threads


def _worker(model: TextModel) -> Callable[[Batch], Found]:
    """The search of a worker process."""
    leave_parents_threads()
    model.lazy_model.after_fork()
    engine = TorchEngine(replace(model, threads=1, workers=1), OnceMade())

    def search_batch(batch: Batch) -> Found:
        return [_compact(found) for found in engine._batch(*batch)]

    return search_batch


def _compact(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    """The hypotheses without views: a pickled view holds all the tensor behind it."""
    return [
        replace(
            each,
            attention=None if each.attention is None else {kind: own.clone() for kind, own in each.attention.items()},
            alignment=None if each.alignment is None else each.alignment.clone(),
        )
        for each in hypotheses
    ]


class TorchEngine:
    """Searches with the model itself."""

    def __init__(self, model: TextModel, made: OnceMade) -> None:
        self._model = model
        self._made = made
        can_share = model.workers > 1 and model.threads > 1 and model.device == "cpu" and may_fork()
        self._processes = Processes(model.workers, partial(_worker, model)) if can_share else None

    def why_not(self, settings: SearchSettings) -> str | None:
        return None

    def prepare(self, settings: SearchSettings) -> None:
        self._model.lazy_model.get()
        self._model.shortlist_for(settings)
        self._weights(settings)

    def is_open(self, settings: SearchSettings) -> bool:
        return True

    def takes(self, sentence: Sentence, extras: Extras, settings: SearchSettings) -> bool:
        return True

    def search(
        self, sentences: Sequence[Sentence], settings: SearchSettings, extras: Extras
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        batches = plan_batches(sentences, settings.batch_tokens)
        if self._processes is not None and len(batches) >= FEWEST_BATCHES and self._processes.take():
            self._model.lazy_model.get()  # before the fork: workers share it
            yield from self._processes.search(batches, sentences, settings, extras)
            return
        for places in batches:
            yield from zip(places, self._batch([sentences[place] for place in places], settings, extras), strict=True)

    def streams(self, settings: SearchSettings) -> bool:
        return True

    def stream(self, sentence: Sentence, settings: SearchSettings) -> Iterator[StreamedToken]:
        source, mask, prefix = self._tensors([sentence])
        request = Request(
            settings,
            bos=BOS,
            eos=EOS,
            pad=PAD,
            unk=self._unk(settings),
            prefix=prefix,
            indices=[sentence.number],
            columns=shortlist_columns(self._model.shortlist_for(settings), source, prefix),
        )
        return stream_tokens(self._model.model, source, mask, request, self._weights(settings))

    def _batch(
        self, sentences: Sequence[Sentence], settings: SearchSettings, extras: Extras
    ) -> Sequence[list[Hypothesis]]:
        source, mask, prefix = self._tensors(sentences)
        return search(
            self._model.model,
            source,
            mask,
            settings,
            prefix=prefix,
            attention=extras.attention,
            candidates=extras.candidates,
            intervention=extras.intervention,
            indices=[sentence.number for sentence in sentences],
            pad=PAD,
            bos=BOS,
            eos=EOS,
            unk=self._unk(settings),
            tree=extras.tree,
            shortlist=self._model.shortlist_for(settings),
            weights=self._weights(settings),
        )

    def _tensors(self, sentences: Sequence[Sentence]) -> tuple[Tensor, Tensor, Tensor | None]:
        device = self._model.device
        source, mask = source_batch([sentence.ids for sentence in sentences])
        prefix = None
        if any(sentence.prefix for sentence in sentences):
            prefix = source_batch([sentence.prefix for sentence in sentences])[0].to(device)
        return source.to(device), mask.to(device), prefix

    def _unk(self, settings: SearchSettings) -> int | None:
        return UNK if self._model.replaces_unknown(settings) else None

    def _weights(self, settings: SearchSettings) -> Weights | None:
        """The int8 weights if `search.int8`; else None, and each search packs its weights."""
        if settings.int8 is not True:
            return None
        if self._model.device != "cpu":
            raise ConfigError(f"search.int8 = true: runs on the CPU, not on {self._model.device}: translate without.")
        return self._made.get("int8", Int8Weights)
