"""Selects the decoding backend: the only place that reads `search.engine`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from regard.config.settings import SearchSettings
from regard.config.vocabulary import UNK
from regard.decoding.engines.ctranslate2 import CTranslate2Engine
from regard.decoding.engines.engine import Engine, Extras, OnceMade, Sentence
from regard.decoding.hypothesis import Hypothesis, StreamedToken
from regard.decoding.text_model import TextModel
from regard.errors import ConfigError
from regard.process import leave_parents_threads

NOTHING = Extras()


def torch_engine(model: TextModel, made: OnceMade) -> Engine:
    """Regard's search; it alone imports torch."""
    from regard.decoding.engines.torch import TorchEngine

    return TorchEngine(model, made)


ENGINES: dict[str, Callable[[TextModel, OnceMade], Engine]] = {
    "torch": torch_engine,
    "ctranslate2": CTranslate2Engine,
}


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
        engine = self._chosen(settings)
        left = list(range(len(sentences)))
        if settings.engine != "torch":
            own = [place for place in left if engine.takes(sentences[place], extras, settings)]
            unknown = self.model.replaces_unknown(settings)
            done = set()
            for number, hypotheses in engine.search([sentences[place] for place in own], settings, extras):
                if unknown and any(UNK in each.ids for each in hypotheses):
                    continue  # a compiled engine has no attention for <unk> replacement
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
        engine = self._chosen(settings)
        possible = engine.streams(settings) and engine.takes(sentence, NOTHING, settings)
        if not possible or (settings.engine != "torch" and self.model.replaces_unknown(settings)):
            engine = self._engine("torch")
        return engine.stream(sentence, settings)

    def prepare(self, settings: SearchSettings) -> None:
        """Make the weights for these settings; raise if the engine does not support them."""
        self.after_fork()
        self._chosen(settings)

    def _chosen(self, settings: SearchSettings) -> Engine:
        engine = self._engine(settings.engine)
        why = engine.why_not(settings)
        if why is not None:
            raise ConfigError(f'search.engine = "{settings.engine}": {why}: use search.engine = "torch".')
        engine.prepare(settings)
        return engine
