"""Shards as text or JSON lines, read and written a window of rows at a time."""

from __future__ import annotations

import importlib.util
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from regard.bulk.shards import Form, Kind
from regard.data.lines import LONGEST_LINE, bytes_read, decode_lines, open_unpacked, packed
from regard.errors import ConfigError, DataError
from regard.evaluation.alignment import format_links
from regard.inference.lines_out import json_lines, text_lines
from regard.inference.translation import Translation
from regard.storage.reading import parse_json, short

WINDOW = 1024  # rows read at a time


@dataclass(frozen=True)
class Wanted:
    """What is read and written: the column with the text, and what follows the translation."""

    form: Form = "text"
    column: str = "text"  # of tables
    scores: bool = False
    alignments: bool = False
    n_best: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a table gains."""
        more = {"score": self.scores, "alignment": self.alignments, "n_best": self.n_best}
        return ("translation", *(name for name, wanted in more.items() if wanted))


@dataclass(frozen=True)
class Rows:
    """Some consecutive rows of a shard."""

    texts: Sequence[str | None]  # None: a missing value, whose translation is missing too
    table: Any  # the rows of a table as its writer needs them
    position: int  # bytes of the file read so far


class Writer(Protocol):
    """Writes the translations of a shard."""

    def write(self, rows: Rows, translations: Sequence[Translation]) -> None:
        """Append the translations of some rows."""

    def close(self) -> None:
        """Write what must stand at the end of the file; the file itself stays open."""


def read_rows(path: Path, kind: Kind, wanted: Wanted) -> Iterator[Rows]:
    """The rows of a shard."""
    if kind == "parquet":
        require_pyarrow()
        from regard.bulk.parquet import read_parquet

        return read_parquet(path, wanted)
    return _read_text(path) if kind == "text" else _read_jsonl(path, wanted)


def open_writer(out: BinaryIO, shard_output: Path, source: Path, kind: Kind, wanted: Wanted) -> Writer:
    """The writer of a shard's output; Parquet takes its columns from the source."""
    if kind == "parquet":
        from regard.bulk.parquet import ParquetRows

        return ParquetRows(out, source, wanted)
    return LineWriter(out, shard_output.suffix == ".gz", kind, wanted)


def require_pyarrow() -> None:
    """Raise if Parquet cannot be read here."""
    if importlib.util.find_spec("pyarrow") is None:
        raise ConfigError("Parquet needs pyarrow: pip install 'regard[cluster]'.")


# --- reading ------------------------------------------------------------------------------------------------------


def _read_text(path: Path) -> Iterator[Rows]:
    with open_unpacked(path) as stream:
        lines = decode_lines(stream, str(path))
        while texts := list(itertools.islice(lines, WINDOW)):
            yield Rows(texts, None, bytes_read(stream))


def _read_jsonl(path: Path, wanted: Wanted) -> Iterator[Rows]:
    number = 0
    for rows in _read_text(path):
        table = []
        for line in rows.texts:
            number += 1
            table.append(_parse_row(line or "", f"{path}:{number}", wanted))
        yield Rows([row[wanted.column] for row in table], table, rows.position)


def _parse_row(line: str, where: str, wanted: Wanted) -> dict[str, Any]:
    try:
        row = parse_json(line.encode())
    except ValueError as error:
        raise DataError(f"{where}: is no JSON ({short(error)}): give one object on each line.") from None
    if not isinstance(row, dict):
        raise DataError(f'{where}: is no JSON object: give one on each line, such as {{"{wanted.column}": …}}.')
    check_columns(row, where, wanted)
    check_text(row[wanted.column], where, wanted)
    return row


def check_columns(columns: Sequence[str] | dict[str, Any], where: str, wanted: Wanted) -> None:
    """Raise if the text is missing or an added column is there already."""
    if wanted.column not in columns:
        names = ", ".join(list(columns)[:10]) or "none"
        raise DataError(f"{where}: there is no column {wanted.column!r} (columns: {names}): name one with --column.")
    if taken := next((name for name in wanted.columns if name in columns), None):
        raise DataError(f"{where}: already has a column {taken!r}, which the translation needs: rename it.")


def check_text(value: object, where: str, wanted: Wanted) -> None:
    """Raise if a value is neither text nor missing."""
    if value is not None and not isinstance(value, str):
        kind = type(value).__name__
        raise DataError(f"{where}: column {wanted.column!r} holds a value of type {kind}: name one of text.")
    if value is not None and len(value) > LONGEST_LINE:
        raise DataError(f"{where}: a text of more than {LONGEST_LINE >> 20} MB. Give one sentence in each row.")


# --- writing ------------------------------------------------------------------------------------------------------


class LineWriter:
    """Text or JSON lines, packed if the name says so."""

    def __init__(self, out: BinaryIO, pack: bool, kind: Kind, wanted: Wanted) -> None:
        self._packed = packed(out) if pack else None
        self._out = self._packed or out
        self._kind, self._wanted = kind, wanted
        columns = text_lines(wanted.n_best, wanted.scores, wanted.alignments)
        self._show = json_lines(wanted.alignments) if wanted.form == "json" else columns
        self._number = 0

    def write(self, rows: Rows, translations: Sequence[Translation]) -> None:
        """Append one line for each translation, or its n-best list."""
        if self._kind == "jsonl":
            gained = (added(text, each, self._wanted) for text, each in zip(rows.texts, translations, strict=True))
            lines = [
                json.dumps({**row, **more}, ensure_ascii=False) + "\n"
                for row, more in zip(rows.table, gained, strict=True)
            ]
        else:
            lines = [self._show(number, each) for number, each in enumerate(translations, self._number)]
        self._number += len(translations)
        self._out.write("".join(lines).encode())

    def close(self) -> None:
        """Finish the gzip stream."""
        if self._packed is not None:
            self._packed.close()


def added(text: str | None, translation: Translation, wanted: Wanted) -> dict[str, Any]:
    """The columns that a row gains; a row without text gains missing values."""
    if text is None:
        return dict.fromkeys(wanted.columns)
    values: dict[str, Any] = {"translation": translation.text}
    if wanted.scores:
        values["score"] = translation.score
    if wanted.alignments:
        values["alignment"] = format_links(translation.links())
    if wanted.n_best:
        values["n_best"] = [_listed(each, wanted) for each in translation.n_best]
    return values


def _listed(translation: Translation, wanted: Wanted) -> dict[str, Any]:
    links = {"alignment": format_links(translation.links())} if wanted.alignments else {}
    return {"text": translation.text, "score": translation.score, **links}
