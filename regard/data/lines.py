"""Reading text line by line: strict UTF-8, bounded lines, plain or gzip.

Gzip is detected by its magic bytes, not by the file name. Lines end at "\\n" only; a "\\r" before it and a byte order
mark at the start of the file are dropped. Every other fault is a DataError with file and line. A binary file is
named by its type.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from regard.errors import DataError

GZIP_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error)
LONGEST_LINE = 16 << 20  # bytes
_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")  # bytes that no text has, in any 8-bit encoding
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
# how files begin that are often taken for text -> what they are, and what to do with them
_BINARY = {
    b"%PDF-": ("a PDF", "Save its text as UTF-8 first, for example with pdftotext."),
    b"PK\x03\x04": ("a ZIP file (.zip, .docx, .xlsx, .odt)", "Unpack it, or save it as plain text in UTF-8."),
    b"\xd0\xcf\x11\xe0": ("an old Word or Excel file", "Save it as plain text in UTF-8."),
    b"BZh91AY&SY": ("a bzip2 file", "Unpack it first, with bunzip2."),
    b"\xfd7zXZ\x00": ("an xz file", "Unpack it first, with unxz."),
    b"\x28\xb5\x2f\xfd": ("a zstd file", "Unpack it first, with unzstd."),
    b"7z\xbc\xaf\x27\x1c": ("a 7z file", "Unpack it first."),
    b"\x89PNG": ("a PNG image", "Give text."),
    b"\xff\xd8\xff": ("a JPEG image", "Give text."),
    b"\x7fELF": ("a program", "Give text."),
    b"PAR1\x15": ("a Parquet file", "Save its columns as text in UTF-8, with a tab between them."),
    b"SQLite format 3\x00": ("an SQLite database", "Export its text in UTF-8."),
}


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
    """Open a file for reading bytes; gzip is decompressed."""
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


def bytes_read(stream: io.BufferedIOBase) -> int:
    """How far a file of `open_unpacked` is read, in bytes of the file."""
    return stream.plain.tell() if isinstance(stream, _Unpacked) else stream.tell()


class _Unpacked(gzip.GzipFile):
    """A gzip stream that closes its underlying file."""

    def __init__(self, plain: io.BufferedReader) -> None:
        super().__init__(fileobj=plain)
        self.plain = plain

    def close(self) -> None:
        super().close()
        self.plain.close()


def _decode(raw: bytes, name: str, number: int) -> str:
    if len(raw) > LONGEST_LINE:
        raise DataError(f"{name}:{number}: a line of more than {LONGEST_LINE >> 20} MB. Give text with line ends.")
    raw = raw.removesuffix(b"\n").removesuffix(b"\r")
    if number == 1:
        _refuse_binary(raw, name)
        raw = raw.removeprefix(_BYTE_ORDER_MARK)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        if _CONTROL.search(raw):
            raise DataError(f"{name}:{number}: this is a binary file, not text. Give text in UTF-8.") from error
        raise DataError(
            f"{name}:{number}: byte 0x{raw[error.start]:02x} at position {error.start + 1} is not UTF-8. "
            "Convert the file, for example with iconv -t UTF-8."
        ) from error


def _refuse_binary(first_line: bytes, name: str) -> None:
    """Say what a file is that is no text, by its first bytes."""
    for start, (kind, remedy) in _BINARY.items():
        if first_line.startswith(start):
            raise DataError(f"{name}: this is {kind}, not text. {remedy}")
    if first_line.startswith(_UTF_16):
        raise DataError(f"{name}: this is text in UTF-16. Convert it, for example with iconv -f UTF-16 -t UTF-8.")
    if b"\0" in first_line:
        raise DataError(f"{name}: this is a binary file, not text. Give text in UTF-8.")
