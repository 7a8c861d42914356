"""Parallel text: read strictly from files, stored as token ids in memory-mapped arrays.

`regard.data.lines` reads the lines. A malformed pair is an error with file and line.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.data.lines import read_lines
from regard.data.text.tokenizer import Tokenizer
from regard.errors import DataError
from regard.storage.files import reason, sync_folder, writing_folder
from regard.storage.reading import CONFIG_BYTES, parse_json, read_bounded

FORMAT = 1
CHUNK = 4096  # pairs per encoding job

Ids = npt.NDArray[np.integer[Any]]


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
class Skipped:
    """The number of pairs dropped and kept."""

    empty: int
    too_long: int
    kept: int


# --- reading text -------------------------------------------------------------------------------------------------


def read_pairs(source: Path | str | TabbedFile, target: Path | str | None = None) -> Iterator[Pair]:
    """The sentence pairs of two aligned files, or of one file with a tab between the sides."""
    if isinstance(source, TabbedFile):
        assert target is None
        path, pairs = source.path, _read_columns(source)
    else:
        path, pairs = Path(source), _read_tabbed(source) if target is None else _read_aligned(source, target)
    count = 0
    for pair in pairs:
        count += 1
        yield pair
    if not count:
        files = str(path) if target is None else f"{path} and {target}"
        raise DataError(f"{files}: no lines. Give files with at least one sentence pair.")


def _read_aligned(source: Path | str, target: Path | str) -> Iterator[Pair]:
    lines = itertools.zip_longest(read_lines(source), read_lines(target))
    for number, (left, right) in enumerate(lines, 1):
        if left is None or right is None:
            longer = number + sum(1 for _ in lines)
            counts = (number - 1, longer) if left is None else (longer, number - 1)
            raise DataError(
                f"{source} has {counts[0]} lines but {target} has {counts[1]}: line n of one must translate "
                "line n of the other. Align the files first."
            )
        yield Pair(left, right)


def _read_tabbed(path: Path | str) -> Iterator[Pair]:
    for number, line in enumerate(read_lines(path), 1):
        sides = line.split("\t")
        if len(sides) != 2:
            remedy = "choose two with --columns 1,2" if len(sides) > 2 else "put a tab between them, or give two files"
            raise DataError(f"{path}:{number}: {_columns(len(sides))} where source and target are two: {remedy}.")
        yield Pair(sides[0], sides[1])


def _read_columns(file: TabbedFile) -> Iterator[Pair]:
    source, target = file.columns
    for number, line in enumerate(read_lines(file.path), 1):
        sides = line.split("\t")
        if len(sides) < max(file.columns):
            raise DataError(
                f"{file.path}:{number}: {_columns(len(sides))}, but --columns {source},{target} asks for column "
                f"{max(file.columns)}: mend the line, or choose others."
            )
        yield Pair(sides[source - 1], sides[target - 1])


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"


# --- token ids on disk --------------------------------------------------------------------------------------------


class EncodedCorpus:
    """Sentence pairs as memory-mapped token ids.

    The folder holds `source.ids`, `target.ids` (all sentences concatenated, each with EOS), `source.offsets`,
    `target.offsets` (pairs + 1 start positions) and `corpus.json`.
    """

    def __init__(
        self, folder: Path, source: EncodedSide, target: EncodedSide, skipped: Skipped, fingerprint: str
    ) -> None:
        self.folder = folder
        self.skipped = skipped
        self.fingerprint = fingerprint
        self.source = source
        self.target = target

    @classmethod
    def build(
        cls,
        pairs: Iterable[Pair],
        source: Tokenizer,
        target: Tokenizer,
        folder: Path,
        max_length: int,
        on_progress: Callable[[int], None] | None = None,
    ) -> EncodedCorpus:
        """Encode all pairs and write the folder atomically; `on_progress` receives the number of pairs read.

        Pairs with a blank side, or with more than `max_length` tokens on one side (EOS included), are dropped.
        """
        if folder.exists() and not (folder / "corpus.json").exists():
            raise DataError(f"{folder}: exists and is not an encoded corpus. Remove it or choose another folder.")
        try:
            with writing_folder(folder) as fresh:
                _write(pairs, source, target, fresh, max_length, on_progress)
        except OSError as error:
            raise DataError(
                f"{folder}: the encoded corpus cannot be written ({reason(error, folder)}). Make room or choose "
                "another place."
            ) from error
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> EncodedCorpus:
        """Memory-map the corpus that `build` wrote."""
        try:
            about = parse_json(read_bounded(folder / "corpus.json", CONFIG_BYTES, DataError))
            if about["format"] != FORMAT:
                raise ValueError(f"format {about['format']}, not {FORMAT}")
            skipped = Skipped(**about["skipped"])
            counts = (*asdict(skipped).values(), about["source"]["tokens"], about["target"]["tokens"])
            if not all(type(count) is int and count >= 0 for count in counts):
                raise ValueError("invalid counts")
            sides = [
                EncodedSide.open(folder, name, about[name]["type"], about[name]["tokens"], skipped.kept)
                for name in ("source", "target")
            ]
            return cls(folder, sides[0], sides[1], skipped, str(about["fingerprint"]))
        except (OSError, ValueError, KeyError, TypeError, OverflowError, DataError) as error:
            raise DataError(
                f"{folder}: the encoded corpus is missing or damaged ({error}). Remove the folder and train again."
            ) from error

    def __len__(self) -> int:
        return self.skipped.kept

    @property
    def source_lengths(self) -> npt.NDArray[np.int32]:
        """(pairs,) tokens of each source, EOS included."""
        return self.source.lengths

    @property
    def target_lengths(self) -> npt.NDArray[np.int32]:
        """(pairs,) tokens of each target, EOS included."""
        return self.target.lengths


@dataclass(frozen=True)
class EncodedSide:
    """One language of an encoded corpus."""

    ids: Ids  # (tokens,)
    offsets: npt.NDArray[np.int64]  # (pairs + 1,)

    @classmethod
    def open(cls, folder: Path, name: str, type_name: str, tokens: int, pairs: int) -> EncodedSide:
        """Memory-map the files of one side and check their sizes."""
        if type_name not in ("uint16", "int32"):
            raise ValueError(f"{type_name} ids")
        for suffix, size in (("ids", tokens * np.dtype(type_name).itemsize), ("offsets", (pairs + 1) * 8)):
            found = (folder / f"{name}.{suffix}").stat().st_size
            if found != size:
                raise ValueError(f"{name}.{suffix} has {found} bytes, not {size}")
        ids = np.memmap(folder / f"{name}.ids", dtype=type_name, mode="r")
        offsets = np.memmap(folder / f"{name}.offsets", dtype=np.int64, mode="r")
        if offsets[0] != 0 or offsets[-1] != tokens or (np.diff(offsets) < 0).any():
            raise ValueError(f"{name}.offsets do not match {tokens} tokens")
        return cls(ids, offsets)

    @classmethod
    def of(cls, sentences: Sequence[Sequence[int]]) -> EncodedSide:
        """A side in memory; each sentence ends with EOS."""
        offsets = np.cumsum([0, *map(len, sentences)], dtype=np.int64)
        return cls(np.fromiter(itertools.chain.from_iterable(sentences), np.int64), offsets)

    @cached_property
    def lengths(self) -> npt.NDArray[np.int32]:
        """(pairs,) tokens of each sentence, EOS included."""
        return np.diff(self.offsets).astype(np.int32)

    def sentence(self, index: int) -> Ids:
        """The tokens of sentence `index`, EOS included."""
        if not 0 <= index < len(self.offsets) - 1:
            raise IndexError(f"pair {index} of {len(self.offsets) - 1}")
        return self.ids[self.offsets[index] : self.offsets[index + 1]]


class _SideWriter:
    """Appends the sentences of one language to its files."""

    def __init__(self, folder: Path, name: str, vocabulary_size: int) -> None:
        self.type = np.dtype(np.uint16 if vocabulary_size <= 2**16 else np.int32)
        self.tokens = 0
        self.hash = hashlib.blake2b(digest_size=16)
        self._ids = (folder / f"{name}.ids").open("wb")
        self._offsets = (folder / f"{name}.offsets").open("wb")
        self._offsets.write(np.zeros(1, np.int64).tobytes())

    def append(self, sentences: list[list[int]]) -> None:
        flat = np.fromiter(itertools.chain.from_iterable(sentences), dtype=self.type)
        ends = self.tokens + np.cumsum([len(sentence) for sentence in sentences], dtype=np.int64)
        self.tokens += len(flat)
        self._ids.write(flat.tobytes())
        self._offsets.write(ends.tobytes())
        self.hash.update(flat.astype(np.int32).tobytes())  # EOS marks sentence boundaries, so the hash covers them

    def close(self) -> None:
        for stream in (self._ids, self._offsets):
            stream.flush()
            os.fsync(stream.fileno())
            stream.close()


Encoded = tuple[list[Pair], list[list[int]], list[list[int]], int]


def _write(
    pairs: Iterable[Pair],
    source: Tokenizer,
    target: Tokenizer,
    folder: Path,
    max_length: int,
    on_progress: Callable[[int], None] | None,
) -> None:
    writers = _SideWriter(folder, "source", source.size), _SideWriter(folder, "target", target.size)
    empty = too_long = kept = read = 0
    try:
        for whole, sources, targets, count in _encode(pairs, source, target):
            short = [max(len(s), len(t)) <= max_length for s, t in zip(sources, targets, strict=True)]
            writers[0].append(list(itertools.compress(sources, short)))
            writers[1].append(list(itertools.compress(targets, short)))
            read += count
            empty += count - len(whole)
            kept += sum(short)
            too_long += len(whole) - sum(short)
            if on_progress is not None:
                on_progress(read)
    finally:
        for writer in writers:
            writer.close()
    _check_not_empty(Skipped(empty, too_long, kept), max_length)
    about = {
        "format": FORMAT,
        "skipped": asdict(Skipped(empty, too_long, kept)),
        "fingerprint": writers[0].hash.hexdigest() + writers[1].hash.hexdigest(),
        "source": {"type": writers[0].type.name, "tokens": writers[0].tokens},
        "target": {"type": writers[1].type.name, "tokens": writers[1].tokens},
    }
    with (folder / "corpus.json").open("w", encoding="utf-8") as stream:
        json.dump(about, stream, indent=1)
        stream.flush()
        os.fsync(stream.fileno())
    sync_folder(folder)


def _encode(pairs: Iterable[Pair], source: Tokenizer, target: Tokenizer) -> Iterator[Encoded]:
    """Encoded chunks in order; one thread per core prefetches a few chunks."""

    def encode(chunk: list[Pair]) -> Encoded:
        whole = [pair for pair in chunk if pair.source.strip() and pair.target.strip()]
        sources = source.encode_many([pair.source for pair in whole])
        return whole, sources, target.encode_many([pair.target for pair in whole]), len(chunk)

    stream = iter(pairs)
    threads = os.cpu_count() or 1
    waiting: list[Future[Encoded]] = []
    with ThreadPoolExecutor(threads) as pool:
        while chunk := list(itertools.islice(stream, CHUNK)):
            waiting.append(pool.submit(encode, chunk))
            if len(waiting) > 2 * threads:
                yield waiting.pop(0).result()
        for future in waiting:
            yield future.result()


def _check_not_empty(skipped: Skipped, max_length: int) -> None:
    if skipped.kept:
        return
    if skipped.too_long:
        raise DataError(
            f"No pair is left to use: {skipped.too_long} have more than text.max_length = {max_length} tokens "
            f"on a side and {skipped.empty} have a blank side. Raise text.max_length."
        )
    if skipped.empty:
        raise DataError(
            f"No pair is left to use: all {skipped.empty} have a blank side. Check that the files are the right ones."
        )
    raise DataError("No pairs at all. Give at least one sentence pair.")
