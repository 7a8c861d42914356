"""Threads for everything that reads text: splitting sentences, HTML, detecting languages, putting documents together.

The event loop only waits for them, so that its deadlines hold whatever a text costs. What nobody waits for any more is
dropped before it begins; what has begun ends by itself, since all of it takes linear time.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from regard.serve.errors import ApiError, WorkerFault

Result = TypeVar("Result")

_THREADS = 2  # they share one interpreter lock; the second serves short texts beside a long one


class TextWorkers:
    """A few threads, with a bound on what waits for them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0  # jobs that wait or run
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="text")

    async def run(self, function: Callable[[], Result]) -> Result:
        """The result of a function that one of the threads calls."""
        with self._lock:
            if self._held >= self._most:
                raise ApiError(503, "the server is busy: try again later", retry_after=1)
            self._held += 1
        try:
            future = self._threads.submit(_guarded, function)
        except RuntimeError:  # it is closed
            self._leave()
            raise ApiError(503, "the server is shutting down", retry_after=5) from None
        future.add_done_callback(self._leave)
        result: Result = await asyncio.wrap_future(future)
        return result

    def close(self) -> None:
        """Drop what waits."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _leave(self, _: Future[Any] | None = None) -> None:
        with self._lock:
            self._held -= 1


def _guarded(function: Callable[[], Result]) -> Result:
    try:
        return function()
    except Exception:
        raise
    except BaseException as error:  # a panic of compiled code must not reach the event loop
        raise WorkerFault(error) from error
