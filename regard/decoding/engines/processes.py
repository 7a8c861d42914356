"""Worker processes that search batches with torch, each with one thread and the weights of the parent (fork).

Threads of one process would share Python's lock and wait for each other at every step. A batch goes to the next idle
worker, so a worker on a busy core takes fewer. The workers do not change the batches, and so not the results.

A worker ignores Ctrl-C, which is its parent's to handle, and ends when its parent does, however that dies.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from regard.config.settings import SearchSettings
from regard.decoding.engines.engine import Extras, Sentence
from regard.decoding.hypothesis import Hypothesis
from regard.errors import WorkerDied

Found = Sequence[list[Hypothesis]]
Batch = tuple[Sequence[Sentence], SearchSettings, Extras]
Make = Callable[[], Callable[[Batch], Found]]
FEWEST_BATCHES = 4  # for fewer, starting processes does not pay


def may_fork() -> bool:
    """Whether this process may have workers: on Linux, unless it is itself such a worker."""
    return sys.platform == "linux" and not multiprocessing.current_process().daemon


class Processes:
    """The workers of one model; they start at the first search and end with this object."""

    def __init__(self, count: int, make: Make) -> None:
        """`make` is called in each worker and returns its search."""
        self._count = count
        self._make = make
        self._lock = threading.Lock()
        self._workers: dict[Connection, Any] = {}  # the process behind each connection
        weakref.finalize(self, _stop, self._workers, os.getpid())

    def take(self) -> bool:
        """Reserve the workers for one search; False while another thread has them."""
        return self._lock.acquire(blocking=False)

    def search(
        self,
        batches: Sequence[Sequence[int]],
        sentences: Sequence[Sentence],
        settings: SearchSettings,
        extras: Extras,
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Index and n-best list of each sentence, as batches of their indices finish; needs `take`, and releases."""
        busy: dict[Connection, Sequence[int]] = {}
        try:
            self._start()
            waiting, idle = deque(batches), list(self._workers)
            while waiting or busy:
                while waiting and idle:
                    connection, places = idle.pop(), waiting.popleft()
                    busy[connection] = places
                    self._send(connection, ([sentences[place] for place in places], settings, extras))
                for ready in wait(list(busy)):
                    assert isinstance(ready, Connection)
                    found = self._receive(ready)
                    places = busy.pop(ready)
                    idle.append(ready)
                    yield from zip(places, found, strict=True)
        finally:
            if busy:  # interrupted: what they compute is of no use
                _stop(self._workers, os.getpid())
            self._lock.release()

    def _start(self) -> None:
        context = multiprocessing.get_context("fork")
        while len(self._workers) < self._count:
            own, theirs = context.Pipe()
            inherited = [own, *self._workers]
            process = context.Process(target=_work, args=(theirs, inherited, self._make), daemon=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # newer Python versions warn about forks with threads
                process.start()
            theirs.close()
            self._workers[own] = process

    def _send(self, connection: Connection, batch: Batch) -> None:
        try:
            connection.send_bytes(pickle.dumps(batch))
        except OSError:
            raise self._died(connection) from None

    def _receive(self, connection: Connection) -> Found:
        try:
            found = pickle.loads(connection.recv_bytes())  # of a fork of this process
        except (EOFError, OSError):
            raise self._died(connection) from None
        if isinstance(found, BaseException):
            raise found
        result: Found = found
        return result

    def _died(self, connection: Connection) -> WorkerDied:
        process = self._workers[connection]
        process.join(5)
        status = process.exitcode
        cause = f"exit status {status}"
        if status is not None and status < 0:
            cause = signal.Signals(-status).name
            cause += ", perhaps for lack of memory" if -status == signal.SIGKILL else ""
        return WorkerDied(f"a worker process died ({cause}): use fewer workers (--workers 1).")


def _stop(workers: dict[Connection, Any], parent: int) -> None:
    """End the workers; a fork of their parent leaves them alone."""
    if os.getpid() != parent:
        return
    for connection, process in workers.items():
        connection.close()
        process.terminate()
    for process in workers.values():
        process.join()
    workers.clear()


def _work(
    connection: Connection, inherited: Sequence[Connection], make: Callable[[], Callable[[Batch], Found]]
) -> None:
    """Search the batches that come, until the parent closes the connection or dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for each in inherited:  # else the connections would outlive the parent
        each.close()
    given: deque[Batch] = deque()
    arrived = threading.Semaphore(0)

    def read() -> None:
        try:
            while True:
                given.append(pickle.loads(connection.recv_bytes()))
                arrived.release()
        except (EOFError, OSError):
            os._exit(0)  # also in the middle of a search

    threading.Thread(target=read, daemon=True).start()
    search = make()
    while True:
        arrived.acquire()
        try:
            answer = pickle.dumps(search(given.popleft()))
        except Exception as error:
            answer = _pickled(error)
        connection.send_bytes(answer)


def _pickled(error: Exception) -> bytes:
    try:
        raw = pickle.dumps(error)
        pickle.loads(raw)
    except Exception:
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return raw
