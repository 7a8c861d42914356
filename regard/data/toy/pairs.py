"""What every embedded corpus gives: pairs of sentences with their gold word alignment."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from regard.errors import DataError, did_you_mean

Links = tuple[tuple[int, int], ...]
SPLITS = ("train", "valid", "test", "structures", "long")


@dataclass(frozen=True, slots=True)
class AlignedPair:
    """A sentence, its translation, and the links (source word, target word) from 0; possible contains sure."""

    source: str
    target: str
    sure: Links
    possible: Links
    structure: str | None = None


class ToyCorpus(Protocol):
    """An embedded corpus: deterministic by split and seed, unlimited, generated while it is read."""

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


def check_split(split: str, known: tuple[str, ...], corpus: str) -> None:
    """Refuse a split that the corpus does not have."""
    if split not in known:
        raise DataError(f"split {split!r}: the corpus {corpus!r} has no such split; {did_you_mean(split, known)}")


def length_bounds(
    corpus: str, shortest: int, longest: int, min_words: int | None, max_words: int | None
) -> tuple[int, int]:
    """The asked bounds on source words, or a corpus's own; bounds that no sentence meets are refused."""
    low = shortest if min_words is None else max(shortest, min_words)
    high = longest if max_words is None else min(longest, max_words)
    if low > high:
        raise DataError(
            f"min_words {min_words}, max_words {max_words}: {corpus!r} has sentences of {shortest} to {longest} "
            "words here; choose bounds that meet them."
        )
    return low, high
