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
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import numpy.typing as npt

from regard.errors import DataError
from regard.storage.files import writing

GZIP_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error)
LONGEST_LINE = 16 << 20  # bytes
READ = 1 << 20
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
    while True:
        with _naming(name, number):
            raw = stream.readline(LONGEST_LINE + 1)
        if not raw:
            return
        number += 1
        if len(raw) > LONGEST_LINE:
            raise _too_long(name, number)
        yield decode_line(raw, name, number)


def decode_block(raw: bytes, name: str, first: int) -> list[str]:
    """Whole lines, decoded at once; `first` is the number of the first."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        for number, line in enumerate(raw.split(b"\n"), first):
            decode_line(line, name, number)  # raises
        raise
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    if "\r" in text:
        lines = [line.removesuffix("\r") for line in lines]
    if first == 1 and lines:
        lines[0] = decode_line(raw.partition(b"\n")[0], name, 1)
    return lines


def count_lines(path: Path) -> int:
    """The number of lines of a file, decoded or not."""
    count, last = 0, b"\n"
    with open_unpacked(path) as stream:
        while True:
            with _naming(str(path), count):
                block = stream.read(READ)
            if not block:
                return count + (last != b"\n")
            count += block.count(b"\n")
            last = block[-1:]


class WholeLines:
    """A file as bytes, taken many whole lines at a time."""

    def __init__(self, path: Path, number: int = 0, offset: int = 0) -> None:
        self.name = str(path)
        self.number = number  # lines taken
        self.offset = offset  # bytes taken, unpacked
        self._stream = open_unpacked(path)
        self._buffer = b""
        self._ends: npt.NDArray[np.int64] = np.empty(0, np.int64)  # behind each line of the buffer
        self._finished = False
        if offset:
            with _naming(self.name, number):
                self._stream.seek(offset)

    def ready(self, most: int, most_bytes: int) -> int:
        """The number of lines that can be taken: `most`, fewer if they are long, 0 at the end of the file."""
        parts = [self._buffer]
        size, found = len(self._buffer), len(self._ends)
        while not self._finished and found < most and (size < most_bytes or not found):
            with _naming(self.name, self.number + found):
                more = self._stream.read(READ)
            self._finished = not more
            parts.append(more)
            size += len(more)
            found += more.count(b"\n")
            if not found and size > LONGEST_LINE:
                raise _too_long(self.name, self.number + 1)
        if len(parts) > 1:
            self._find_ends(b"".join(parts))
        return min(most, len(self._ends))

    def _find_ends(self, buffer: bytes) -> None:
        self._buffer = buffer
        self._ends = np.flatnonzero(np.frombuffer(buffer, np.uint8) == ord("\n")) + 1
        if self._finished and len(buffer) > (self._ends[-1] if len(self._ends) else 0):
            self._ends = np.append(self._ends, len(buffer))  # the last line has no end
        long = np.flatnonzero(np.diff(self._ends, prepend=0) > LONGEST_LINE)
        if len(long):
            raise _too_long(self.name, self.number + int(long[0]) + 1)

    def take(self, count: int) -> bytes:
        """The next lines, of those that are ready."""
        end = int(self._ends[count - 1])
        taken, self._buffer = self._buffer[:end], self._buffer[end:]
        self._ends = self._ends[count:] - end
        self.number += count
        self.offset += end
        return taken

    def count_rest(self) -> int:
        """Read to the end; the number of lines that were left."""
        before = self.number
        while ready := self.ready(1 << 16, READ):
            self.take(ready)
        return self.number - before

    def close(self) -> None:
        """Close the file."""
        self._stream.close()


@contextmanager
def _naming(name: str, number: int) -> Iterator[None]:
    """Errors of reading as DataErrors; `number` lines are known to be sound."""
    try:
        yield
    except GZIP_ERRORS as error:
        raise DataError(
            f"{name}: the gzip file is damaged or cut short after line {number} ({error}). Get it again."
        ) from error
    except OSError as error:
        raise DataError(f"{name}: reading failed after line {number} ({error.strerror}).") from error


def _too_long(name: str, number: int) -> DataError:
    """The error of a line without an end."""
    return DataError(f"{name}:{number}: a line of more than {LONGEST_LINE >> 20} MB. Give text with line ends.")


@contextmanager
def writing_lines(path: Path) -> Iterator[BinaryIO]:
    """Write a text file atomically, gzip if its name ends in .gz."""
    with writing(path) as out:
        if path.suffix != ".gz":
            yield out
            return
        with packed(out) as stream:
            yield cast("BinaryIO", stream)


def packed(out: BinaryIO) -> gzip.GzipFile:
    """A gzip stream without name and time in its header: equal lines are equal bytes."""
    return gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=0, compresslevel=6)


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


def decode_line(raw: bytes, name: str, number: int) -> str:
    """A line, strictly decoded, without its end."""
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
