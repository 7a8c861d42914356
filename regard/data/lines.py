"""Reading text line by line: strict UTF-8, bounded lines, plain or gzip.

Gzip is known by its first two bytes, not by the name. Lines end at "\\n" alone; a "\\r" before it and a byte order mark
at the start of the file are dropped. Every other fault is a DataError with file and line.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from regard.errors import DataError

GZIP_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error)
LONGEST_LINE = 16 << 20  # bytes
_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_lines(path: Path | str) -> Iterator[str]:
    """The lines of a file."""
    with open_unpacked(Path(path)) as stream:
        yield from decode_lines(stream, str(path))


def decode_lines(stream: io.BufferedIOBase | BinaryIO, name: str) -> Iterator[str]:
    """The lines of an open stream; `name` is for errors."""
    number = 0
    try:
        while raw := stream.readline(LONGEST_LINE + 1):
            number += 1
            yield _decode(raw, name, number)
    except GZIP_ERRORS as error:
        raise DataError(
            f"{name}: the gzip file is damaged or cut short after line {number} ({error}). Get it again."
        ) from error
    except OSError as error:
        raise DataError(f"{name}: reading failed after line {number} ({error.strerror}).") from error


def open_unpacked(path: Path) -> io.BufferedIOBase:
    """The file's bytes, decompressed if they are gzip."""
    if path.is_dir():
        raise DataError(f"{path}: this is a directory. Name a file in it.")
    try:
        plain = path.open("rb")
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file. Check the path.") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be opened ({error.strerror}).") from error
    assert isinstance(plain, io.BufferedReader)
    if plain.peek(2)[:2] == _GZIP:
        return _Unpacked(plain)
    if path.suffix == ".gz" and plain.peek(1):
        plain.close()
        raise DataError(f"{path}: its name ends in .gz but it is not a gzip file. Rename it or get it again.")
    return plain


class _Unpacked(gzip.GzipFile):
    """A gzip stream that closes the file below it."""

    def __init__(self, plain: io.BufferedReader) -> None:
        super().__init__(fileobj=plain)
        self._plain = plain

    def close(self) -> None:
        super().close()
        self._plain.close()


def _decode(raw: bytes, name: str, number: int) -> str:
    if len(raw) > LONGEST_LINE:
        raise DataError(f"{name}:{number}: a line of more than {LONGEST_LINE >> 20} MB. Give text with line ends.")
    raw = raw.removesuffix(b"\n").removesuffix(b"\r")
    if number == 1:
        raw = raw.removeprefix(_BYTE_ORDER_MARK)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name}:{number}: byte 0x{raw[error.start]:02x} at position {error.start + 1} is not UTF-8. "
            "Convert the file, for example with iconv -t UTF-8."
        ) from error
