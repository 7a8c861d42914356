"""The load test of `regard serve`: throughput, waiting and memory at 1, 8, 64 and 512 clients.

    python benchmarks/serve.py --model FOLDER --text FILE

FILE holds sentences of the model's source language, one a line. They are first translated offline, then asked for
one by one by clients that each wait for their answer, and at last several in a request. Every request must be answered
200, 429 or 503; the exit status says whether it was. The table goes to docs/performance.md.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if not __package__:
    sys.path[0] = str(ROOT)  # started as a script: `benchmarks` is a package all the same

from benchmarks.benchmark import machine, say  # noqa: E402
from benchmarks.load import Load, Target, measure  # noqa: E402
from benchmarks.process import environment  # noqa: E402
from benchmarks.report import publish  # noqa: E402

EXPECTED = {200, 429, 503}
TOGETHER = 16, 16  # clients, and sentences of each request: the texts of a page, say

# in a process of its own, so that its threads and its memory are not the clients'
OFFLINE = """
import sys, time
from regard.process import tune_process
from regard.inference.translator import Translator
tune_process()
translator = Translator.load(sys.argv[1])
lines = open(sys.argv[2], encoding="utf-8").read().splitlines()
list(translator.translate_lines(lines[:64]))
started = time.perf_counter()
count = sum(1 for _ in translator.translate_lines(lines))
print(count / (time.perf_counter() - started))
"""


def main() -> int:
    """Measure and report; 1 if a request was answered otherwise than it may be."""
    options = parse(sys.argv[1:])
    variables = environment(options.threads, "default") | {"PYTHONPATH": str(ROOT)}
    lines = [line for line in options.text.read_text("utf-8").splitlines() if line.strip()]
    say(f"translating {len(lines)} sentences offline")
    command = [sys.executable, "-c", OFFLINE, str(options.model), str(options.text)]
    offline = float(subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout)
    loads: list[tuple[Load, float]] = []
    with served(options.model, variables) as (process, target):
        asyncio.run(measure(target, lines, 8, 3))  # warm
        for clients in options.clients:
            say(f"{clients} clients for {options.seconds} seconds")
            loads.append((asyncio.run(measure(target, lines, clients, options.seconds)), megabytes(process.pid)))
        clients, together = TOGETHER
        say(f"{clients} clients with {together} sentences a request")
        loads.append((asyncio.run(measure(target, lines, clients, options.seconds, together)), megabytes(process.pid)))
        say("stopping the server")
    results = {"machine": machine(options.threads), "date": time.strftime("%Y-%m-%d"), "offline": offline}
    publish(options.report, "serve", render(results, loads, options))
    say(f"wrote {options.report}")
    wrong = sum((load.statuses for load, _ in loads), start=Counter[int]()).keys() - EXPECTED
    if wrong:
        say(f"requests were answered with {sorted(wrong)} (0: not at all)")
    return 1 if wrong else 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a model folder, or an installed model")
    parser.add_argument("--text", type=Path, required=True, help="sentences of its source language")
    parser.add_argument("--seconds", type=float, default=30.0, help="time for each number of clients")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64, 512])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of the model")
    parser.add_argument("--report", type=Path, default=ROOT / "docs" / "performance.md")
    return parser.parse_args(arguments)


@contextmanager
def served(model: Path, variables: dict[str, str]) -> Iterator[tuple[subprocess.Popen[str], Target]]:
    """A server of the model on a free port, ended with SIGTERM."""
    command = [sys.executable, "-m", "regard", "serve", f"xx-yy={model}", "--port", "0"]
    command += ["--max-connections-per-address", "900"]  # all clients have one address
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if " at http://" not in line:
                raise SystemExit("the server did not start: it says why above")
            yield process, Target(line.rsplit(" at ", 1)[1].strip(), "xx", "yy")
            process.send_signal(signal.SIGTERM)
            if process.wait(60):
                raise SystemExit(f"the server ended with {process.returncode}")
        except BaseException:
            process.kill()
            raise


def megabytes(pid: int) -> float:
    """The resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def render(results: dict[str, Any], loads: Sequence[tuple[Load, float]], options: argparse.Namespace) -> str:
    """The table, with the machine and the command."""
    facts, offline = results["machine"], results["offline"]
    rows = [
        "| clients | sentences a request | translations/s | of offline | p50 | p99 | 200 | 429 or 503 | memory |",
        "|" + "---|" * 9,
    ]
    for load, memory in loads:
        refused = load.statuses[429] + load.statuses[503]
        speed = f"{load.per_second:,.1f} | {load.per_second / offline:.0%}"
        waits = f"{1000 * load.percentile(0.5):,.0f} ms | {1000 * load.percentile(0.99):,.0f} ms"
        counts = f"{load.statuses[200]:,} | {refused:,} | {memory:,.0f} MB"
        rows.append(f"| {load.clients} | {load.together} | {speed} | {waits} | {counts} |")
    about = (
        f"{facts['cpu']}, {facts['cores']} cores; {facts['threads']} threads; Python {facts['python']}, torch "
        f"{facts['torch']}. {results['date']}. Offline, the same sentences: {offline:,.1f} translations/s."
    )
    clients = " ".join(map(str, options.clients))
    model = "FOLDER" if options.model.is_absolute() or options.model.exists() else options.model
    command = (
        f"python benchmarks/serve.py --model {model} --text FILE --seconds {options.seconds:g} --clients {clients}"
    )
    return "\n" + "\n\n".join([about, "\n".join(rows), f"```\n{command}\n```"]) + "\n\n"


if __name__ == "__main__":
    sys.exit(main())
