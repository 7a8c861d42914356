"""The start, and the gain of workers.

    python benchmarks/start.py MODEL [--text FILE] [--repeats 5]

The start: seconds from a new process to the end of `--help`, to the first sentence of `regard translate` and to the
first answer of `regard serve`, with the compiled copy in place; median and best. Targets: 0.4, 0.8 and 1.5 s.
Workers: sentences/s of a file of lines with one and with all workers, by engine; the start is not counted, by
translating the file once and twice. Target: 1.8 times with two workers. Outputs must be equal, byte by byte.
The tables go to docs/performance-tables.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

if not __package__:
    # started as a script: `benchmarks` is a package all the same
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.benchmark import ROOT, cpu_name
from benchmarks.report import publish

REGARD = [sys.executable, "-m", "regard"]


def main() -> None:
    """Measure, print, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="a model folder, or an installed model")
    parser.add_argument("--text", type=Path, help="lines to translate with workers")
    parser.add_argument("--engines", default="auto,torch", help="engines for the workers' table")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--report", type=Path, default=ROOT / "docs" / "performance-tables.md", help="file for the tables"
    )
    given = parser.parse_args()
    model = str(given.model)
    first_sentence(model)  # makes the compiled copy and the trial of the processor
    rows = ["| start | median | best |", "|---|---|---|"]
    measures: dict[str, Callable[[], float]] = {
        "`regard --help`": lambda: seconds([*REGARD, "--help"]),
        "`regard translate`, first sentence": lambda: first_sentence(model),
        "the same with `--engine torch`": lambda: first_sentence(model, "--engine", "torch"),
        "`regard serve`, first answer": lambda: first_answer(model),
    }
    for name, measure in measures.items():
        taken = [measure() for _ in range(given.repeats)]
        rows.append(f"| {name} | {statistics.median(taken):.2f} s | {min(taken):.2f} s |")
    if given.text is not None:
        rows += ["", "| engine | 1 worker | all workers | gain |", "|---|---|---|---|"]
        for engine in given.engines.split(","):
            one, all_ = workers(model, given.text, engine, given.repeats)
            rows.append(f"| {engine} | {one:.1f}/s | {all_:.1f}/s | {all_ / one:.2f}× |")
    tables = "\n".join(rows)
    print(tables)
    command = f"python benchmarks/start.py MODEL{' --text FILE' if given.text else ''} --repeats {given.repeats}"
    about = f"{cpu_name()}, {len(os.sched_getaffinity(0))} cores. {time.strftime('%Y-%m-%d')}."
    publish(given.report, "start", f"\n{about}\n\n{tables}\n\n```\n{command}\n```\n")


def seconds(command: Sequence[str], source: bytes = b"") -> float:
    """The time of a command."""
    started = time.perf_counter()
    subprocess.run(command, input=source, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def first_sentence(model: str, *options: str) -> float:
    """The time until the first line of output; stdin stays open."""
    command = [*REGARD, "translate", model, "--window", "1", *options]
    started = time.perf_counter()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"a man is here .\n")
        process.stdin.flush()
        process.stdout.readline()
        taken = time.perf_counter() - started
        process.stdin.close()
    return taken


def first_answer(model: str) -> float:
    """The time until the first translation over HTTP."""
    started = time.perf_counter()
    command = [*REGARD, "serve", f"xx-yy={model}", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        body = json.dumps({"q": "a man is here .", "source": "xx", "target": "yy"}).encode()
        request = urllib.request.Request(f"{address}/translate", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            answer.read()
        taken = time.perf_counter() - started
        process.terminate()
    return taken


def workers(model: str, text: Path, engine: str, repeats: int) -> tuple[float, float]:
    """Sentences per second with one worker and with all, measured in turn."""
    lines = text.read_bytes()
    count = lines.count(b"\n")
    rates: dict[int, list[float]] = {1: [], len(os.sched_getaffinity(0)): []}
    with tempfile.TemporaryDirectory() as folder:
        once, twice = Path(folder, "once"), Path(folder, "twice")
        once.write_bytes(lines)
        twice.write_bytes(lines * 2)
        for _ in range(repeats):
            said = set()
            for number, found in rates.items():
                out = Path(folder, f"out{number}")
                options = ["--engine", engine, "--workers", str(number), "--threads", str(number), "-o", str(out)]
                command = [*REGARD, "translate", model, *options, "-i"]
                short, long = seconds([*command, str(once)]), seconds([*command, str(twice)])
                found.append(count / max(1e-9, long - short))
                said.add(out.read_bytes())
            assert len(said) == 1, "the number of workers changed the output"
    one, all_ = (statistics.median(found) for found in rates.values())
    return one, all_


if __name__ == "__main__":
    main()
