"""Natural English from a synchronous grammar, with its translation and its gold word alignment."""

import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from regard.data.toy.pairs import SPLITS, AlignedPair, check_split, length_bounds
from regard.data.toy.phrases import english, french, german, korean
from regard.data.toy.phrases.grammar import Grammar
from regard.data.toy.phrases.tokens import Token, link
from regard.data.toy.phrases.trees import Sentence

PAIRS = ("en-fr", "en-de", "en-ko")
RENDERERS: dict[str, Callable[[Sentence], list[Token]]] = {
    "fr": french.sentence,
    "de": german.sentence,
    "ko": korean.sentence,
}
LENGTHS = (3, 60)
LONG_LENGTHS = (40, 60)
FOUND = 1_000  # sentences of a split that `find` knows
# How often a sentence has 1, 2, 3 … clauses: mostly short, with a real tail up to 60 words.
CLAUSE_WEIGHTS = (56, 24, 8, 3, 3, 2, 2, 2)


@dataclass(frozen=True, slots=True)
class PhraseCorpus:
    """English sentences of 3 to 60 words; one seed gives the same English for every target language."""

    pair: str
    name: str = "phrases"
    splits: tuple[str, ...] = SPLITS

    @property
    def source_language(self) -> str:
        """The code of the source language."""
        return self.pair.partition("-")[0]

    @property
    def target_language(self) -> str:
        """The code of the target language."""
        return self.pair.partition("-")[2]

    def generate(
        self,
        split: str,
        count: int,
        seed: int = 0,
        *,
        min_words: int | None = None,
        max_words: int | None = None,
    ) -> Iterator[AlignedPair]:
        """Yield pairs of 3 to 60 source words ("long": 40 to 60)."""
        check_split(split, self.splits, self.name)
        shortest, longest = LONG_LENGTHS if split == "long" else LENGTHS
        low, high = length_bounds(self.name, shortest, longest, min_words, max_words)
        return self._stream(split, count, seed, low, high)

    def find(self, source: str) -> AlignedPair | None:
        """The pair of one of the first 1,000 sentences of the splits valid and test; the grammar does not parse."""
        split = split_of(source, held_out=False)
        return _first_pairs(self, split).get(source) if split in ("valid", "test") else None

    def _stream(self, split: str, count: int, seed: int, low: int, high: int) -> Iterator[AlignedPair]:
        rng = random.Random(f"{self.name}/{split}/{seed}")
        grammar = Grammar(rng, allow_held_out=split == "structures")
        render = RENDERERS[self.target_language]
        numbers, weights = clause_numbers(low, high)
        while count > 0:
            tree = grammar.sentence(rng.choices(numbers, weights)[0])
            source = english.sentence(tree)
            text = " ".join(token.text for token in source)
            if not low <= len(source) <= high or split_of(text, grammar.held_out > 0) != split:
                continue
            target = render(tree)
            sure, possible = link(source, target)
            structure = " / ".join(grammar.structures)
            yield AlignedPair(text, " ".join(token.text for token in target), sure, possible, structure)
            count -= 1


@lru_cache(maxsize=2 * len(PAIRS))
def _first_pairs(corpus: PhraseCorpus, split: str) -> dict[str, AlignedPair]:
    """The first pairs of a split, by their source."""
    return {pair.source: pair for pair in corpus.generate(split, FOUND)}


def clause_numbers(low: int, high: int) -> tuple[list[int], list[int]]:
    """Numbers of clauses that can meet the bounds on words, with their weights; a clause has about 7 words."""
    if low > 20:
        numbers = list(range(low // 9, high // 6 + 1))
        return numbers, [1] * len(numbers)
    numbers = list(range(1, max(1, min(len(CLAUSE_WEIGHTS), high // 4)) + 1))
    return numbers, [CLAUSE_WEIGHTS[number - 1] for number in numbers]


def split_of(source: str, held_out: bool) -> str:
    """The split that a sentence belongs to: by the structure of its clauses, then by a stable hash of its words."""
    if held_out:
        return "structures"
    bucket = zlib.crc32(source.encode()) % 10
    if bucket in (2, 3) and source.count(" ") + 1 >= LONG_LENGTHS[0]:
        return "long"
    return {0: "valid", 1: "test"}.get(bucket, "train")


def productions(pair: AlignedPair) -> set[str]:
    """The names of the grammar's productions that a pair shows."""
    return set((pair.structure or "").replace("/", " ").replace("+", " ").replace(":", " ").split())
