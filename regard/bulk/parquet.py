"""Shards as Parquet, through pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from regard.bulk.formats import WINDOW, Rows, Wanted, added, check_columns, check_text
from regard.errors import DataError
from regard.inference.translation import Translation
from regard.storage.reading import short

GROUP_ROWS = 1 << 14  # rows in a row group
GROUP_BYTES = 32 << 20  # or fewer rows, of this size in memory

_TYPES = {"translation": pa.string(), "score": pa.float64(), "alignment": pa.string()}


def read_parquet(path: Path, wanted: Wanted) -> Iterator[Rows]:
    """The rows of a file, a batch at a time; row groups may have any size."""
    size, done = path.stat().st_size, 0
    with _opened(path, wanted) as file:
        total = max(1, file.metadata.num_rows)
        batches = file.iter_batches(batch_size=WINDOW)
        while True:
            try:
                batch = next(batches, None)
            except pa.ArrowException as error:
                raise DataError(f"{path}: is damaged after row {done} ({short(error)}): get it again.") from None
            if batch is None:
                return
            texts = batch.column(wanted.column).to_pylist()
            for number, text in enumerate(texts, done + 1):
                check_text(text, f"{path}, row {number}", wanted)
            done += len(texts)
            yield Rows(texts, batch, size * done // total)


def _opened(path: Path, wanted: Wanted) -> Any:
    try:
        file = pq.ParquetFile(path, pre_buffer=False)
    except pa.ArrowException as error:
        raise DataError(f"{path}: is no Parquet file, or damaged ({short(error)}): get it again.") from None
    names = file.schema_arrow.names
    check_columns(names, str(path), wanted)
    if names.count(wanted.column) > 1:
        raise DataError(f"{path}: has two columns {wanted.column!r}: rename one of them.")
    kind = file.schema_arrow.field(wanted.column).type
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (pa.types.is_string(plain) or pa.types.is_large_string(plain) or pa.types.is_string_view(plain)):
        raise DataError(f"{path}: column {wanted.column!r} is of type {kind}: name one of text with --column.")
    return file


class ParquetRows:
    """Writes the input's columns and the gained ones, with the input's schema metadata."""

    def __init__(self, out: BinaryIO, source: Path, wanted: Wanted) -> None:
        self._wanted = wanted
        with _opened(source, wanted) as file:
            schema = file.schema_arrow
        entry = [("text", pa.string()), ("score", pa.float64())]
        types = {**_TYPES, "n_best": pa.list_(pa.struct(entry + [("alignment", pa.string())] * wanted.alignments))}
        for name in wanted.columns:
            schema = schema.append(pa.field(name, types[name]))
        self._schema = schema
        self._writer = pq.ParquetWriter(out, schema)
        self._waiting: list[Any] = []

    def write(self, rows: Rows, translations: Sequence[Translation]) -> None:
        """Append rows; a row group is written when it is large enough."""
        gained = [added(text, each, self._wanted) for text, each in zip(rows.texts, translations, strict=True)]
        names = self._wanted.columns
        arrays = [pa.array([row[name] for row in gained], type=self._schema.field(name).type) for name in names]
        self._waiting.append(pa.RecordBatch.from_arrays([*rows.table.columns, *arrays], schema=self._schema))
        sizes = [batch.num_rows for batch in self._waiting], [batch.nbytes for batch in self._waiting]
        if sum(sizes[0]) >= GROUP_ROWS or sum(sizes[1]) >= GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Write the last row group and the footer."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._waiting:
            table = pa.Table.from_batches(self._waiting, self._schema)
            self._writer.write_table(table, row_group_size=table.num_rows)
            self._waiting = []
