"""Standard streams: replacements for closed ones, and warnings as single lines on stderr."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from regard.errors import DataError

_STREAMS = {"stdin": (0, "r", os.O_WRONLY), "stdout": (1, "w", os.O_RDONLY), "stderr": (2, "w", os.O_WRONLY)}
_closed: list[str] = []


def open_closed_streams() -> None:
    """Reopen closed streams on their file descriptors, which the next opened file would take.

    Python sets them to None. stdin and stdout get the null device in the wrong mode, so that reading and writing fail;
    output to stderr is lost.
    """
    for name, (number, mode, flags) in _STREAMS.items():
        if getattr(sys, name) is not None:
            continue
        descriptor = os.open(os.devnull, flags)
        if descriptor != number:
            os.dup2(descriptor, number)
            os.close(descriptor)
        setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
        _closed.append(name)


def closed_streams() -> list[str]:
    """The names of stdin and stdout, if the caller has closed them."""
    return [name for name in _closed if name != "stderr"]


def check_open(name: str, remedy: str) -> None:
    """Refuse a closed stream."""
    if name in _closed:
        raise DataError(f"{name} is closed: {remedy}.")


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Format warnings as one line, `regard: warning: …`."""
    before = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if category.__module__.startswith("regard."):
            print(f"regard: warning: {message}", file=file or sys.stderr)
        else:
            before(message, category, filename, lineno, file, line)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = before
