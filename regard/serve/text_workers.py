"""Threads for text processing: sentence splitting, HTML, language detection, joining documents.

The event loop only waits for them, so slow texts cannot delay its deadlines. Cancelled jobs are dropped before they
start; running jobs finish by themselves, since all of this takes linear time.
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
    """A thread pool with a bounded queue."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0  # jobs waiting or running
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="text")

    async def run(self, function: Callable[[], Result]) -> Result:
        """Run a function in one of the threads and return its result."""
        with self._lock:
            if self._held >= self._most:
                raise ApiError(503, "the server is busy: try again later", retry_after=1)
            self._held += 1
        try:
            future = self._threads.submit(_guarded, function)
        except RuntimeError:  # the pool is closed
            self._leave()
            raise ApiError(503, "the server is shutting down", retry_after=5) from None
        future.add_done_callback(self._leave)
        result: Result = await asyncio.wrap_future(future)
        return result

    def close(self) -> None:
        """Drop waiting jobs."""
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
