"""How time and memory grow with the corpus, the sentences and the model.

    python benchmarks/growth.py

trains and translates generated text, one process per point: corpora of 10⁴ to 10⁶ pairs, sentences of 10 to 320 words,
hidden sizes of 64 to 1,024. Each curve gets the exponent of its last doublings: 1 is linear. The table and the picture
go to docs/performance.md, the figures to a JSON file beside it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

if not __package__:
    # started as a script: `benchmarks` is a package all the same
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.benchmark import cpu_name, say
from benchmarks.process import Finished, environment, run
from benchmarks.regard_side import speeds
from benchmarks.report import publish

ROOT = Path(__file__).resolve().parent.parent
WORDS = 2000  # of the generated language; with the `word` tokenizer a word is a token
KINDS = ("bahdanau", "transformer")
PAIRS, LENGTHS, SIZES = (10_000, 100_000, 1_000_000), (10, 20, 40, 80, 160, 320), (64, 128, 256, 512, 1024)
LINES = (1_000, 10_000, 100_000)
HIDDEN, LENGTH = 128, 20  # where another axis varies
UPDATE_TOKENS = 5_000


@dataclass(frozen=True)
class Point:
    """One measurement: seconds at one value of what varies."""

    curve: str
    value: int
    seconds: float
    peak_megabytes: float


@dataclass(frozen=True)
class Curve:
    """What varies, what is timed, and the exponent that is expected of it."""

    name: str
    varies: str
    unit: str
    expected: str


CURVES = [
    Curve("start of training", "pairs", "s from the start to the third update", "1"),
    *(Curve(f"{kind}: training", "words", "s per 1,000 sentences", "1 to 2") for kind in KINDS),
    *(Curve(f"{kind}: translation", "words", "s per 1,000 sentences", "1 to 2") for kind in KINDS),
    *(Curve(f"{kind}: training by size", "hidden size", "s per 100,000 tokens", "1 to 2") for kind in KINDS),
    Curve("bulk translation", "lines", "s for the whole process", "1"),
]


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """The slope of log(seconds) over log(value) at the larger half of the values, by least squares."""
    half = sorted(points)[-max(2, (len(points) + 1) // 2) :]
    xs, ys = [math.log(x) for x, _ in half], [math.log(y) for _, y in half]
    return statistics.linear_regression(xs, ys).slope


# --- text and models ----------------------------------------------------------------------------------------------


def lines(count: int, length: int, seed: int) -> Iterator[str]:
    """`count` sentences of `length` words; a linear congruential generator picks the words."""
    state = seed
    for _ in range(count):
        words = []
        for _ in range(length):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            words.append(f"w{(state >> 33) % WORDS}")
        yield " ".join(words)


def write_text(folder: Path, count: int, length: int) -> list[str | Path]:
    """Two files; their names are the arguments of --train."""
    paths = [folder / f"text.{side}" for side in ("source", "target")]
    for seed, path in enumerate(paths):
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines(count, length, seed))
    return list(paths)


def recipe(kind: str, hidden: int, updates: int) -> str:
    """A small model of one kind, whose tokens are words."""
    sizes = {
        "bahdanau": f"embedding_size = {hidden}\nhidden_size = {hidden}\nattention_size = {hidden}\n"
        f"maxout_size = {hidden}",
        "transformer": f"hidden_size = {hidden}\nencoder_layers = 2\ndecoder_layers = 2\nheads = 4\n"
        f"feedforward_size = {4 * hidden}\ntie_embeddings = 'target'",
    }[kind]
    return f"""
[model]
kind = "{kind}"
{sizes}
[text]
tokenizer = "word"
vocabulary_size = {WORDS + 10}
max_length = 400
[training]
updates = {updates}
batch_tokens = {UPDATE_TOKENS}
validate_every = 1000000
save_every = 1000
log_every = 2
"""


class Growth:
    """One run of the command."""

    def __init__(self, folder: Path, threads: int, largest: int) -> None:
        self.folder = folder
        self.variables = environment(threads, "default") | {"PYTHONPATH": str(ROOT)}
        self.threads = threads
        self.largest = largest
        self.points: list[Point] = []

    def measure(self) -> None:
        """Every curve."""
        for count in PAIRS:
            if count <= self.largest:
                finished, _ = self.train("transformer", HIDDEN, count, LENGTH, updates=3)
                self.add("start of training", count, finished.seconds, finished)
        for kind in KINDS:
            for length in LENGTHS:
                pairs = max(200, 200_000 // length)
                finished, tokens = self.train(kind, HIDDEN, pairs, length, updates=12)
                self.add(f"{kind}: training", length, 1000 * (length + 1) / tokens, finished)
                count = max(32, 6400 // length)
                seconds, finished = self.translate(count, length)
                self.add(f"{kind}: translation", length, 1000 * seconds / count, finished)
            for hidden in SIZES:
                finished, tokens = self.train(kind, hidden, 5_000, LENGTH, updates=12)
                self.add(f"{kind}: training by size", hidden, 100_000 / tokens, finished)
        self.train("transformer", HIDDEN, 1_000, LENGTH, updates=3)
        for count in LINES:
            if count <= self.largest:
                finished = self.translate_command(count)
                self.add("bulk translation", count, finished.seconds, finished)

    def add(self, curve: str, value: int, seconds: float, finished: Finished) -> None:
        """Keep a point."""
        say(f"  {curve}, {value:,}: {seconds:.3g} s, {finished.peak_megabytes:,.0f} MB")
        self.points.append(Point(curve, value, seconds, finished.peak_megabytes))

    def train(self, kind: str, hidden: int, pairs: int, length: int, *, updates: int) -> tuple[Finished, float]:
        """The process, and the median of its target tokens per second."""
        path, out = self.folder / "recipe.toml", self.folder / "model"
        path.write_text(recipe(kind, hidden, updates), "utf-8")
        files = write_text(self.folder, pairs, length)
        command: list[str | Path] = [sys.executable, "-m", "regard", "train", path, "--train", *files, "--out", out]
        command += ["--valid", "none", "--overwrite", "--threads", str(self.threads)]
        finished = run(command, self.folder, self.variables, self.folder / "log.txt")
        return finished, statistics.median(speeds((out / "log.jsonl").read_text("utf-8"))[1:] or [math.nan])

    def translate(self, count: int, length: int) -> tuple[float, Finished]:
        """Seconds for sentences whose translations are as long as they are, start-up excluded."""
        source = self.folder / "test.txt"
        source.write_text("".join(f"{line}\n" for line in lines(count, length, 7)), "utf-8")
        driver = Path(__file__).with_name("translate_as_long.py")
        command: list[str | Path] = [sys.executable, driver, self.folder / "model", source]
        finished = run(command, self.folder, self.variables, self.folder / "log.txt")
        return float(finished.lines[-1]), finished

    def translate_command(self, count: int) -> Finished:
        """`regard translate` of `count` lines."""
        source = self.folder / "bulk.txt"
        with open(source, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines(count, LENGTH, 7))
        command: list[str | Path] = [sys.executable, "-m", "regard", "translate", self.folder / "model", "-i", source]
        command += ["-o", self.folder / "bulk.out", "--beam", "1", "--set", "search.max_length_ratio=1"]
        command += ["--set", "search.max_length_extra=1"]
        return run(command, self.folder, self.variables, self.folder / "log.txt")


# --- the report ---------------------------------------------------------------------------------------------------


def table(points: Sequence[Point], about: str, command: str) -> str:
    """Markdown: a row for each curve, with its values, exponent and largest memory."""
    rows = [
        "| | varies | time | exponent | expected | peak MB, smallest to largest |",
        "|---|---|---|---|---|---|",
    ]
    for curve in CURVES:
        mine = [point for point in points if point.curve == curve.name]
        if len(mine) < 2:
            continue
        times = ", ".join(f"{point.value:,}: {point.seconds:.3g}" for point in mine)
        slope = exponent([(point.value, point.seconds) for point in mine])
        memory = f"{mine[0].peak_megabytes:,.0f} to {mine[-1].peak_megabytes:,.0f}"
        cells = [curve.name, curve.varies, f"{curve.unit}: {times}", f"{slope:.2f}", curve.expected, memory]
        rows.append(f"| {' | '.join(cells)} |")
    picture = "![Time against corpus, sentence and model](images/performance-growth.png)"
    return "\n" + "\n\n".join([about, picture, "\n".join(rows), f"```\n{command}\n```"]) + "\n"


def draw(points: Sequence[Point], path: Path) -> None:
    """Time over what varies, both logarithmic: a panel for each thing that varies."""
    import matplotlib.pyplot as plt

    varied = list(dict.fromkeys(curve.varies for curve in CURVES))
    figure, panels = plt.subplots(1, len(varied), figsize=(4 * len(varied), 3.6), layout="constrained")
    for panel, varies in zip(panels, varied, strict=True):
        for curve in (each for each in CURVES if each.varies == varies):
            mine = [(point.value, point.seconds) for point in points if point.curve == curve.name]
            if len(mine) < 2:
                continue
            slope = exponent(mine)
            panel.loglog(*zip(*mine, strict=True), marker="o", markersize=4, label=f"{curve.name} ({slope:.2f})")
        panel.set_xlabel(varies)
        panel.set_ylabel("seconds")
        panel.grid(visible=True, which="major", alpha=0.3)
        panel.legend(fontsize=8, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="CPU threads (all)")
    parser.add_argument("--largest", type=int, default=PAIRS[-1], help="largest corpus, in pairs or lines")
    parser.add_argument("--report", type=Path, default=ROOT / "docs" / "performance.md", help="file for the table")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="regard-growth-") as folder:
        growth = Growth(Path(folder), options.threads, options.largest)
        growth.measure()
    figures = options.report.with_name(f"{options.report.stem}-growth.json")
    figures.write_text(json.dumps([asdict(point) for point in growth.points], indent=1) + "\n", "utf-8")
    about = f"{cpu_name()}, CPU threads: {options.threads}. One process per point."
    command = f"python benchmarks/growth.py --threads {options.threads} --largest {options.largest}"
    publish(options.report, "growth", table(growth.points, about, command))
    draw(growth.points, options.report.parent / "images" / "performance-growth.png")


if __name__ == "__main__":
    main()
