"""Processes that decode, hash and encode the blocks of a text, one for each core.

A worker is a Python process without torch; it reads blocks from stdin and answers on stdout, so that a training script
needs no `if __name__ == "__main__"`. Results come in the order of the text, whatever the number of workers. A worker
ends when its stdin is closed, also if this process is killed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import IO, Any, TypeVar

import numpy as np

from regard.config.settings import TextSettings
from regard.data.text.encoding import BlockEncoder, Encoded, Skipped, hash_block
from regard.data.text.hashes import Fingerprint
from regard.data.text.parallel import Block, Chosen, Files, Place
from regard.data.text.seen_words import WordCollector
from regard.data.text.texts import Piece
from regard.data.text.tokenizer import Tokenizer
from regard.errors import DataError, RegardError

LEAST_BYTES = 32 << 20  # of smaller files: workers would take longer to start than to work

Header = dict[str, Any]
Answer = TypeVar("Answer")
Hashed = tuple[Fingerprint, Fingerprint, Fingerprint]


def worker_count(text_bytes: int) -> int:
    """The number of workers for files of this size; 0: this process alone."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores if cores > 1 and text_bytes >= LEAST_BYTES else 0


class Workers:
    """Hashes and encodes pieces of a text, in `count` processes or (0) in this one."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._processes: list[subprocess.Popen[bytes]] = []
        self._encoder: BlockEncoder | None = None

    def __enter__(self) -> Workers:
        here = str(Path(__file__).parents[3])
        path = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))
        for _ in range(self.count):
            self._processes.append(
                subprocess.Popen(
                    [sys.executable, "-P", "-c", "from regard.data.text.workers import serve; serve()"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env={**os.environ, "PYTHONPATH": path},
                    start_new_session=True,  # Ctrl-C is for this process
                )
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                with suppress(BrokenPipeError):  # it had died
                    stream.close()

    def hash(self, pieces: Iterable[Piece], *, pairs: bool) -> Iterator[tuple[Piece, Hashed]]:
        """The hashes of each piece: see `hash_block`."""

        def ask(piece: Piece, process: subprocess.Popen[bytes]) -> Hashed:
            _, parts = _ask(process, {"do": "hash", "pairs": pairs, **_described(piece)}, _payload(piece))
            sources, both, words = (np.frombuffer(part, np.uint64) for part in parts)
            return sources, both, words

        collector = WordCollector()
        return self._in_order(
            pieces, lambda piece: hash_block(piece.block.lines(piece.chosen), collector, pairs=pairs), ask
        )

    def start_encoding(self, source: Tokenizer, target: Tokenizer, settings: TextSettings) -> None:
        """Give every worker the tokenizers and settings."""
        if not self._processes:
            self._encoder = BlockEncoder(source, target, settings)
            return
        parts = [source.to_json().encode()] + ([] if target is source else [target.to_json().encode()])
        for process in self._processes:
            _ask(process, {"do": "start", "settings": settings.model_dump(mode="json")}, parts)

    def encode(
        self, pieces: Iterable[tuple[Piece, bool, Chosen | None]]
    ) -> Iterator[tuple[tuple[Piece, bool, Chosen | None], Encoded]]:
        """The ids of each piece; given whether its sources are tagged, and its duplicates (chosen pairs,)."""

        def here(job: tuple[Piece, bool, Chosen | None]) -> Encoded:
            assert self._encoder is not None
            piece, tagged, duplicate = job
            return self._encoder.encode(piece.block.lines(piece.chosen), tagged=tagged, duplicate=duplicate)

        def ask(job: tuple[Piece, bool, Chosen | None], process: subprocess.Popen[bytes]) -> Encoded:
            piece, tagged, duplicate = job
            header = {"do": "encode", "tagged": tagged, "duplicates": duplicate is not None, **_described(piece)}
            more = () if duplicate is None else (duplicate.tobytes(),)
            about, parts = _ask(process, header, (*_payload(piece), *more))
            lengths = np.frombuffer(parts[2], np.int32), np.frombuffer(parts[3], np.int32)
            return Encoded((parts[0], parts[1]), lengths, Skipped(**about["skipped"]))

        return self._in_order(pieces, here, ask)

    def _in_order(
        self,
        jobs: Iterable[Job],
        here: Callable[[Job], Answer],
        ask: Callable[[Job, subprocess.Popen[bytes]], Answer],
    ) -> Iterator[tuple[Job, Answer]]:
        """Each job with its answer, in order; a few are done ahead."""
        if not self._processes:
            for job in jobs:
                yield job, here(job)
            return
        idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        for process in self._processes:
            idle.put(process)

        def answer(job: Job) -> Answer:
            process = idle.get()
            try:
                return ask(job, process)
            finally:
                idle.put(process)

        waiting: deque[tuple[Job, Future[Answer]]] = deque()
        with ThreadPoolExecutor(self.count) as pool:
            try:
                for job in jobs:
                    waiting.append((job, pool.submit(answer, job)))
                    if len(waiting) > 2 * self.count:
                        first, future = waiting.popleft()
                        yield first, future.result()
                while waiting:
                    first, future = waiting.popleft()
                    yield first, future.result()
            finally:
                for _, future in waiting:
                    future.cancel()


Job = TypeVar("Job")


# --- messages: a line of JSON, which tells the sizes of the bytes that follow -------------------------------------


def _send(stream: IO[bytes], header: Header, parts: Sequence[bytes]) -> None:
    stream.write(json.dumps({**header, "sizes": [len(part) for part in parts]}).encode() + b"\n")
    for part in parts:
        stream.write(part)
    stream.flush()


def _receive(stream: IO[bytes]) -> tuple[Header, list[bytes]] | None:
    line = stream.readline()
    if not line.endswith(b"\n"):
        return None
    header: Header = json.loads(line)
    parts = [stream.read(size) for size in header["sizes"]]
    return (header, parts) if [len(part) for part in parts] == header["sizes"] else None


def _ask(process: subprocess.Popen[bytes], header: Header, parts: Sequence[bytes]) -> tuple[Header, list[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        _send(process.stdin, header, parts)
        answer = _receive(process.stdout)
    except (OSError, ValueError):  # the pipe is broken or closed
        answer = None
    if answer is None:
        raise RegardError(
            f"a worker process that reads the text ended (status {process.poll()}): the memory may have been full. "
            "Run the same command again; it goes on from where it was."
        )
    if "error" in answer[0]:
        raise DataError(answer[0]["error"])
    return answer


def _described(piece: Piece) -> Header:
    block = piece.block
    assert isinstance(block, Block)
    files = block.files
    return {
        "files": [files.source, files.target, files.columns],
        "start": block.start,
        "count": block.count,
        "chosen": piece.chosen is not None,
    }


def _payload(piece: Piece) -> tuple[bytes, ...]:
    assert isinstance(piece.block, Block)
    return piece.block.raw if piece.chosen is None else (*piece.block.raw, piece.chosen.tobytes())


# --- the worker ---------------------------------------------------------------------------------------------------


def serve() -> None:
    """Answer messages until stdin is closed."""
    try:
        _answer(sys.stdin.buffer, sys.stdout.buffer)
    except BrokenPipeError:
        os._exit(1)  # nobody reads: the other process was killed


def _answer(inbox: IO[bytes], outbox: IO[bytes]) -> None:
    encoder: BlockEncoder | None = None
    collector = WordCollector()
    while (message := _receive(inbox)) is not None:
        header, parts = message
        try:
            if header["do"] == "start":
                source = Tokenizer.from_json(parts[0].decode())
                target = Tokenizer.from_json(parts[1].decode()) if len(parts) > 1 else source
                encoder = BlockEncoder(source, target, TextSettings.model_validate(header["settings"]))
                _send(outbox, {}, ())
            else:
                _send(outbox, *_work(header, parts, encoder, collector))
        except RegardError as error:
            _send(outbox, {"error": str(error)}, ())


def _work(
    header: Header, parts: list[bytes], encoder: BlockEncoder | None, collector: WordCollector
) -> tuple[Header, list[bytes]]:
    source, target, columns = header["files"]
    files = Files(source, target, None if columns is None else (columns[0], columns[1]))
    raw, rest = parts[: len(files.paths)], parts[len(files.paths) :]
    chosen = np.frombuffer(rest.pop(0), np.bool_) if header["chosen"] else None
    block = Block(files, header["start"], header["count"], tuple(raw), Place())
    if header["do"] == "hash":
        hashes = hash_block(block.lines(chosen), collector, pairs=header["pairs"])
        return {}, [each.tobytes() for each in hashes]
    assert encoder is not None
    duplicate = np.frombuffer(rest.pop(0), np.bool_) if header["duplicates"] else None
    encoded = encoder.encode(block.lines(chosen), tagged=header["tagged"], duplicate=duplicate)
    kinds = {"kept": encoded.skipped.kept, **encoded.skipped.dropped}
    return {"skipped": kinds}, [*encoded.ids, *(each.tobytes() for each in encoded.lengths)]
