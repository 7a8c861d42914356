"""Comparison of image classifiers as a table: accuracy over several seeds, size and time."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# name -> label in tables
NAMES = {
    "none": "no attention",
    "se": "squeeze-and-excitation",
    "cbam": "CBAM",
    "bam": "BAM",
    "self_attention": "self-attention",
    "vit": "ViT",
}


@dataclass(frozen=True)
class Entry:
    """One network over all its seeds."""

    name: str
    accuracies: tuple[float, ...]  # on the test images
    parameters: int
    multiply_adds: int
    seconds: float  # mean training time
    epochs: float

    @property
    def mean(self) -> float:
        """Mean accuracy."""
        return statistics.fmean(self.accuracies)

    @property
    def spread(self) -> float:
        """Sample standard deviation of the accuracies, 0 for one seed."""
        return statistics.stdev(self.accuracies) if len(self.accuracies) > 1 else 0.0


@dataclass(frozen=True)
class Comparison:
    """All entries so far."""

    entries: tuple[Entry, ...]
    data: str
    budget: str

    def text(self) -> str:
        """A Markdown table."""
        bases = [entry for entry in self.entries if entry.name == "none"]
        lines = [
            f"Test accuracy on {self.data}, {self.budget} of training each, mean ± standard deviation over the seeds:",
            "",
            "| network | accuracy | seeds | parameters | multiply-adds | epochs | minutes |",
            "|---|---|---|---|---|---|---|",
        ]
        for entry in self.entries:
            lines.append(
                f"| {NAMES[entry.name]} | {entry.mean:.2%} ± {100 * entry.spread:.2f} | {len(entry.accuracies)} "
                f"| {_against(entry.parameters, [base.parameters for base in bases])} "
                f"| {_against(entry.multiply_adds, [base.multiply_adds for base in bases])} "
                f"| {entry.epochs:.1f} | {entry.seconds / 60:.1f} |"
            )
        return "\n".join(lines)


def _against(value: int, base: Sequence[int]) -> str:
    """A number, with its difference from the network without attention, if there is one."""
    return f"{value:,}" + "".join(f" ({value / other - 1:+.2%})" for other in base if other != value)


def comparison_of(record: dict[str, Any]) -> Comparison:
    """The comparison in a results.json."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for key, run in sorted(record["runs"].items()):
        runs.setdefault(key.rpartition("-")[0], []).append(run)
    entries = tuple(
        Entry(
            name=name,
            accuracies=tuple(run["accuracy"] for run in runs[name]),
            parameters=runs[name][0]["parameters"],
            multiply_adds=runs[name][0]["multiply_adds"],
            seconds=statistics.fmean(run["seconds"] for run in runs[name]),
            epochs=statistics.fmean(run["epochs"] for run in runs[name]),
        )
        for name in NAMES
        if name in runs
    )
    return Comparison(entries, Path(record["asked"]["data"]).name, record["asked"]["budget"])
