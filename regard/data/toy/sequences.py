"""Copy, reverse and sort: the smallest tasks that attention must learn, with exact alignments."""

import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from regard.data.toy.pairs import AlignedPair, check_split, length_bounds

# Forty syllables: too many to guess the order, few enough to learn in a minute.
SYLLABLES = tuple(sorted(consonant + vowel for consonant in "bdfgklmn" for vowel in "aeiou"))
TRAINED_LENGTHS = (1, 20)
LONG_LENGTHS = (21, 40)


def _copy(words: list[str]) -> list[int]:
    return list(range(len(words)))


def _reverse(words: list[str]) -> list[int]:
    return list(range(len(words)))[::-1]


def _sort(words: list[str]) -> list[int]:
    return sorted(range(len(words)), key=words.__getitem__)  # Python's sort is stable, so ties keep their order.


# The target order of each task.
ORDERS: dict[str, Callable[[list[str]], list[int]]] = {"copy": _copy, "reverse": _reverse, "sort": _sort}


@dataclass(frozen=True, slots=True)
class SequenceCorpus:
    """Random syllables, repeated in the same, reverse or alphabetical order."""

    name: str
    pair: str = "syllables"
    source_language: str = "syllables"
    target_language: str = "syllables"
    splits: tuple[str, ...] = ("train", "valid", "test", "long")

    def generate(
        self,
        split: str,
        count: int,
        seed: int = 0,
        *,
        min_words: int | None = None,
        max_words: int | None = None,
    ) -> Iterator[AlignedPair]:
        """Yield pairs of 1 to 20 words ("long": 21 to 40), each length equally often."""
        check_split(split, self.splits, self.name)
        shortest, longest = LONG_LENGTHS if split == "long" else TRAINED_LENGTHS
        low, high = length_bounds(self.name, shortest, longest, min_words, max_words)
        return self._stream(split, count, seed, low, high)

    def _stream(self, split: str, count: int, seed: int, low: int, high: int) -> Iterator[AlignedPair]:
        rng = random.Random(f"{self.name}/{split}/{seed}")
        for _ in range(count):
            length = rng.randint(low, high)
            words = rng.choices(SYLLABLES, k=length)
            while split_of(words) != split:
                words = rng.choices(SYLLABLES, k=length)
            yield self._pair(words)

    def find(self, source: str) -> AlignedPair | None:
        """The pair of any sentence of 1 to 40 of the syllables."""
        words = source.split()
        known = 0 < len(words) <= LONG_LENGTHS[1] and all(word in SYLLABLES for word in words)
        return self._pair(words) if known else None

    def _pair(self, words: list[str]) -> AlignedPair:
        order = ORDERS[self.name](words)
        links = tuple(sorted((source, target) for target, source in enumerate(order)))
        return AlignedPair(" ".join(words), " ".join(words[index] for index in order), links, links)


def split_of(words: list[str]) -> str:
    """The split of a source sentence: by its length, then by a stable hash of its words."""
    if len(words) > TRAINED_LENGTHS[1]:
        return "long"
    bucket = zlib.crc32(" ".join(words).encode()) % 10
    return {0: "valid", 1: "test"}.get(bucket, "train")
