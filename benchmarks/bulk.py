"""What bulk translation costs: a model of its time, checked with one worker and with two.

    python benchmarks/bulk.py MODEL [--input 'shards/*.txt.gz']

translates the same sentences with `regard translate --ray`: with one worker, with one worker and four times as many
shards, and with two workers. The first two give the parameters of

    seconds = start + (sentences / rate + shards · overhead) / workers

and the third one checks it. Without --input, the sentences are generated. The tables, with what 10⁹ sentences would
take, go to docs/scale.md.
"""

from __future__ import annotations

import argparse
import glob
import gzip
import itertools
import re
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

if not __package__:
    # started as a script: `benchmarks` is a package all the same
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.benchmark import cpu_name, say
from benchmarks.process import environment, run
from benchmarks.report import publish

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "docs" / "scale.md"
MORE_SHARDS = 4
BILLION = 10**9
SHARD_SENTENCES = 100_000  # of a large run
WORKERS = (16, 64, 256, 1024)
_DONE = re.compile(r"([\d,]+ sentences in \S+), ([\d,.]+) sentences/s")


@dataclass(frozen=True)
class Run:
    """One measurement."""

    workers: int
    shards: int
    sentences: int
    seconds: float  # of the whole command
    translating: float  # from the first loaded model to the last shard

    @property
    def start(self) -> float:
        """Seconds to start and stop: Ray, the workers, the model."""
        return self.seconds - self.translating


@dataclass(frozen=True)
class Cost:
    """The parameters of the model."""

    start: float  # seconds
    rate: float  # sentences per second and worker
    overhead: float  # seconds per shard

    def seconds(self, sentences: float, shards: float, workers: int) -> float:
        """The time of a whole run, while there are many more shards than workers."""
        return self.start + (sentences / self.rate + shards * self.overhead) / workers


def fitted(few: Run, many: Run) -> Cost:
    """The parameters from two runs of one worker over the same sentences in few and in many shards."""
    overhead = max(0.0, (many.translating - few.translating) / (many.shards - few.shards))
    return Cost(few.start, few.sentences / (few.translating - overhead * few.shards), overhead)


# --- measuring ----------------------------------------------------------------------------------------------------


def write_shards(lines: list[str], folder: Path, count: int) -> None:
    """The lines as packed shards of about equal size."""
    folder.mkdir()
    for number in range(count):
        part = lines[len(lines) * number // count : len(lines) * (number + 1) // count]
        (folder / f"{number:05}.txt.gz").write_bytes(gzip.compress("".join(f"{line}\n" for line in part).encode()))


def measure(model: str, folder: Path, workers: int, options: list[str], log: Path) -> Run:
    """One run of the command."""
    out = folder.with_name(f"{folder.name}-{workers}")
    command = [sys.executable, "-m", "regard", "translate", model, "--ray", "local", "--workers", str(workers)]
    words = [*command, "--input", folder, "--output", out, *options]
    done = run(words, ROOT, environment(1, "default"), log)
    match = next(found for found in map(_DONE.search, reversed(done.lines)) if found)
    sentences = int(match[1].split()[0].replace(",", ""))
    shards = len(list(folder.iterdir()))
    result = Run(workers, shards, sentences, done.seconds, sentences / float(match[2].replace(",", "")))
    say(f"{workers} workers, {shards} shards: {result.seconds:.1f} s, of which {result.translating:.1f} s translating")
    return result


def packed_bytes(folder: Path) -> int:
    """The size of the shards in a folder."""
    return sum(path.stat().st_size for path in folder.glob("*.txt.gz"))


# --- reporting ----------------------------------------------------------------------------------------------------


def report(runs: list[Run], cost: Cost, storage: tuple[float, float], about: str) -> str:
    """The tables: measured against predicted, and 10⁹ sentences."""
    lines = [
        f"\n{about}: {cost.start:.1f} s to start, {cost.rate:,.0f} sentences/s per worker, "
        f"{cost.overhead * 1000:,.0f} ms per shard. Packed, a sentence has {storage[0]:.0f} bytes of input and "
        f"{storage[1]:.0f} of output.\n",
        "| workers | shards | sentences | measured | predicted | difference |",
        "|---|---|---|---|---|---|",
    ]
    for each in runs:
        predicted = cost.seconds(each.sentences, each.shards, each.workers)
        lines.append(
            f"| {each.workers} | {each.shards} | {each.sentences:,} | {each.seconds:.1f} s | {predicted:.1f} s "
            f"| {each.seconds / predicted - 1:+.0%} |"
        )
    shards = BILLION / SHARD_SENTENCES
    lines += [
        f"\n10⁹ sentences in {shards:,.0f} shards, {storage[0]:.0f} GB in and {storage[1]:.0f} GB out:\n",
        "| workers (cores) | time | core hours |",
        "|---|---|---|",
    ]
    for workers in WORKERS:
        seconds = cost.seconds(BILLION, shards, workers)
        lines.append(f"| {workers:,} | {timedelta(seconds=round(seconds, -2))} | {seconds * workers / 3600:,.0f} |")
    return "\n".join(lines) + "\n"


def read_sentences(pattern: str | None, count: int) -> list[str]:
    """The first sentences of the user's shards, or generated ones."""
    from regard.data.lines import read_lines
    from regard.data.toy import toy_corpus

    lines: Iterable[str]
    if pattern is None:
        lines = (pair.source for pair in toy_corpus("phrases", "en-fr").generate("train", count))
    else:
        lines = itertools.chain.from_iterable(map(read_lines, sorted(glob.glob(pattern))))
    return list(itertools.islice(lines, count))


def main() -> None:
    """Measure, fit, check and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a model folder")
    parser.add_argument("--input", help="shards of text; generated if left out")
    parser.add_argument(
        "--sentences", type=int, default=40_960, help="in each run; whole windows of 1,024 in each shard"
    )
    parser.add_argument("--shards", type=int, default=10)
    parser.add_argument("--report", type=Path, default=REPORT, help="the page for the tables")
    options, rest = parser.parse_known_args()  # the rest are options of `regard translate`, such as --int8
    with tempfile.TemporaryDirectory(prefix="regard-bulk-") as name:
        folder = Path(name)
        lines = read_sentences(options.input, options.sentences)
        few, many = folder / "few", folder / "many"
        write_shards(lines, few, options.shards)
        write_shards(lines, many, options.shards * MORE_SHARDS)
        plan = [(few, 1), (many, 1), (few, 2)]
        runs = [measure(options.model, each, workers, rest, folder / "log") for each, workers in plan]
        storage = packed_bytes(few) / len(lines), packed_bytes(folder / "few-1") / len(lines)
    words = sum(len(line.split()) for line in lines) / len(lines)
    said = " ".join(["python benchmarks/bulk.py", options.model, *rest])
    about = f"`{said}` on {cpu_name()}, {len(lines):,} sentences of {words:.1f} words"
    tables = report(runs, fitted(runs[0], runs[1]), storage, about)
    publish(options.report, "bulk", tables)
    print(tables)


if __name__ == "__main__":
    main()
