"""Rate-limited logging: each kind of message at most once a minute."""

from __future__ import annotations

import logging
import time

_QUIET_SECONDS = 60.0
_MOST_KINDS = 1000  # kinds of messages with a rate limit state


class OncePerMinute(logging.Filter):
    """Passes one record of each kind per minute, with the number of records suppressed since the last one."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[object, tuple[float, int]] = {}  # last time, and records suppressed since

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log this record."""
        if "asyncio.exceptions.CancelledError" in str(record.msg):  # a second Ctrl-C ends the shutdown: no error
            return False
        first_line = str(record.msg).partition("\n")[0]
        if record.name == "asyncio" and "socket.accept()" in first_line:  # its traceback adds nothing
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
            record.msg = f"{record.msg} ({held_back:,} more suppressed)"
        return True


def _reason(record: logging.LogRecord) -> str:
    return str(record.exc_info[1]) if record.exc_info else "no reason given"


def _place(record: logging.LogRecord) -> object:
    """Type of an exception and the line that raised it."""
    if not record.exc_info or record.exc_info[0] is None:
        return None
    trace = record.exc_info[2]
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    line = None if trace is None else (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
    return record.exc_info[0], line


_filter = OncePerMinute()


def keep_logs_short() -> None:
    """Rate-limit the loggers of the server, uvicorn and asyncio."""
    for name in ("uvicorn.error", "asyncio", "regard.serve.queue"):
        logging.getLogger(name).addFilter(_filter)
