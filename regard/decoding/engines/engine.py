"""The contract between a translator and the backends that search for it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol, TypeVar

from regard.config.settings import SearchSettings
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.stream import StreamedToken
from regard.decoding.tree import BeamTree
from regard.nn.attention.intervention import Intervention
from regard.process import abandon

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A source sentence in token ids, EOS included."""

    ids: Sequence[int]
    prefix: Sequence[int] = ()  # forced beginning of its translation
    number: int = 0  # seeds its samples


@dataclass(frozen=True)
class Extras:
    """What is recorded or changed on the way, beyond the translation itself."""

    attention: bool = False
    candidates: int = 0
    intervention: Intervention | None = None
    tree: BeamTree | None = None  # of the one sentence

    def __bool__(self) -> bool:
        return bool(self.attention or self.candidates or self.intervention or self.tree is not None)


class Engine(Protocol):
    """A decoding backend for one model. Any number of threads may use it at once."""

    def why_not(self, settings: SearchSettings) -> str | None:
        """Why it cannot search with this model by these settings; None if it can."""

    def prepare(self, settings: SearchSettings) -> None:
        """Make the weights that the settings ask for, once; raise if that is impossible."""

    def takes(self, sentence: Sentence, extras: Extras, settings: SearchSettings) -> bool:
        """Whether it can search for this sentence and record these extras."""

    def search(
        self, sentences: Sequence[Sentence], settings: SearchSettings, extras: Extras
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Place and hypotheses of each sentence, the best first, as they get done."""

    def streams(self, settings: SearchSettings) -> bool:
        """Whether it can give the tokens one by one by these settings."""

    def stream(self, sentence: Sentence, settings: SearchSettings) -> Iterator[StreamedToken]:
        """The tokens of one translation, as they are found: greedy search, or one sample."""


class OnceMade:
    """Weights that engines make when they are first needed, each once, under one lock."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """What is kept under the key; made now if it is missing."""
        with self._lock:
            if key not in self._made:
                self._made[key] = make()
            found: T = self._made[key]
            return found

    def abandon(self) -> None:
        """Forget everything in a forked process: weights may need threads of the parent, one of which had the lock."""
        abandon(*self._made.values())
        self._made, self._lock = {}, Lock()

    def keys(self) -> list[Hashable]:
        """What was made so far."""
        with self._lock:
            return list(self._made)
