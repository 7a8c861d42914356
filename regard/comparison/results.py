"""The results of a comparison: means over seeds, confidence intervals, significance, tables."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.comparison.entrants import slug
from regard.comparison.measure import Test
from regard.evaluation.by_length import LengthRow
from regard.evaluation.significance import Interval, paired_bootstrap
from regard.storage.files import write_bytes

DASH = "–"
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Entry:
    """One entrant over all its seeds."""

    name: str
    runs: tuple[dict[str, Any], ...]
    intervals: dict[str, Interval]  # by metric, of the first seed; empty where there are no translations

    def values(self, key: str) -> list[float]:
        """A result of every seed, where it is known."""
        return [float(run[key]) for run in self.runs if run.get(key) is not None]

    def mean(self, key: str) -> float | None:
        """The mean over the seeds."""
        return statistics.fmean(found) if (found := self.values(key)) else None

    def spread(self, key: str) -> float:
        """The sample standard deviation over the seeds, 0 for one."""
        found = self.values(key)
        return statistics.stdev(found) if len(found) > 1 else 0.0

    @property
    def first(self) -> dict[str, Any]:
        """The results of the first seed."""
        return self.runs[0]

    @property
    def by_length(self) -> list[LengthRow]:
        """BLEU by source length of the first seed."""
        return [LengthRow(**row) for row in self.first.get("by_length", [])]


@dataclass(frozen=True)
class Comparison:
    """All entries so far, in the order in which they were named."""

    entries: tuple[Entry, ...]
    task: str
    asked: dict[str, Any]
    sentences: tuple[str, ...] = ()  # whose attention the page shows

    @classmethod
    def read(cls, record: dict[str, Any], out: Path, test: Test) -> Comparison:
        """The comparison of a results.json and the translations beside it."""
        runs: dict[str, list[dict[str, Any]]] = {}
        for run in record["runs"].values():
            runs.setdefault(run["entrant"], []).append(run)
        intervals = _intervals(list(runs), out, test)
        entries = tuple(Entry(name, tuple(each), intervals.get(name, {})) for name, each in runs.items())
        return cls(entries, record["task"], record["asked"], test.sentences)

    def write(self, out: Path) -> None:
        """comparison.md and comparison.html."""
        from regard.comparison.page import render_page

        write_bytes(out / "comparison.md", (self.text() + "\n").encode())
        write_bytes(out / "comparison.html", render_page(self).encode())

    @cached_property
    def columns(self) -> list[tuple[str, Callable[[Entry], str]]]:
        """Title and cell of each column that some entry fills."""
        every = _COLUMNS[self.task](self)
        return [(title, cell) for title, cell in every if any(cell(entry) != DASH for entry in self.entries)]

    def text(self) -> str:
        """A Markdown document: the table, BLEU by source length, and how to read them."""
        rows = [[entry.name, *(cell(entry) for _, cell in self.columns)] for entry in self.entries]
        parts = [self.heading, markdown_table(["model", *(title for title, _ in self.columns)], rows)]
        lengths = length_rows(self.entries)
        if len(lengths) > 1:
            parts += ["BLEU by source length (words):", markdown_table(lengths[0], lengths[1:])]
        if self.notes:
            parts.append(self.notes)
        return "\n\n".join(parts)

    @property
    def heading(self) -> str:
        """What was compared, in a line."""
        trained = self.asked.get("train")
        budget = self.asked.get("budget") or (f"{self.asked['epochs']:g} epochs" if self.asked.get("epochs") else "")
        parts = [f"trained on {trained}" if trained else "", f"{budget} each" if budget else ""]
        parts.append(f"tested on {self.asked.get('test') or trained}")
        return f"Comparison of {len(self.entries)} models: {', '.join(part for part in parts if part)}."

    @property
    def notes(self) -> str:
        """What the signs mean."""
        if self.task != "translation" or not self.entries:
            return ""
        first = self.entries[0]
        told = [f"BLEU: {first.first.get('bleu_signature', '')}."]
        if first.intervals:
            told.append("± is the half width of the 95 % interval of 1,000 bootstrap samples of the test set (seed 1).")
        if len(self.entries) > 1 and first.intervals:
            told.append(f"p: paired bootstrap against {first.name}; * is below {SIGNIFICANT}.")
        if any(len(entry.runs) > 1 for entry in self.entries):
            told.append("Over several seeds: mean, and standard deviation in parentheses.")
        return " ".join(told)


def _intervals(names: Sequence[str], out: Path, test: Test) -> dict[str, dict[str, Interval]]:
    """Intervals of the first seed of every entrant whose translations are there."""
    if test.text is None:
        return {}
    texts = {}
    for name in names:
        path = out / "translations" / f"{slug(name)}-1.txt"
        if path.exists():
            texts[name] = path.read_text("utf-8").removesuffix("\n").split("\n")
    whole = {name: lines for name, lines in texts.items() if len(lines) == len(test.text.sources)}
    return paired_bootstrap(whole, test.text.references) if whole else {}


# --- columns ------------------------------------------------------------------------------------------------------

Cell = Callable[[Entry], str]


def _translation_columns(comparison: Comparison) -> list[tuple[str, Cell]]:
    return [
        ("parameters", lambda entry: _count(entry, "parameters")),
        ("minutes", lambda entry: _number(entry, "seconds", scale=1 / 60)),
        ("tokens/s", lambda entry: _number(entry, "tokens_per_second", "{:,.0f}")),
        ("BLEU", lambda entry: _scored(entry, "bleu")),
        ("p", lambda entry: _p_value(entry, "bleu")),
        ("chrF", lambda entry: _scored(entry, "chrf")),
        ("AER", lambda entry: _number(entry, "aer", "{:.3f}")),
        ("sentences/s", lambda entry: _number(entry, "sentences_per_second", "{:,.0f}")),
    ]


def _classification_columns(comparison: Comparison) -> list[tuple[str, Cell]]:
    base = comparison.entries[0] if comparison.entries else None

    def against(key: str) -> Cell:
        def cell(entry: Entry) -> str:
            told = _count(entry, key)
            if base is None or entry is base or told == DASH or not base.values(key):
                return told
            return f"{told} ({entry.values(key)[0] / base.values(key)[0] - 1:+.2%})"

        return cell

    return [
        ("accuracy, %", lambda entry: _number(entry, "accuracy", "{:.2f}", scale=100)),
        ("seeds", lambda entry: str(len(entry.runs))),
        ("parameters", against("parameters")),
        ("multiply-adds", against("multiply_adds")),
        ("epochs", lambda entry: _number(entry, "epochs")),
        ("minutes", lambda entry: _number(entry, "seconds", scale=1 / 60)),
    ]


def _caption_columns(comparison: Comparison) -> list[tuple[str, Cell]]:
    names = dict.fromkeys(name for entry in comparison.entries for name in entry.first.get("scores", {}))
    scores = [(name.replace("_", " "), _nested(name)) for name in names]
    size = ("parameters", lambda entry: _count(entry, "parameters"))
    return [size, ("minutes", lambda entry: _number(entry, "seconds", scale=1 / 60)), *scores]


_COLUMNS: dict[str, Callable[[Comparison], list[tuple[str, Cell]]]] = {
    "translation": _translation_columns,
    "captioning": _caption_columns,
    "classification": _classification_columns,
}


def _nested(name: str) -> Cell:
    def cell(entry: Entry) -> str:
        found = [run["scores"][name] for run in entry.runs if name in run.get("scores", {})]
        return f"{statistics.fmean(found):.3g}" if found else DASH

    return cell


def _number(entry: Entry, key: str, form: str = "{:.1f}", scale: float = 1.0) -> str:
    mean = entry.mean(key)
    if mean is None:
        return DASH
    spread = f" ({form.format(scale * entry.spread(key))})" if len(entry.values(key)) > 1 else ""
    return form.format(scale * mean) + spread


def _count(entry: Entry, key: str) -> str:
    found = entry.values(key)
    return f"{found[0]:,.0f}" if found else DASH


def _scored(entry: Entry, metric: str) -> str:
    told = _number(entry, metric)
    interval = entry.intervals.get(metric)
    return told if interval is None or told == DASH else f"{told} ± {interval.half_width:.1f}"


def _p_value(entry: Entry, metric: str) -> str:
    interval = entry.intervals.get(metric)
    if interval is None or interval.p_value is None:
        return DASH
    return f"{interval.p_value:.3f}" + ("*" if interval.p_value < SIGNIFICANT else "")


def length_rows(entries: Sequence[Entry]) -> list[list[str]]:
    """A heading and a row for each entry: BLEU in each range of source words, with the number of sentences."""
    labels = {row.label: row.sentences for entry in entries for row in entry.by_length}
    if len(labels) < 2:
        return []
    rows = [["model", *(f"{label} ({count:,})" for label, count in labels.items())]]
    for entry in entries:
        found = {row.label: row.bleu for row in entry.by_length}
        cells = [found.get(label) for label in labels]
        rows.append([entry.name, *(DASH if cell is None else f"{cell:.1f}" for cell in cells)])
    return rows


def markdown_table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, aligned for reading in a terminal too."""
    table = [list(heading), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(heading))]
    lines = [
        "| " + " | ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) + " |" for row in table
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])
