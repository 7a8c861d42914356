"""Ctrl-C and SIGTERM: the first one asks training to save and stop, the second one stops at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interrupted(KeyboardInterrupt):
    """Training was interrupted; `saved` if it can be resumed, the message says how."""

    def __init__(self, message: str, saved: bool, signal_number: int = signal.SIGINT) -> None:
        super().__init__(message)
        self.saved = saved
        self.exit_code = 128 + signal_number  # 130 after Ctrl-C, 143 after SIGTERM


class Interrupts:
    """While it is open, the first signal sets `requested` (or raises, if nothing needs saving yet).

    Python runs signal handlers in the main thread only: in another thread this does nothing.
    """

    def __init__(self) -> None:
        self.requested = False
        self.requested_by: int = signal.SIGINT
        self.nothing_to_save = True
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested, self.requested_by = True, number
        if self.nothing_to_save:
            message = "stopped before an update was made: start it again with the same command."
            raise Interrupted(message, saved=False, signal_number=number)
