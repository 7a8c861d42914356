"""A text: one corpus of sentence pairs or several, read in blocks as often as needed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from regard.data.text import parallel
from regard.data.text.parallel import Block, Chosen, Files, Pair, Place, count_pairs, read_blocks


@dataclass(frozen=True)
class PairBlock:
    """Consecutive pairs in memory."""

    start: int  # pairs before it
    pairs: list[Pair]

    @property
    def count(self) -> int:
        """The number of pairs."""
        return len(self.pairs)

    @property
    def end(self) -> Place:
        """The place behind the block."""
        return Place(self.start + len(self.pairs))

    def lines(self, chosen: Chosen | None = None) -> tuple[list[str], list[str]]:
        """Both sides; of some pairs if `chosen` (count,) is given."""
        pairs = self.pairs if chosen is None else list(itertools.compress(self.pairs, chosen))
        return [pair.source for pair in pairs], [pair.target for pair in pairs]


@dataclass(frozen=True)
class Corpus:
    """Files, or pairs in memory that can be iterated repeatedly."""

    description: str
    given: Files | Callable[[], Iterable[Pair]]
    back_translated: bool = False  # its sources were translated by a model

    def blocks(self, after: Place | None = None) -> Iterator[Block | PairBlock]:
        """The blocks, from a place on."""
        if isinstance(self.given, Files):
            yield from read_blocks(self.given, after)
            return
        start = 0 if after is None else after.pairs
        pairs = itertools.islice(self.given(), start, None)
        while block := list(itertools.islice(pairs, parallel.LINES)):
            yield PairBlock(start, block)
            start += len(block)

    @cached_property
    def size(self) -> int:
        """The number of pairs; those of files are counted by line ends."""
        return count_pairs(self.given) if isinstance(self.given, Files) else sum(1 for _ in self.given())

    @property
    def bytes(self) -> int:
        """The size of its files; 0 in memory."""
        return sum(path.stat().st_size for path in self.given.paths) if isinstance(self.given, Files) else 0


@dataclass(frozen=True)
class Piece:
    """A block of one corpus of a text."""

    corpus: int
    block: Block | PairBlock
    chosen: Chosen | None  # (count,) pairs of the block that belong to the text; None: all

    @property
    def size(self) -> int:
        """The number of pairs of the text in it."""
        return self.block.count if self.chosen is None else int(np.count_nonzero(self.chosen))


@dataclass(frozen=True)
class Text:
    """Corpora one after another; with weights, each epoch draws pairs from them in these proportions.

    With `every`, every n-th pair of each corpus is held out for validation (not of back-translated ones): the text is
    the other pairs, or the held-out ones.
    """

    corpora: tuple[Corpus, ...]
    weights: tuple[float, ...] | None = None
    every: int | None = None
    held: bool = False

    @property
    def description(self) -> str:
        """For logs and the model card."""
        names = "; ".join(corpus.description for corpus in self.corpora)
        if self.every is None:
            return names
        return f"1 pair in {self.every} of {names}" if self.held else f"{names} without 1 pair in {self.every}"

    def pieces(self, corpus: int = 0, after: Place | None = None) -> Iterator[Piece]:
        """The blocks of all corpora, from a place in one of them on."""
        for number in range(corpus, len(self.corpora)):
            for block in self.corpora[number].blocks(after):
                chosen = self._chosen(self.corpora[number], block.start, block.count)
                if chosen is None or chosen.any():
                    yield Piece(number, block, chosen)
            after = None

    def pairs(self) -> Iterator[Pair]:
        """The sentence pairs."""
        for piece in self.pieces():
            yield from map(Pair, *piece.block.lines(piece.chosen))

    @cached_property
    def size(self) -> int:
        """The number of pairs."""
        held = 0
        if self.every is not None:
            held = sum(corpus.size // self.every for corpus in self.corpora if not corpus.back_translated)
        return held if self.held else sum(corpus.size for corpus in self.corpora) - held

    def _chosen(self, corpus: Corpus, start: int, count: int) -> Chosen | None:
        if self.every is None:
            return None
        if corpus.back_translated:
            return np.full(count, not self.held)
        chosen: Chosen = (np.arange(start + 1, start + count + 1) % self.every == 0) == self.held
        return chosen

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(corpus.bytes for corpus in self.corpora)
