"""Every benchmark in turn: all tables of docs/performance.md, docs/performance-tables.md and docs/scale.md.

    python benchmarks/everything.py --data DIR

DIR is as for recurrent.py. Each benchmark is a process of its own, whose output is kept in WORK/NAME.txt; one that
finished is not repeated, so the same command resumes after an interruption. A benchmark that fails is reported at the
end and the others run. All together take about eight hours on two cores: run nothing else meanwhile.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

if not __package__:
    # started as a script: `benchmarks` is a package all the same
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.benchmark import ROOT, beside_peers, say
from benchmarks.text import read, write

MODEL = "de-en/bahdanau"  # an installed model, where the benchmark needs no training of its own


def commands(options: argparse.Namespace, german: Path) -> dict[str, list[str]]:
    """The words after `python -m benchmarks.NAME`; `german` is a file of German sentences."""
    data = ["--data", str(options.data)]
    if options.torch_index:
        data += ["--torch-index", options.torch_index]
    return {
        "recurrent": data,
        "transformer": data,
        "budget": data,
        "start": ["de-en", "--text", str(german)],
        "operations": ["--precision", "float32,bfloat16"],
        "workers": [],
        "beside": [],
        "serve": ["--model", MODEL, "--text", str(german)],
        "corpus": ["10000", "100000", "1000000", "10000000", "--folder", str(options.work)],
        "bulk": [MODEL],
        "growth": ["--threads", "1"],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is not finished; 1 if something failed."""
    parser = beside_peers(__doc__ or "")
    parser.add_argument("benchmarks", nargs="*", metavar="NAME", help="only these (all)")
    parser.add_argument("--again", action="store_true", help="repeat the finished ones")
    options = parser.parse_args(arguments)
    options.data, options.work = options.data.resolve(), options.work.resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    german = options.work / "test.de"
    write(german, read(options.data, options.test, "de"))
    plan = commands(options, german)
    unknown = sorted(set(options.benchmarks) - plan.keys())
    if unknown:
        parser.error(f"no benchmark is named {', '.join(unknown)}; there are {', '.join(plan)}")
    failed = []
    for name, words in plan.items():
        if options.benchmarks and name not in options.benchmarks:
            continue
        finished = options.work / f"{name}.txt"
        if finished.exists() and not options.again:
            say(f"{name}: finished before ({finished})")
        elif not passes(words_of(name, words), finished):
            failed.append(name)
    if failed:
        say(f"failed: {', '.join(failed)}; the same command tries them again")
    return 1 if failed else 0


def words_of(name: str, words: Sequence[str]) -> list[str]:
    """The command of a benchmark."""
    return [sys.executable, "-m", f"benchmarks.{name}", *words]


def passes(command: Sequence[str], output: Path) -> bool:
    """Run a benchmark, show what it prints, and keep it in `output` if it succeeds."""
    say(" ".join(command[1:]))
    begun, unfinished = time.monotonic(), output.with_suffix(".part")
    with (
        open(unfinished, "w", encoding="utf-8") as file,
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            file.write(line)
    took = timedelta(seconds=round(time.monotonic() - begun))
    say(f"{output.stem}: {'failed' if process.returncode else 'finished'} after {took}")
    if process.returncode:
        return False
    unfinished.replace(output)
    return True


if __name__ == "__main__":
    sys.exit(main())
