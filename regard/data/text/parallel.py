"""Parallel text in files, read in blocks of whole lines and decoded later, possibly by another process.

Two aligned files, or one file with tabs; plain or gzip. A malformed line or pair is an error with file and line.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from regard.data.lines import WholeLines, count_lines, decode_block, decode_line
from regard.errors import DataError

LINES = 16_384  # pairs in a block
BYTES = 8 << 20  # bytes of one side that end a block of fewer pairs

Chosen = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation."""

    source: str
    target: str


@dataclass(frozen=True)
class TabbedFile:
    """A TSV file and the numbers of its source and target columns, counted from 1."""

    path: Path
    columns: tuple[int, int] = (1, 2)

    def __post_init__(self) -> None:
        if min(self.columns) < 1 or self.columns[0] == self.columns[1]:
            raise DataError(f"columns {self.columns}: source and target are two columns, counted from 1.")

    @property
    def name(self) -> str:
        """The file's name and the columns."""
        return f"{self.path.name}, columns {self.columns[0]} and {self.columns[1]}"


@dataclass(frozen=True)
class Files:
    """Two aligned files; or one with tabs, and the columns of both sides (None: the only two)."""

    source: str
    target: str | None = None
    columns: tuple[int, int] | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """The one or two files."""
        return (Path(self.source),) if self.target is None else (Path(self.source), Path(self.target))


@dataclass(frozen=True)
class Place:
    """A position between two pairs of some files: the pairs before it, and its byte offset in each file."""

    pairs: int = 0
    offsets: tuple[int, ...] = ()


@dataclass(frozen=True)
class Block:
    """Consecutive pairs of files, not decoded."""

    files: Files
    start: int  # pairs before it in the files
    count: int
    raw: tuple[bytes, ...]  # whole lines of each file
    end: Place

    def lines(self, chosen: Chosen | None = None) -> tuple[list[str], list[str]]:
        """Both sides, strictly decoded; of some pairs if `chosen` (count,) is given."""
        if chosen is None or 8 * np.count_nonzero(chosen) > self.count:
            lines = [
                decode_block(raw, str(path), self.start + 1)
                for raw, path in zip(self.raw, self.files.paths, strict=True)
            ]
            sides = self._sides(lines, range(self.start + 1, self.start + self.count + 1))
            if chosen is None:
                return sides
            return list(itertools.compress(sides[0], chosen)), list(itertools.compress(sides[1], chosen))
        places = np.flatnonzero(chosen).tolist()  # few: decode and check only them
        lines = []
        for raw, path in zip(self.raw, self.files.paths, strict=True):
            cut = raw.split(b"\n")
            lines.append([decode_line(cut[place], str(path), self.start + place + 1) for place in places])
        return self._sides(lines, [self.start + place + 1 for place in places])

    def _sides(self, lines: list[list[str]], numbers: Sequence[int]) -> tuple[list[str], list[str]]:
        return (lines[0], lines[1]) if len(lines) == 2 else _columns_of(self.files, lines[0], numbers)


def read_pairs(source: Path | str | TabbedFile, target: Path | str | None = None) -> Iterator[Pair]:
    """The sentence pairs of two aligned files, or of one file with a tab between the sides."""
    for block in read_blocks(files_of(source, target)):
        yield from map(Pair, *block.lines())


def files_of(source: Path | str | TabbedFile, target: Path | str | None = None) -> Files:
    """The files that a user names."""
    if isinstance(source, TabbedFile):
        assert target is None
        return Files(str(source.path), None, source.columns)
    return Files(str(source), None if target is None else str(target))


def read_blocks(files: Files, after: Place | None = None) -> Iterator[Block]:
    """The blocks of the files, from a place on; where they end depends on the text alone."""
    start = after or Place(0, (0,) * len(files.paths))
    with ExitStack() as opened:
        streams = [
            opened.enter_context(closing(WholeLines(path, start.pairs, offset)))
            for path, offset in zip(files.paths, start.offsets, strict=True)
        ]
        while count := min(stream.ready(LINES, BYTES) for stream in streams):
            raw = tuple(stream.take(count) for stream in streams)
            end = Place(start.pairs + count, tuple(stream.offset for stream in streams))
            yield Block(files, start.pairs, count, raw, end)
            start = end
        counts = [start.pairs + stream.count_rest() for stream in streams]
    if len(set(counts)) > 1:
        raise DataError(
            f"{files.source} has {counts[0]} lines but {files.target} has {counts[1]}: line n of one must translate "
            "line n of the other. Align the files first."
        )
    if not start.pairs:
        names = " and ".join(map(str, files.paths))
        raise DataError(f"{names}: no lines. Give files with at least one sentence pair.")


def count_pairs(files: Files) -> int:
    """The number of pairs, by line ends alone: nothing is decoded. Unequal files are refused when they are read."""
    return min(count_lines(path) for path in files.paths)


def _columns_of(files: Files, lines: list[str], numbers: Sequence[int]) -> tuple[list[str], list[str]]:
    rows = [line.split("\t") for line in lines]
    source, target = files.columns or (1, 2)
    least, most = (2, 2) if files.columns is None else (max(files.columns), None)
    for row, number in zip(rows, numbers, strict=True):
        if len(row) >= least and (most is None or len(row) <= most):
            continue
        found = "1 column" if len(row) == 1 else f"{len(row)} columns"
        if most is None:
            raise DataError(
                f"{files.source}:{number}: {found}, but --columns {source},{target} asks for column {least}: mend the "
                "line, or choose others."
            )
        remedy = "choose two with --columns 1,2" if len(row) > most else "put a tab between them, or give two files"
        raise DataError(f"{files.source}:{number}: {found} where source and target are two: {remedy}.")
    return [row[source - 1] for row in rows], [row[target - 1] for row in rows]
