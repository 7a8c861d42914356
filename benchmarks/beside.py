"""Training beside one busy single-threaded program: threads of one process against processes of one thread.

    python benchmarks/beside.py --seconds 20

Each way of using the cores trains a recipe on an embedded corpus, alone and beside a program that only counts. Threads
meet at barriers, so that each step waits for the thread whose core is shared. Processes do not wait for each other;
they are independent trainings here, and their speeds are added up. The target: at least half of the quiet speed is
kept.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

if not __package__:
    # started as a script: `benchmarks` is a package all the same
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.process import RunError, environment

SETTLED = 5  # log intervals to discard as warm-up
PATIENCE = 300  # seconds in which a training must begin, or make an update
TARGET = 0.5  # of the quiet speed
CONDITIONS = ("quiet", "beside")


@dataclass(frozen=True)
class Way:
    """How the cores are used."""

    processes: int
    threads: int

    def __str__(self) -> str:
        return f"{_count(self.processes, 'process', 'processes')}, {_count(self.threads, 'thread', 'threads')} each"


Speeds = Mapping[tuple[Way, str], float]
"""Target tokens per second, of all processes together, by way and condition."""


def ways(cores: int) -> list[Way]:
    """One thread alone, one process with a thread for each core, and one process for each core."""
    return list(dict.fromkeys([Way(1, 1), Way(1, cores), Way(cores, 1)]))


def table(speeds: Speeds) -> str:
    """Markdown: both speeds of each way, what it keeps, and its ratio to one process with all threads."""
    lines = [
        "| | quiet, tokens/s | beside, tokens/s | kept | of one process's, quiet | beside |",
        "|---|---|---|---|---|---|",
    ]
    order = list(dict.fromkeys(way for way, _ in speeds))
    usual = max((way for way in order if way.processes == 1), key=lambda way: way.threads)
    for way in order:
        quiet, beside = (speeds[way, condition] for condition in CONDITIONS)
        ratios = [speeds[way, condition] / speeds[usual, condition] for condition in CONDITIONS]
        cells = [str(way), f"{quiet:,.0f}", f"{beside:,.0f}", f"{beside / quiet:.0%}", *(f"{r:.2f}" for r in ratios)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def verdict(speeds: Speeds) -> str:
    """Which ways keep the target."""
    order = list(dict.fromkeys(way for way, _ in speeds))
    kept = [str(way) for way in order if speeds[way, "beside"] >= TARGET * speeds[way, "quiet"]]
    return f"At least {TARGET:.0%} of the quiet speed: {'; '.join(kept) or 'none'}."


def settled(log: str, skipped: int) -> list[float]:
    """Speeds of the stretches of a log.jsonl after the first `skipped`; its last line may be half written."""
    lines = log.splitlines(keepends=True)
    records = [json.loads(line) for line in lines if line.endswith("\n")]
    return [record["tokens_per_second"] for record in records if record["event"] == "update"][skipped:]


# --- running ------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def busy(wanted: bool) -> Iterator[None]:
    """A program that keeps one core busy, while the block runs."""
    if not wanted:
        yield
        return
    with _ended_after(subprocess.Popen([sys.executable, "-c", "while True: pass"])):
        yield


@contextlib.contextmanager
def _ended_after(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def measure(way: Way, recipe: str, corpus: str, seconds: float) -> float:
    """Target tokens per second of all the processes of a way, in the same seconds."""
    with tempfile.TemporaryDirectory(prefix="regard-beside-") as scratch, contextlib.ExitStack() as running:
        folders = [Path(scratch) / str(number) for number in range(way.processes)]
        started = [
            running.enter_context(_ended_after(subprocess.Popen(_command(way, recipe, corpus, folder), **_quiet(way))))
            for folder in folders
        ]
        _wait(started, folders, [0] * way.processes, SETTLED)
        before = [len(_stretches(folder, 0)) for folder in folders]
        time.sleep(seconds)
        found = _wait(started, folders, before, 1)  # a way that is hardly moving gets the time it needs
    return sum(statistics.median(stretches) for stretches in found)


def _wait(
    started: Sequence[subprocess.Popen[bytes]], folders: Sequence[Path], skipped: Sequence[int], least: int
) -> list[list[float]]:
    """The stretches of each log after the skipped ones, as soon as each has enough."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and all(process.poll() is None for process in started):
        found = [_stretches(folder, count) for folder, count in zip(folders, skipped, strict=True)]
        if all(len(stretches) >= least for stretches in found):
            return found
        time.sleep(0.2)
    command = " ".join(str(word) for word in started[0].args) if isinstance(started[0].args, list) else ""
    raise RunError(f"a training ended or stood still; see what this says: {command}")


def _command(way: Way, recipe: str, corpus: str, folder: Path) -> list[str]:
    settings = ("updates=1000000", "validate_every=1000000", "log_every=1", "save_every=1000")
    sets = [word for setting in settings for word in ("--set", f"training.{setting}")]
    threads = ["--threads", str(way.threads)]
    train = [sys.executable, "-m", "regard", "train", recipe, "--train", corpus, "--out", str(folder)]
    return [*train, *threads, *sets]


def _quiet(way: Way) -> dict[str, object]:
    root = Path(__file__).resolve().parent.parent
    variables = environment(way.threads, "default") | {"PYTHONPATH": str(root)}
    return {"env": variables, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def _stretches(folder: Path, skipped: int) -> list[float]:
    log = folder / "log.jsonl"
    return settled(log.read_text("utf-8"), skipped) if log.exists() else []


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="transformer-tiny")
    parser.add_argument("--train", default="toy:phrases:en-fr")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    speeds: dict[tuple[Way, str], float] = {}
    for way in ways(options.cores):
        for condition in CONDITIONS:
            with busy(condition == "beside"):
                speeds[way, condition] = measure(way, options.recipe, options.train, options.seconds)
            print(f"{way}, {condition}: {speeds[way, condition]:,.0f} tokens/s", file=sys.stderr, flush=True)
    print(table(speeds), "", verdict(speeds), sep="\n")


if __name__ == "__main__":
    main()
