"""Selects the decoding backend: the only place that reads `search.engine`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib.util import find_spec

from regard.config.settings import SearchSettings
from regard.config.vocabulary import UNK
from regard.decoding.engines.ctranslate2 import CTranslate2Engine
from regard.decoding.engines.engine import Engine, Extras, OnceMade, Sentence
from regard.decoding.engines.onnxruntime.engine import OnnxRuntimeEngine
from regard.decoding.hypothesis import Hypothesis, StreamedToken
from regard.decoding.text_model import TextModel
from regard.errors import ConfigError
from regard.machine import processor
from regard.process import leave_parents_threads

NOTHING = Extras()
MOST_INT8_LOSS = 0.1  # BLEU; with less, `search.int8 = "auto"` is int8


def torch_engine(model: TextModel, made: OnceMade) -> Engine:
    """Regard's search; it alone imports torch."""
    from regard.decoding.engines.torch import TorchEngine

    return TorchEngine(model, made)


@cache
def is_installed(package: str) -> bool:
    """Whether a package is installed; searched once, since each request asks."""
    return find_spec(package) is not None


ENGINES: dict[str, Callable[[TextModel, OnceMade], Engine]] = {
    "ctranslate2": CTranslate2Engine,
    "onnxruntime": OnnxRuntimeEngine,
    "torch": torch_engine,
}
"""The engines, fastest first; torch supports everything."""


class Engines:
    """The engines of one model. Sentences and extras that the selected one does not support go to torch.

    Packed, int8 or converted weights are made at first use; a model whose weights change later needs new engines.
    """

    def __init__(self, model: TextModel) -> None:
        self.made = OnceMade()
        self._assemble(model)

    def _assemble(self, model: TextModel) -> None:
        self.model = model
        self._engines: dict[str, Engine] = {}
        self._process = os.getpid()

    def _engine(self, name: str) -> Engine:
        return self._engines.setdefault(name, ENGINES[name](self.model, self.made))

    def after_fork(self) -> None:
        """Drop the state of the parent's threads in a forked process; does nothing elsewhere."""
        if self._process != os.getpid():
            self.made.abandon()
            self.model.lazy_model.after_fork()
            leave_parents_threads()
            self._assemble(replace(self.model, threads=1))

    def search(
        self, sentences: Sequence[Sentence], settings: SearchSettings, extras: Extras = NOTHING
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yield index and n-best list of each sentence, as sentences finish."""
        self.after_fork()
        name = self.name(settings)
        wanted = self._decided(settings, name)
        left = list(range(len(sentences)))
        if name != "torch":
            engine = self._engine(name)
            own = [place for place in left if engine.takes(sentences[place], extras, wanted)]
            unknown = self.model.replaces_unknown(settings)
            done = set()
            for number, hypotheses in engine.search([sentences[place] for place in own], wanted, extras) if own else ():
                if unknown and any(UNK in each.ids and each.attended is None for each in hypotheses):
                    continue  # no attention for <unk> replacement
                done.add(own[number])
                yield own[number], hypotheses
            left = [place for place in left if place not in done]
            if not left:
                return  # without torch
        for number, hypotheses in self._engine("torch").search([sentences[place] for place in left], settings, extras):
            yield left[number], hypotheses

    def stream(self, sentence: Sentence, settings: SearchSettings) -> Iterator[StreamedToken]:
        """Stream the tokens of one translation."""
        self.after_fork()
        name = self.name(settings)
        engine = self._engine(name)
        possible = engine.streams(settings) and engine.takes(sentence, NOTHING, settings)
        if not possible or (name == "ctranslate2" and self.model.replaces_unknown(settings)):
            return self._engine("torch").stream(sentence, settings)
        return engine.stream(sentence, self._decided(settings, name))

    def prepare(self, settings: SearchSettings) -> None:
        """Make the weights for these settings; raise if the engine does not support them."""
        self.after_fork()
        name = self.name(settings)
        self._engine(name).prepare(self._decided(settings, name))

    def name(self, settings: SearchSettings) -> str:
        """The engine of these settings; raises if the wanted one does not support them."""
        if settings.engine == "auto":
            return next(name for name in ENGINES if self.why_not(name, settings) is None)
        why = self._engine(settings.engine).why_not(settings)
        if why is not None:
            raise ConfigError(f'search.engine = "{settings.engine}": {why}: use search.engine = "torch".')
        return settings.engine

    def resolved(self, settings: SearchSettings) -> SearchSettings:
        """The settings for the selected engine, with int8 decided; torch takes "auto" as float32."""
        return self._decided(settings, self.likely(settings))

    def _decided(self, settings: SearchSettings, name: str) -> SearchSettings:
        """The settings for the engine of this name, with int8 decided."""
        if settings.int8 == "auto" and name == "torch":
            return settings.model_copy(update={"int8": False})
        return self._compiled_settings(settings)

    def _compiled_settings(self, settings: SearchSettings) -> SearchSettings:
        """The settings for a compiled engine, with int8 decided."""
        if settings.int8 != "auto":
            return settings
        loss = self.model.int8_loss
        return settings.model_copy(update={"int8": loss is not None and loss < MOST_INT8_LOSS})

    def likely(self, settings: SearchSettings) -> str:
        """The engine of these settings, supported or not."""
        return self.name(settings) if settings.engine == "auto" else settings.engine

    def described(self, settings: SearchSettings) -> str:
        """The engine of these settings, and whether it computes in int8."""
        return f"{self.likely(settings)}{' int8' if self.resolved(settings).int8 else ''}"

    def why_not(self, name: str, settings: SearchSettings) -> str | None:
        """Why "auto" does not select this engine; None if it may."""
        if name == "torch":
            return None
        if not self.model.compiled.has_folder:
            return "the model was not loaded from a folder, or may have changed since"
        if not is_installed(name):
            return f"{name} is not installed"
        is_open = self._engine(name).is_open(self._compiled_settings(settings))
        if not is_open and not self.model.compiled.kept:  # an open engine has the model as it was loaded
            return "the folder of the model has changed since it was opened"
        why = self._engine(name).why_not(settings)
        if why is None and not processor.verdict(name).works:
            return "this processor does not execute all the instructions that it advertises"
        return why
