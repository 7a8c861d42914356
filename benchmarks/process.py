"""Running a toolkit as a process of its own: its output, its time, its peak memory."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TUNED_MALLOC = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "100000000000"}
"""Keeps glibc from handing large buffers back to the kernel and faulting them in again at every step."""

Stop = Callable[[str], bool]
"""Sees each line of output; True ends the process."""


class RunError(Exception):
    """A process that did not do its work; the message has its last lines."""


@dataclass(frozen=True)
class Finished:
    """A process that is over: what it wrote, its largest resident memory, and how long it lasted."""

    lines: list[str]
    peak_megabytes: float
    seconds: float

    def last(self, pattern: re.Pattern[str]) -> str:
        """The group of the pattern in the last line that has it."""
        for match in map(pattern.search, reversed(self.lines)):
            if match:
                return match[1]
        raise RunError(f"the output has no line with {pattern.pattern!r}")


def environment(threads: int, allocator: str) -> dict[str, str]:
    """The variables of a run: this process's, with the threads and the allocator asked for."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    # A peer must not find this checkout's modules, nor the user's own packages.
    kept.pop("PYTHONPATH", None)
    tuned = TUNED_MALLOC if allocator == "tuned" else {}
    return kept | tuned | {"OMP_NUM_THREADS": str(threads), "PYTHONNOUSERSITE": "1", "PYTHONUNBUFFERED": "1"}


def run(
    command: Sequence[str | Path], folder: Path, variables: Mapping[str, str], log: Path, stop: Stop | None = None
) -> Finished:
    """Run a command in a folder until it ends, or until `stop` has seen enough; the log keeps all it writes."""
    lines: list[str] = []
    stopped = False
    words = [str(part) for part in command]
    started = time.perf_counter()
    with (
        open(log, "w", encoding="utf-8") as file,
        subprocess.Popen(
            words,
            cwd=folder,
            env=dict(variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process,
    ):
        try:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line.rstrip("\n"))
                print(lines[-1], file=file, flush=True)
                if not stopped and stop is not None and stop(lines[-1]):
                    stopped = True
                    process.terminate()
            # wait4 and not Popen.wait: only it tells the memory of this very process (and never less than the
            # memory of the process that started it, so the benchmark itself keeps clear of torch)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            seconds = time.perf_counter() - started
        except BaseException:
            process.kill()
            raise
    terminated = (-signal.SIGTERM, 128 + signal.SIGTERM)  # by the signal, or by a program that catches it and ends
    if process.returncode not in ((0, *terminated) if stopped else (0,)):
        last = lines[-1] if lines else "no output"
        raise RunError(f"{Path(words[0]).name} ended with {process.returncode}: {last}\n" + "\n".join(lines[-15:]))
    return Finished(lines, usage.ru_maxrss / 1024, seconds)


class AfterAWhile:
    """Stops a run some minutes after its first line of progress, when it has written a few of them.

    The first line closes the start-up: reading the text, building the model, the first updates.
    """

    LINES = 3

    def __init__(self, minutes: float, is_progress: Callable[[str], bool]) -> None:
        self.seconds = 60 * minutes
        self.is_progress = is_progress
        self.seen = 0
        self.first = 0.0

    def __call__(self, line: str) -> bool:
        """Whether the run has lasted long enough."""
        if not self.is_progress(line):
            return False
        self.seen += 1
        if self.seen == 1:
            self.first = time.monotonic()
        return self.seen >= self.LINES and time.monotonic() - self.first >= self.seconds
