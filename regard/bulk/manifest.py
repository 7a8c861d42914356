"""The manifest: which model and settings made which output from which input, with counts and checksums.

`manifest.json` is written when every shard is finished. Until then `manifest.part.jsonl` is its journal: the first line
names model and settings, each further line one finished shard. Neither holds a time or a machine: equal runs have equal
manifests.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TextIO

from regard.errors import DataError, ModelFolderError
from regard.storage.files import naming, sync_folder, write_bytes, write_json
from regard.storage.reading import open_regular, parse_json, read_json

MANIFEST = "manifest.json"
JOURNAL = "manifest.part.jsonl"
LARGEST = 1 << 30  # bytes; a shard takes about 400


@dataclass(frozen=True)
class Record:
    """A finished shard."""

    input: str
    input_bytes: int
    input_sha256: str
    output: str
    output_bytes: int
    output_sha256: str
    sentences: int
    cut: int  # sentences truncated at search.max_source

    @classmethod
    def parse(cls, value: Any) -> Record:
        """A record read from a file; another shape raises ValueError."""
        if not isinstance(value, dict) or set(value) != {each.name for each in fields(cls)}:
            raise ValueError("a shard has other keys")
        record = cls(**value)
        if any(type(getattr(record, each.name)).__name__ != each.type for each in fields(cls)):
            raise ValueError("a value has another type")
        return record


@dataclass
class Manifest:
    """Model and settings of a run, and its finished shards by the name of their input."""

    about: dict[str, Any]
    records: dict[str, Record]

    @property
    def sentences(self) -> int:
        """Sentences in all finished shards."""
        return sum(record.sentences for record in self.records.values())

    def write(self, out: Path) -> None:
        """Write manifest.json and remove the journal."""
        records = [asdict(self.records[name]) for name in sorted(self.records)]
        totals = {
            key: sum(record[key] for record in records) for key in ("sentences", "cut", "input_bytes", "output_bytes")
        }
        write_json(out / MANIFEST, {**self.about, "total": {"shards": len(records), **totals}, "shards": records})
        (out / JOURNAL).unlink(missing_ok=True)
        sync_folder(out)


def read_manifest(out: Path) -> Manifest | None:
    """What is finished in a folder: the journal, or the manifest of a finished run; None without either."""
    if (out / JOURNAL).exists():
        return _read_journal(out / JOURNAL)
    path = out / MANIFEST
    if not path.exists():
        return None
    try:
        table = read_json(path, LARGEST)
        records = [Record.parse(each) for each in table.pop("shards")]
        table.pop("total")
    except (ModelFolderError, KeyError, TypeError, ValueError):
        raise DataError(f"{path}: is no manifest of Regard, or damaged: choose another --output.") from None
    return Manifest(table, {record.input: record for record in records})


def _read_journal(path: Path) -> Manifest:
    """A power cut may leave the last line half written: it and what follows are done again."""
    records: dict[str, Record] = {}
    with open_regular(path, DataError) as file:
        try:
            about = parse_json(file.readline())
            if not isinstance(about, dict):
                raise ValueError
        except ValueError:
            raise DataError(f"{path}: is no journal of Regard, or damaged: choose another --output.") from None
        for line in file:
            try:
                record = Record.parse(parse_json(line))
            except ValueError:
                break
            records[record.input] = record
    return Manifest(about, records)


class Journal:
    """Appends finished shards, each flushed to disk."""

    def __init__(self, file: TextIO, path: Path) -> None:
        self._file, self._path = file, path

    def add(self, record: Record) -> None:
        """Append a shard."""
        with naming(self._path):
            self._file.write(_line(asdict(record)))
            self._file.flush()
            os.fsync(self._file.fileno())


@contextmanager
def journal(out: Path, manifest: Manifest) -> Iterator[Journal]:
    """The journal of a run, begun with what is finished already; removed if no shard was written."""
    path = out / JOURNAL
    known = [asdict(record) for record in manifest.records.values()]
    write_bytes(path, "".join(map(_line, [manifest.about, *known])).encode())
    with open(path, "a", encoding="utf-8") as file:
        try:
            yield Journal(file, path)
        finally:
            if not any(each != path and not each.name.startswith(".") for each in out.iterdir()):
                path.unlink(missing_ok=True)


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"


def difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The first difference between two descriptions of a run, as `search.beam 5 before, 4 now`; empty if equal."""
    for key in {**before, **now}:
        old, new = before.get(key, "missing"), now.get(key, "missing")
        if old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            return f"{key}.{difference(old, new)}"
        if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
            return next(f"{key}.{difference(a, b)}" for a, b in zip(old, new, strict=True) if a != b)
        return f"{key} {_short(old)} before, {_short(new)} now"
    return ""


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:39]}…"
