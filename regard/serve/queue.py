"""The request queue: a few workers translate sentences of concurrent requests in shared batches (dynamic batching).

A worker is a thread that takes one batch at a time and computes with its share of the CPU threads. Several workers are
faster than one with all threads: threads that share one small matrix product wait for each other, the more so when
the event loop competes for the cores.

The queue holds at most `max_queue` requests; further requests are refused at once. If a client disconnects or its
deadline passes, the asyncio task is cancelled, which frees its place. A worker leaves a batch that nobody waits for any
more at its next finished sentence.

Workers are supervised: a panic of compiled code (a BaseException) fails its own request, and a new thread replaces the
worker.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from regard.inference.translation import Translation
from regard.process import thread_count
from regard.serve.errors import ApiError, WorkerFault
from regard.serve.metrics import Metrics
from regard.serve.models import ServedModel
from regard.serve.sentences import LONGEST_SENTENCE
from regard.serve.settings import ServeSettings

Result = TypeVar("Result")

MOST_WORKERS = 8  # default limit: each holds a batch in memory
_CHARACTERS_PER_SENTENCE = LONGEST_SENTENCE // 8  # average in a batch: long sentences make smaller batches
_MOST_RETRY_AFTER = 60  # upper limit of Retry-After, in seconds
_STUCK = 2  # times max_seconds: every client of such a batch has timed out
_END = object()
_log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Job:
    """A request in the queue."""

    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    abandoned: bool = False

    def answer(self, result: Any) -> None:
        """Set the result, from a worker thread."""
        self._finish(lambda: self.future.set_result(result))

    def fail(self, error: Exception) -> None:
        """Set an error, from a worker thread."""
        self._finish(lambda: self.future.set_exception(error))

    def _finish(self, give: Callable[[], None]) -> None:
        def give_if_wanted() -> None:
            if not self.future.done():
                give()

        if not self.abandoned:
            self.loop.call_soon_threadsafe(give_if_wanted)


@dataclass(eq=False)
class _Lines(_Job):
    """Sentences that may share a batch with other requests."""

    model: ServedModel = field(kw_only=True)
    n_best: int = field(kw_only=True)
    attention: bool = field(kw_only=True)
    lines: Sequence[str] = field(kw_only=True)
    done: dict[int, Translation] = field(default_factory=dict)  # line number to translation
    taken: int = 0

    @cached_property
    def longest(self) -> int:
        """Length of its longest sentence in characters; it determines the decoding time."""
        return max(map(len, self.lines))

    def goes_with(self, other: _Lines) -> bool:
        """Whether both may share a batch."""
        return (other.model, other.n_best, other.attention) == (self.model, self.n_best, self.attention)

    def keep(self, place: int, translation: Translation) -> None:
        """Keep the translation of a line; the last one completes the request."""
        self.done[place] = translation
        if len(self.done) == len(self.lines):
            self.answer([self.done[each] for each in range(len(self.lines))])


@dataclass(eq=False)
class _Call(_Job):
    """Any other function that needs a worker."""

    function: Callable[[], Any] = field(kw_only=True)


class TranslationQueue:
    """Queue between the event loop and the worker threads."""

    def __init__(self, settings: ServeSettings, metrics: Metrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._waiting: deque[_Job] = deque()
        self._places = 0
        self._changed = threading.Condition()
        self._closing = False
        self._is_concurrent = False
        self._pace = 0.05  # seconds per request, a moving average
        threads = thread_count()
        count = settings.workers or min(threads, MOST_WORKERS)
        self._threads_each = max(1, threads // count)
        self._workers: list[threading.Thread | None] = [None] * count
        self._busy_since: list[float | None] = [None] * count

    def start(self) -> None:
        """Start the workers."""
        for number in range(len(self._workers)):
            self._start(number)

    def is_well(self) -> bool:
        """Whether some worker is alive and not stuck in a batch that every client has given up."""
        latest = time.monotonic() - _STUCK * self._settings.max_seconds
        with self._changed:
            self._revive()
            return any(
                worker is not None and worker.is_alive() and (since is None or since > latest)
                for worker, since in zip(self._workers, self._busy_since, strict=True)
            )

    def close(self) -> None:
        """Let the workers finish the queue, then stop them."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for worker in self._workers:
            if worker is not None and worker.is_alive():
                worker.join()

    # --- event loop side ------------------------------------------------------------------------------------------

    async def translate(
        self, model: ServedModel, lines: Sequence[str], n_best: int = 1, *, attention: bool = False
    ) -> list[Translation]:
        """The translations of sentences, batched with those of other requests."""
        if not lines:
            return []
        loop = asyncio.get_running_loop()
        job = _Lines(loop.create_future(), loop, model=model, n_best=n_best, attention=attention, lines=lines)
        translations: list[Translation] = await self._place(job)
        return translations

    async def call(self, function: Callable[[], Result]) -> Result:
        """Run a function in a worker and return its result."""
        loop = asyncio.get_running_loop()
        result: Result = await self._place(_Call(loop.create_future(), loop, function=function))
        return result

    async def stream(self, produce: Callable[[], Iterator[Result]]) -> AsyncGenerator[Result, None]:
        """Run an iterator in a worker and yield its items as they come; it stops when the client disconnects."""
        loop = asyncio.get_running_loop()
        found: asyncio.Queue[Any] = asyncio.Queue()

        def run() -> None:
            for item in produce():
                if job.abandoned:
                    return
                loop.call_soon_threadsafe(found.put_nowait, item)

        job = _Call(loop.create_future(), loop, function=run)
        job.future.add_done_callback(lambda _: found.put_nowait(_END))
        self._enter(job)
        try:
            while (item := await found.get()) is not _END:
                yield item
            await job.future  # raises the worker's error
        finally:
            self._leave(job)

    async def _place(self, job: _Job) -> Any:
        self._enter(job)
        try:
            return await job.future
        finally:
            self._leave(job)

    def _enter(self, job: _Job) -> None:
        with self._changed:
            if self._closing:
                raise ApiError(503, "the server is shutting down", retry_after=5)
            if self._places >= self._settings.max_queue:
                wait = min(_MOST_RETRY_AFTER, math.ceil(self._places * self._pace))
                raise ApiError(503, "the server is busy: try again later", retry_after=max(1, wait))
            self._revive()
            self._places += 1
            self._metrics.places.set(self._places)
            self._waiting.append(job)
            self._changed.notify()

    def _leave(self, job: _Job) -> None:
        with self._changed:
            job.abandoned = True
            self._places -= 1
            self._metrics.places.set(self._places)
            if job in self._waiting:
                self._waiting.remove(job)

    # --- worker side ----------------------------------------------------------------------------------------------

    def _start(self, number: int) -> None:
        worker = threading.Thread(target=self._work, args=(number,), name=f"models {number}", daemon=True)
        with self._changed:
            self._workers[number] = None
            try:
                worker.start()
            except RuntimeError as error:  # no thread available; the next request retries
                _log.error("a worker cannot be started: %s", error)
            else:
                self._workers[number] = worker
            self._metrics.workers.set(sum(each is not None for each in self._workers))

    def _revive(self) -> None:
        """Replace dead workers."""
        for number, worker in enumerate(self._workers):
            if (worker is None or not worker.is_alive()) and not self._closing:
                self._metrics.restarts.inc()
                self._start(number)

    def _work(self, number: int) -> None:
        try:
            is_sound = self._serve(number)
        except BaseException:
            _log.exception("a worker has died")
            is_sound = False
        with self._changed:
            self._busy_since[number] = None
            if not is_sound and not self._closing:
                self._workers[number] = None
                self._revive()

    def _serve(self, number: int) -> bool:
        """Work until the server closes; False after a panic: a new thread must take over."""
        is_tuned = False
        while (batch := self._next()) is not None:
            if not is_tuned and (torch := sys.modules.get("torch")) is not None:  # imported only if a model needs it
                torch.set_num_threads(self._threads_each)  # both settings are per thread
                torch.set_flush_denormal(True)
                is_tuned = True
            started = time.perf_counter()
            self._busy_since[number] = time.monotonic()
            places = 1 if isinstance(batch, _Call) else len(batch)
            is_sound = self._run(batch) if isinstance(batch, _Call) else self._translate(batch)
            self._busy_since[number] = None
            seconds = (time.perf_counter() - started) / len(self._workers)
            self._pace += 0.2 * (seconds / places - self._pace)
            if not is_sound:
                return False
        return True

    def _next(self) -> _Call | list[tuple[_Lines, Sequence[int]]] | None:
        """The next batch or call; None when the server closes and the queue is empty."""
        with self._changed:
            while not self._waiting:  # checked again: all requests may be cancelled during the batching delay
                if self._closing:
                    return None
                self._changed.wait()
                if self._is_concurrent and not self._closing:
                    self._delay()
            first = self._waiting[0]
            if isinstance(first, _Call):
                self._waiting.popleft()
                return first
            assert isinstance(first, _Lines)
            batch = self._gather(first)
            self._is_concurrent = len(batch) > 1 or bool(self._waiting)
            if self._waiting:
                self._changed.notify()  # wake a worker for the remainder of a long request
            return batch

    def _delay(self) -> None:
        """The batching delay: wait for the next requests of concurrent clients."""
        end = time.monotonic() + self._settings.batch_wait
        while len(self._waiting) < self._settings.max_batch and (left := end - time.monotonic()) > 0:
            self._changed.wait(left)

    def _gather(self, first: _Lines) -> list[tuple[_Lines, Sequence[int]]]:
        """A batch: sentences of the first request and of compatible ones, those of similar length first."""
        sentences = self._settings.max_batch
        characters = sentences * _CHARACTERS_PER_SENTENCE
        batch: list[tuple[_Lines, Sequence[int]]] = []
        compatible = [job for job in self._waiting if isinstance(job, _Lines) and first.goes_with(job)]
        for job in sorted(compatible, key=lambda job: abs(job.longest - first.longest)):
            start = job.taken
            while job.taken < len(job.lines) and sentences > 0 and characters > 0:
                sentences -= 1
                characters -= len(job.lines[job.taken])
                job.taken += 1
            if job.taken > start:
                batch.append((job, range(start, job.taken)))
            if job.taken < len(job.lines):
                break
            self._waiting.remove(job)
        return batch

    def _translate(self, batch: Sequence[tuple[_Lines, Sequence[int]]]) -> bool:
        """Translate a batch; each request is answered as soon as its own sentences are done.

        False if compiled code panicked.
        """
        owners = [(job, place) for job, places in batch for place in places]
        first = batch[0][0]
        translator = first.model.translator
        self._metrics.batch.observe(len(owners))
        try:
            settings = translator.search_settings(n_best=first.n_best)
            lines = [job.lines[place] for job, place in owners]
            for number, translation in translator.translate_unordered(lines, settings, attention=first.attention):
                job, place = owners[number]
                job.keep(place, translation)
                if all(each.abandoned for each, _ in batch):
                    break
        except BaseException as error:
            is_sound = isinstance(error, Exception)
            if len(batch) == 1:
                first.fail(_as_exception(error))
                return is_sound
            for job, places in batch:  # retry one by one: a failing request must not fail the others
                left = [place for place in places if place not in job.done]
                if left:
                    is_sound &= self._translate([(job, left)])
            return is_sound
        return True

    def _run(self, call: _Call) -> bool:
        try:
            call.answer(call.function())
        except BaseException as error:
            call.fail(_as_exception(error))
            return isinstance(error, Exception)
        return True


def _as_exception(error: BaseException) -> Exception:
    """The error, wrapped so that it may be raised on the event loop."""
    return error if isinstance(error, Exception) else WorkerFault(error)
