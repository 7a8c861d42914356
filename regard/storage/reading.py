"""Reading files that nobody vouches for: regular files alone, of bounded size; JSON of bounded depth.

A model folder may come from anywhere. Everything in it is read through here, so that a named pipe, a device, a file
of many gigabytes or a deeply nested JSON is refused before it costs anything.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from regard.errors import ModelFolderError, RegardError

CONFIG_BYTES = 1 << 20
METRICS_BYTES = 4 << 20
TOKENIZER_BYTES = 64 << 20
HEADER_BYTES = 8 << 20  # the JSON in front of a safetensors file
DEPTH = 32  # of nested JSON
CONTAINERS = 1 << 21  # objects and arrays in one JSON file; an empty one takes 20 times its spelling in memory

RESTORE = "copy the folder again from where it came, or train it again"


def exists(path: Path) -> bool:
    """Whether there is something, without an error for what may not be looked at."""
    return os.path.exists(path)


def open_regular(path: Path, error: type[RegardError] = ModelFolderError) -> BinaryIO:
    """A file open for reading; a folder, a pipe or a device is refused, without waiting for its other end."""
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


def check_regular(path: Path, error: type[RegardError] = ModelFolderError) -> int:
    """The size in bytes of a regular file; anything else is refused."""
    with open_regular(path, error) as file:
        return os.fstat(file.fileno()).st_size


def read_bounded(path: Path, most: int, error: type[RegardError] = ModelFolderError) -> bytes:
    """The bytes of a regular file that has at most so many."""
    with open_regular(path, error) as file:
        try:
            raw = file.read(most + 1)
        except OSError as fault:
            raise error(f"{path}: cannot be read ({fault.strerror}).") from None
    if len(raw) > most:
        raise error(f"{path}: has more than {most:,} bytes, which no such file of Regard's has: {RESTORE}.")
    return raw


def parse_json(raw: bytes) -> Any:
    """The value of a JSON text of bounded depth and without lone surrogates or NaN; ValueError says what is wrong."""
    if raw.count(b"[") + raw.count(b"{") > CONTAINERS:
        raise ValueError(f"more than {CONTAINERS:,} objects and arrays")
    try:
        value = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    _check(value)
    return value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _check(value: Any) -> None:
    """Refuse what is too deep, and text that cannot be written as UTF-8."""
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
                raise ValueError("a number too large to be held")
        level = below


def read_json(path: Path, most: int = METRICS_BYTES) -> dict[str, Any]:
    """A JSON object in a file, or a line about what is wrong with it."""
    try:
        value = parse_json(read_bounded(path, most))
    except ValueError as error:
        raise ModelFolderError(f"{path}: is damaged ({short(error)}): {RESTORE}.") from None
    if not isinstance(value, dict):
        raise ModelFolderError(f"{path}: is damaged (no JSON object): {RESTORE}.")
    return value


def short(error: BaseException) -> str:
    """The text of a foreign error, in one short line."""
    return " ".join(str(error).split())[:120]
