"""The interface of embedded corpora: sentence pairs with gold word alignments."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from regard.errors import DataError, did_you_mean

Links = tuple[tuple[int, int], ...]
SPLITS = ("train", "valid", "test", "structures", "long")


@dataclass(frozen=True, slots=True)
class AlignedPair:
    """A sentence, its translation, and links (source word, target word) counted from 0; possible contains sure."""

    source: str
    target: str
    sure: Links
    possible: Links
    structure: str | None = None


class ToyCorpus(Protocol):
    """An embedded corpus: unlimited, generated lazily, deterministic by split and seed."""

    @property
    def name(self) -> str:
        """The corpus, as in `TOY_NAMES`."""
        ...

    @property
    def pair(self) -> str:
        """Source and target language, as in "en-fr"."""
        ...

    @property
    def source_language(self) -> str:
        """The code of the source language."""
        ...

    @property
    def target_language(self) -> str:
        """The code of the target language."""
        ...

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that the corpus has."""
        ...

    def generate(
        self,
        split: str,
        count: int,
        seed: int = 0,
        *,
        min_words: int | None = None,
        max_words: int | None = None,
    ) -> Iterator[AlignedPair]:
        """Yield `count` pairs of a split whose sources have `min_words` to `max_words` words."""
        ...

    def find(self, source: str) -> AlignedPair | None:
        """The pair of this source sentence; None if it is not one of the corpus, or not known to be."""
        ...


def check_split(split: str, known: tuple[str, ...], corpus: str) -> None:
    """Raise if the corpus has no such split."""
    if split not in known:
        raise DataError(f"split {split!r}: the corpus {corpus!r} has no such split; {did_you_mean(split, known)}")


def length_bounds(
    corpus: str, shortest: int, longest: int, min_words: int | None, max_words: int | None
) -> tuple[int, int]:
    """The bounds on source words, by default the corpus's own; raises if no sentence meets them."""
    low = shortest if min_words is None else max(shortest, min_words)
    high = longest if max_words is None else min(longest, max_words)
    if low > high:
        raise DataError(
            f"min_words {min_words}, max_words {max_words}: {corpus!r} has sentences of {shortest} to {longest} "
            "words here; choose bounds that meet them."
        )
    return low, high
