"""Shards: the input files of a pattern, and where their translations go."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from regard.bulk.manifest import JOURNAL, MANIFEST
from regard.errors import ConfigError, DataError

Kind = Literal["text", "jsonl", "parquet"]
Form = Literal["text", "json"]

_KINDS: dict[str, Kind] = {".txt": "text", ".jsonl": "jsonl", ".parquet": "parquet"}


@dataclass(frozen=True)
class Shard:
    """One input file and its output file."""

    folder: Path  # before the pattern's first wildcard; absolute: workers have other working folders
    name: str  # of the input in it
    out: Path  # absolute
    output_name: str
    size: int  # bytes of the input

    @property
    def input(self) -> Path:
        """The input file."""
        return self.folder / self.name

    @property
    def output(self) -> Path:
        """The output file."""
        return self.out / self.output_name

    @property
    def kind(self) -> Kind:
        """How the input is read; an unknown ending means text."""
        return file_kind(self.input) or "text"


def file_kind(path: Path) -> Kind | None:
    """The kind by the ending of the name, `.gz` left out; None if it is unknown."""
    return _KINDS.get(Path(path.name.removesuffix(".gz")).suffix.lower())


def is_pattern(path: Path) -> bool:
    """Whether a path means shards: a folder, a table, or wildcards without a file of that very name."""
    if path.is_dir() or file_kind(path) in ("jsonl", "parquet"):
        return True
    return glob.has_magic(str(path)) and not os.path.lexists(path)


def find_shards(pattern: str | Path, output: str | Path, form: Form = "text") -> list[Shard]:
    """The shards of a pattern, sorted by name; bad combinations of input and output raise."""
    out = Path(os.path.abspath(output))
    if file_kind(out) is not None or (os.path.lexists(out) and not out.is_dir()):
        raise ConfigError(f"--output {output}: shards are written to a folder: name one.")
    root, files = _matches(Path(os.path.abspath(pattern)), pattern)
    _refuse_overlap(root, Path(os.path.abspath(pattern)), files, out)
    shards = [
        Shard(root, str(name), out, str(_output_name(name, form)), (root / name).stat().st_size)
        for name in sorted(path.relative_to(root) for path in files)
    ]
    taken = {out / MANIFEST: MANIFEST, out / JOURNAL: JOURNAL}
    for shard in shards:
        if (other := taken.setdefault(shard.output, shard.name)) != shard.name:
            raise DataError(f"{shard.input}: its output has the same name as that of {other}: rename one of them.")
        if shard.kind == "parquet" and shard.name.endswith(".gz"):
            raise DataError(f"{shard.input}: Parquet compresses its columns itself: unpack it with gunzip.")
        if form == "json" and shard.kind != "text":
            raise ConfigError(f"--format json is for text, and {shard.input} is a table: leave it out.")
    return shards


def _matches(pattern: Path, asked: str | Path) -> tuple[Path, list[Path]]:
    """The folder before the first wildcard, and the matching files."""
    if pattern.is_dir():
        files = [each for each in pattern.iterdir() if file_kind(each) and not each.name.startswith(".")]
        root = pattern
    elif os.path.lexists(pattern):
        root, files = pattern.parent, [pattern]
    else:
        parts = pattern.parts
        fixed = next((place for place, part in enumerate(parts) if glob.has_magic(part)), len(parts) - 1)
        root = Path(*parts[:fixed])
        files = [each for each in map(Path, glob.glob(str(pattern), recursive=True)) if not each.is_dir()]
    if not files:
        raise DataError(f"{asked}: no file matches: check the pattern (in quotes, so that the shell leaves it alone).")
    if odd := next((each for each in files if not each.is_file()), None):
        raise DataError(f"{odd}: is not a regular file: leave it out of the pattern.")
    return root, files


def _refuse_overlap(root: Path, pattern: Path, files: Iterable[Path], out: Path) -> None:
    """Raise if an output could be taken for an input, now or on the next run."""
    here = out.resolve()
    holds_input = any(here in each.resolve().parents for each in files)
    recursive = pattern.is_dir() or "**" in pattern.parts
    inside = here.is_relative_to(root.resolve()) and recursive
    if holds_input or inside:
        raise ConfigError(f"--output {out}: overlaps with the input {pattern}: choose a folder outside of it.")


def _output_name(name: Path, form: Form) -> Path:
    """Text becomes text of the same name, or JSON lines; a table keeps its kind."""
    if form == "text":
        return name
    plain = name.name.removesuffix(".gz")
    return name.with_name(plain.removesuffix(".txt") + ".jsonl" + name.name[len(plain) :])
