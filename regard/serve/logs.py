"""The log of a server: the same thing is said once a minute, however often it happens."""

from __future__ import annotations

import logging
import time

_QUIET_SECONDS = 60.0
_MOST_KINDS = 1000  # of messages that are remembered


class OncePerMinute(logging.Filter):
    """Lets the first record of a kind pass, and then one a minute, with the number of those between."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[object, tuple[float, int]] = {}  # when, and how many were held back since

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether this record is written."""
        first_line = str(record.msg).partition("\n")[0]
        if record.name == "asyncio" and "socket.accept()" in first_line:  # a traceback tells nothing more
            record.msg, record.exc_info = f"{first_line}: {_reason(record)}", None
        now, kind = time.monotonic(), (record.name, first_line[:100], _place(record))
        when, held_back = self._said.get(kind, (None, 0))
        if when is not None and now - when < _QUIET_SECONDS:
            self._said[kind] = when, held_back + 1
            return False
        if len(self._said) >= _MOST_KINDS:
            self._said.clear()
        self._said[kind] = now, 0
        if held_back:
            record.msg = f"{record.msg} ({held_back:,} more in the meantime)"
        return True


def _reason(record: logging.LogRecord) -> str:
    return str(record.exc_info[1]) if record.exc_info else "no reason given"


def _place(record: logging.LogRecord) -> object:
    """The kind of an exception, and where it was raised."""
    if not record.exc_info or record.exc_info[0] is None:
        return None
    trace = record.exc_info[2]
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    line = None if trace is None else (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
    return record.exc_info[0], line


_filter = OncePerMinute()


def keep_logs_short() -> None:
    """Bound the logs of the server and of what it is built on."""
    for name in ("uvicorn.error", "asyncio", "regard.serve.queue"):
        logging.getLogger(name).addFilter(_filter)
