"""Time and peak memory from parallel text to the third update of a training, by the size of the corpus.

    python -m benchmarks.corpus 10000 100000 1000000 10000000 --folder /tmp/corpus

Writes the text (see `corpus_text`; 300 bytes a pair), trains `fast` for three updates in a process of its own, and
writes a table to docs/performance.md. "Reading" checks and hashes every pair, "encoding" tokenises it.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.benchmark import ROOT
from benchmarks.corpus_text import write_corpus
from benchmarks.report import publish

STAGES = ("reading", "learning the subwords", "encoding")


@dataclass(frozen=True)
class Measured:
    """One training: the pairs, the seconds of each stage and of the whole, and the peak resident memory."""

    pairs: int
    seconds: dict[str, float]
    total: float
    megabytes: float
    worker_megabytes: float  # of the largest worker

    def row(self) -> str:
        """A row of the table."""
        learning = self.seconds["learning the subwords"]
        rates = [f"{self.pairs / self.seconds[stage]:,.0f}" for stage in ("reading", "encoding")]
        memory = [f"{self.megabytes:,.0f}", f"{self.worker_megabytes:,.0f}"]
        return f"| {self.pairs:,} | {' | '.join(rates)} | {learning:.0f} | {self.total:.0f} | {' | '.join(memory)} |"


COLUMNS = (
    "pairs",
    "read, pairs/s",
    "encoded, pairs/s",
    "subwords, s",
    "third update after, s",
    "peak RSS, MB",
    "largest child process, MB",
)
HEADER = f"| {' | '.join(COLUMNS)} |\n|{'--:|' * len(COLUMNS)}"


def measure(pairs: int, folder: Path) -> Measured:
    """Write the text if it is not there, and train on it in a new process."""
    text = folder / f"pairs-{pairs}"
    files = [text.with_name(f"{text.name}.{language}") for language in ("en", "de")]
    if not all(file.exists() for file in files):
        write_corpus(pairs, text)
    with tempfile.TemporaryDirectory(dir=folder) as out:
        command = [sys.executable, "-m", "benchmarks.corpus", "--inside", out, *map(str, files)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return Measured(pairs, **json.loads(done.stdout.splitlines()[-1]))


def inside(out: str, source: str, target: str) -> dict[str, Any]:
    """Train for three updates; called in a process of its own."""
    import regard.training
    from regard.training.progress import LineReporter

    class Stages(LineReporter):
        """Notes when each stage begins."""

        def __init__(self) -> None:
            super().__init__()
            self.began: dict[str, float] = {}

        def working(self, what: str, share: float | None = None, left: str = "") -> None:
            super().working(what, share, left)
            self.began.setdefault(what.partition(",")[0], time.perf_counter())

        def say(self, line: str) -> None:
            super().say(line)
            if "sentence pairs with" in line:
                self.began["end"] = time.perf_counter()

    stages = Stages()
    regard.training.choose_reporter = lambda progress, unit="tokens": stages
    started = time.perf_counter()
    regard.training.train(
        "fast", train=(source, target), valid="none", out=Path(out) / "model", overrides=["training.updates=3"]
    )
    total = time.perf_counter() - started
    ends = [*(stages.began[stage] for stage in STAGES[1:]), stages.began["end"]]
    seconds = {stage: end - stages.began[stage] for stage, end in zip(STAGES, ends, strict=True)}
    peaks = [resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {"seconds": seconds, "total": total, "megabytes": peaks[0], "worker_megabytes": peaks[1]}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pairs", nargs="*", type=int, default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="for the text")
    parser.add_argument("--report", type=Path, default=ROOT / "docs" / "performance.md", help="file for the table")
    parser.add_argument("--inside", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        print(json.dumps(inside(*given.inside)))
        return
    rows = [HEADER]
    for pairs in given.pairs:
        rows.append(measure(pairs, given.folder).row())
        print(rows[-1], flush=True)
    publish(given.report, "corpus", "\n" + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
