"""Reading untrusted files: only regular files of bounded size, and JSON of bounded depth.

A model folder is untrusted input. All its files are read here, so that a named pipe, a device, a huge file or deeply
nested JSON raises before it costs memory or time.
"""

from __future__ import annotations

import json
import os
import stat
import weakref
from pathlib import Path
from typing import Any, BinaryIO

from regard.errors import ModelFolderError, RegardError

CONFIG_BYTES = 1 << 20
METRICS_BYTES = 4 << 20
TOKENIZER_BYTES = 64 << 20
HEADER_BYTES = 8 << 20  # the JSON in front of a safetensors file
OPEN_FILES = Path("/dev/fd")  # paths to the open files of this process, on Linux and macOS
DEPTH = 32  # maximum nesting of JSON
CONTAINERS = 1 << 21  # objects and arrays in one JSON file; in memory, an empty one takes 20 times its size as text

RESTORE = "copy the folder again from its source, or train the model again"


def exists(path: Path) -> bool:
    """Whether the path exists; False without permission to check."""
    return os.path.exists(path)


def open_regular(path: Path, error: type[RegardError] = ModelFolderError) -> BinaryIO:
    """Open a regular file for reading; a folder, a pipe or a device raises without blocking."""
    try:
        if stat.S_ISREG(os.stat(path).st_mode):
            flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
            descriptor = os.open(path, flags)
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return os.fdopen(descriptor, "rb")
            os.close(descriptor)
    except FileNotFoundError:
        if error is ModelFolderError:
            raise error(f"{path}: is missing: {RESTORE}.") from None
        raise error(f"{path}: cannot be read (no such file): check the path.") from None
    except (OSError, ValueError) as fault:
        raise error(f"{path}: cannot be read ({getattr(fault, 'strerror', None) or fault}).") from None
    raise error(f"{path}: is not a regular file: put a plain file in its place, not a folder, pipe or device.")


class HeldFile:
    """A regular file that is kept open, so that its content can be read even after another file took its name.

    Where the system has no paths to open files, its name is all that is kept.
    """

    def __init__(self, path: Path) -> None:
        self._name = path
        self._file = open_regular(path) if OPEN_FILES.is_dir() else None
        self._stamp = self._now()
        if self._file is not None:
            weakref.finalize(self, self._file.close)

    @property
    def path(self) -> Path:
        """A path to the content, valid as long as this object lives."""
        return self._name if self._file is None else OPEN_FILES / str(self._file.fileno())

    @property
    def has_changed(self) -> bool:
        """Whether the content was overwritten."""
        return self._now() != self._stamp

    def _now(self) -> tuple[int, int, int]:
        about = os.stat(self._name if self._file is None else self._file.fileno())
        return about.st_size, about.st_mtime_ns, about.st_ino


def check_regular(path: Path, error: type[RegardError] = ModelFolderError) -> int:
    """The size of a regular file in bytes; anything else raises."""
    with open_regular(path, error) as file:
        return os.fstat(file.fileno()).st_size


def read_bounded(path: Path, most: int, error: type[RegardError] = ModelFolderError) -> bytes:
    """The content of a regular file of at most `most` bytes."""
    with open_regular(path, error) as file:
        try:
            raw = file.read(most + 1)
        except OSError as fault:
            raise error(f"{path}: cannot be read ({fault.strerror}).") from None
    if len(raw) > most:
        raise error(f"{path}: has more than {most:,} bytes, the limit for this file: {RESTORE}.")
    return raw


def parse_json(raw: bytes) -> Any:
    """Parse JSON of bounded depth; lone surrogates and NaN raise ValueError."""
    if raw.count(b"[") + raw.count(b"{") > CONTAINERS:
        raise ValueError(f"more than {CONTAINERS:,} objects and arrays")
    try:
        value = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    _check(value)
    return value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _check(value: Any) -> None:
    """Raise for excessive nesting and for text that UTF-8 cannot encode."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > DEPTH + 1:
            raise ValueError(f"nested more than {DEPTH} deep")
        below: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                below += each.keys()
                below += each.values()
            elif isinstance(each, list):
                below += each
            elif isinstance(each, str) and not each.isascii():
                each.encode()  # UnicodeEncodeError is a ValueError
            elif isinstance(each, float) and each - each != 0:
                raise ValueError("a number out of range")
        level = below


def read_json(path: Path, most: int = METRICS_BYTES) -> dict[str, Any]:
    """The JSON object in a file; raises with the fault."""
    try:
        value = parse_json(read_bounded(path, most))
    except ValueError as error:
        raise ModelFolderError(f"{path}: is damaged ({short(error)}): {RESTORE}.") from None
    if not isinstance(value, dict):
        raise ModelFolderError(f"{path}: is damaged (no JSON object): {RESTORE}.")
    return value


def short(error: BaseException) -> str:
    """The message of a foreign exception, in one short line."""
    return " ".join(str(error).split())[:120]
