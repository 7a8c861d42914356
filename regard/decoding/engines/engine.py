"""The interface between a translator and its decoding backends."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from regard.config.settings import SearchSettings
from regard.decoding.hypothesis import Hypothesis, StreamedToken
from regard.process import abandon

if TYPE_CHECKING:
    from regard.decoding.tree import BeamTree
    from regard.nn.attention.intervention import Intervention

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A source sentence in token ids, EOS included."""

    ids: Sequence[int]
    prefix: Sequence[int] = ()  # target prefix
    number: int = 0  # seeds sampling


@dataclass(frozen=True)
class Extras:
    """Records and interventions beyond the translation itself."""

    attention: bool = False
    candidates: int = 0
    intervention: Intervention | None = None
    tree: BeamTree | None = None  # of the one sentence

    def __bool__(self) -> bool:
        return bool(self.attention or self.candidates or self.intervention or self.tree is not None)


def maximum_length(sentence: Sequence[int], settings: SearchSettings) -> int:
    """Maximum length of its translation, in float32 as in `constraints.py`."""
    return int(np.float32(settings.max_length_ratio) * np.float32(len(sentence))) + settings.max_length_extra


class Engine(Protocol):
    """A decoding backend for one model; thread-safe."""

    def why_not(self, settings: SearchSettings) -> str | None:
        """Why it does not support this model and these settings; None if it does."""

    def prepare(self, settings: SearchSettings) -> None:
        """Make the weights for these settings, once; raise if unsupported."""

    def is_open(self, settings: SearchSettings) -> bool:
        """Whether the weights for these settings are made; `int8` is not "auto"."""

    def takes(self, sentence: Sentence, extras: Extras, settings: SearchSettings) -> bool:
        """Whether it supports this sentence and these extras."""

    def search(
        self, sentences: Sequence[Sentence], settings: SearchSettings, extras: Extras
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yield index and n-best list of each sentence, as sentences finish."""

    def streams(self, settings: SearchSettings) -> bool:
        """Whether it supports streaming with these settings."""

    def stream(self, sentence: Sentence, settings: SearchSettings) -> Iterator[StreamedToken]:
        """Stream the tokens of one translation: greedy search or one sample."""


SMALL_BATCH = 2048  # tokens with which a batch is still efficient


def plan_batches(sentences: Sequence[Sentence], batch_tokens: int) -> list[list[int]]:
    """Batches of indices, longest sentences first, so that out-of-memory errors occur early.

    A batch has at most `batch_tokens`, padding included, and about an eighth of all unless that is too small to be
    efficient: workers then share few sentences evenly too. It depends on nothing but the sentences.
    """
    lengths = [len(sentence.ids) for sentence in sentences]
    most = min(batch_tokens, max(SMALL_BATCH, sum(lengths) // 8))
    order = sorted(range(len(lengths)), key=lambda place: lengths[place], reverse=True)
    batches = []
    while order:
        count = max(1, most // lengths[order[0]])
        batches.append(order[:count])
        order = order[count:]
    return batches


class OnceMade:
    """Lazily made weights of the engines, each made once under one lock."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of the key; made now if missing."""
        with self._lock:
            if key not in self._made:
                self._made[key] = make()
            found: T = self._made[key]
            return found

    def abandon(self) -> None:
        """Drop everything in a forked process: the parent's threads are gone, and one may have held the lock."""
        abandon(*self._made.values())
        self._made, self._lock = {}, Lock()

    def __contains__(self, key: Hashable) -> bool:
        """Whether the value of the key is made."""
        return key in self._made
