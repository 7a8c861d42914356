"""The results of a comparison: means over seeds, confidence intervals, significance, tables."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from regard.comparison.entrants import slug
from regard.comparison.grid import grid_tables, labels, shared_settings
from regard.comparison.measure import Test
from regard.evaluation.by_length import LengthRow
from regard.evaluation.significance import Interval, paired_bootstrap, welch_p
from regard.storage.files import write_bytes

DASH = "–"
REPORTS = ("comparison.md", "comparison.html")
SIGNIFICANT = 0.05
MARKS = (0.5, 1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720, 1440)  # minutes of training
SCORES = {
    "translation": ("BLEU", "bleu", 1.0),
    "classification": ("accuracy, %", "accuracy", 100.0),
}  # title, key, unit


@dataclass(frozen=True)
class Entry:
    """One entrant over all its seeds."""

    name: str
    label: str  # short, for tables and figures
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
    def validations(self) -> list[dict[str, Any]]:
        """The validations of the first seed with a score."""
        return [point for point in self.first.get("validations", []) if point["score"] is not None]

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
        short = dict(zip(runs, labels(list(runs)), strict=True))
        entries = tuple(Entry(name, short[name], tuple(each), intervals.get(name, {})) for name, each in runs.items())
        return cls(entries, record["task"], record["asked"], test.sentences)

    def write(self, out: Path) -> None:
        """comparison.md and comparison.html."""
        from regard.comparison.page import render_page

        write_bytes(out / REPORTS[0], (self.text() + "\n").encode())
        write_bytes(out / REPORTS[1], render_page(self).encode())

    @cached_property
    def columns(self) -> list[tuple[str, Callable[[Entry], str]]]:
        """Title and cell of each column that some entry fills."""
        every = _COLUMNS[self.task](self)
        return [(title, cell) for title, cell in every if any(cell(entry) != DASH for entry in self.entries)]

    @property
    def tables(self) -> list[tuple[str, list[list[str]]]]:
        """Every table of the report: its title, then its heading and rows. The title of the first is empty."""
        rows = [[entry.label, *(cell(entry) for _, cell in self.columns)] for entry in self.entries]
        tables = [("", [["model", *(title for title, _ in self.columns)], *rows])]
        if self.task in SCORES:
            title, key, unit = SCORES[self.task]
            form = "{:.1f}" if unit == 1 else "{:.2f}"
            cells = {entry.name: _number(entry, key, form, unit) for entry in self.entries}
            tables.append(("Attention inside the object, %", mass_rows(self.entries)))
            tables += [(f"{title} by setting", table) for table in grid_tables(cells)]
            tables.append((f"Validation {title} after minutes of training", minute_rows(self.entries, unit)))
        tables.append(("BLEU by source length (words)", length_rows(self.entries)))
        return [(title, table) for title, table in tables if len(table) > 1]

    def text(self) -> str:
        """A Markdown document: the tables, and how to read them."""
        drawn = [
            "\n\n".join([f"{title}:"] * bool(title) + [markdown_table(table[0], table[1:])])
            for title, table in self.tables
        ]
        return "\n\n".join(part for part in [self.heading, *drawn, self.notes] if part)

    @property
    def heading(self) -> str:
        """What was compared, in a line."""
        trained = self.asked.get("train")
        epochs = self.asked.get("epochs")
        budget = self.asked.get("budget") or (_counted(epochs, "epoch") if epochs else "")
        parts = [f"trained on {trained}" if trained else "", f"{budget} each" if budget else ""]
        tested = self.asked.get("test") or trained
        parts.append(f"tested on {tested}" if tested else "")
        told = f"Comparison of {_counted(len(self.entries), 'model')}: {', '.join(part for part in parts if part)}."
        if self.asked.get("overrides"):
            told += f" All: {', '.join(self.asked['overrides'])}."
        return told + "".join(f" All of {each}." for each in shared_settings([entry.name for entry in self.entries]))

    @property
    def notes(self) -> str:
        """What the signs mean, and what each p covers."""
        if not self.entries:
            return ""
        first, told = self.entries[0], precisions(self.entries)
        if self.task == "translation":
            told.append(f"BLEU: {first.first.get('bleu_signature', '')}.")
        if first.intervals:
            told.append("± is the half width of the 95 % interval of 1,000 bootstrap samples of the test set (seed 1).")
        if len(self.entries) > 1 and first.intervals:
            told.append(
                f"p: paired bootstrap against {first.label}, seed 1; it covers the choice of test sentences, not the "
                f"chance of a training; * is below {SIGNIFICANT}."
            )
        if any(len(entry.runs) > 1 for entry in self.entries):
            told.append("Over several seeds: mean, and sample standard deviation in parentheses.")
        if any(_seeds_p(entry, first, "bleu") or _seeds_p(entry, first, "accuracy") for entry in self.entries[1:]):
            told.append(
                f"p (seeds): Welch's t-test against {first.label} over trainings on one test set; with few seeds only "
                "large differences are significant."
            )
        if len(self.entries) > 2 and any(title in ("p", "p (seeds)") for title, _ in self.columns):
            told.append("No p is corrected for the number of comparisons.")
        return " ".join(told)


def _counted(count: float, noun: str) -> str:
    return f"{count:g} {noun}{'s' * (count != 1)}"


def precisions(entries: Sequence[Entry]) -> list[str]:
    """The precision of the trainings as a sentence, with names where it differs or is not known of all."""
    found: dict[str, list[str]] = {}
    for entry in entries:
        for precision in dict.fromkeys(run.get("precision", "auto") for run in entry.runs):
            found.setdefault(precision, []).append(entry.label)
    unknown = found.pop("auto", [])
    if len(found) == 1 and not unknown:
        return [f"Trained in {next(iter(found))}."]
    told = [f"in {precision}: {', '.join(labels)}" for precision, labels in found.items()]
    return [f"Trained {'; '.join(told)}."] if told else []


def _intervals(names: Sequence[str], out: Path, test: Test) -> dict[str, dict[str, Interval]]:
    """Intervals of the first seed of every entrant whose translations are there."""
    if test.text is None:
        return {}
    texts = {}
    for name in names:
        path = out / "translations" / f"{slug(name)}-1.txt"
        if path.exists():
            texts[name] = path.read_text("utf-8").removesuffix("\n").split("\n")
    whole = {name: tuple(lines) for name, lines in texts.items() if len(lines) == len(test.text.sources)}
    references = tuple(tuple(stream) for stream in test.text.references)
    first = next(iter(whole), "")
    return {name: _against(None if name == first else whole[first], lines, references) for name, lines in whole.items()}


@lru_cache(maxsize=512)  # the report is rewritten after each entrant
def _against(
    first: tuple[str, ...] | None, lines: tuple[str, ...], references: tuple[tuple[str, ...], ...]
) -> dict[str, Interval]:
    """The intervals of a system; with a p-value against the first, unless it is the first itself (None)."""
    systems = {"this": lines} if first is None else {"first": first, "this": lines}
    return list(paired_bootstrap(systems, references).values())[-1]


# --- columns ------------------------------------------------------------------------------------------------------

Cell = Callable[[Entry], str]


def _translation_columns(comparison: Comparison) -> list[tuple[str, Cell]]:
    return [
        ("parameters", lambda entry: _count(entry, "parameters")),
        ("minutes", lambda entry: _number(entry, "seconds", scale=1 / 60)),
        ("tokens/s", lambda entry: _number(entry, "tokens_per_second", "{:,.0f}")),
        ("BLEU", lambda entry: _scored(entry, "bleu")),
        ("p", lambda entry: _p_value(entry, "bleu")),
        ("p (seeds)", _over_seeds(comparison, "bleu")),
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
        ("p (seeds)", _over_seeds(comparison, "accuracy")),
        ("parameters", against("parameters")),
        ("multiply-adds", against("multiply_adds")),
        ("receptive field", lambda entry: _count(entry, "receptive_field")),
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
        if not found:
            return DASH
        form = ",.0f" if isinstance(found[0], int) else ".3g"
        return f"{statistics.fmean(found):{form}}"

    return cell


def _number(entry: Entry, key: str, form: str = "{:.1f}", scale: float = 1.0) -> str:
    return _mean_and_spread([scale * value for value in entry.values(key)], form)


def _mean_and_spread(values: Sequence[float], form: str) -> str:
    if not values:
        return DASH
    spread = f" ({form.format(statistics.stdev(values))})" if len(values) > 1 else ""
    return form.format(statistics.fmean(values)) + spread


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
    return _starred(interval.p_value)


def _over_seeds(comparison: Comparison, key: str) -> Cell:
    def cell(entry: Entry) -> str:
        p_value = None if entry is comparison.entries[0] else _seeds_p(entry, comparison.entries[0], key)
        return DASH if p_value is None else _starred(p_value)

    return cell


def _seeds_p(entry: Entry, first: Entry, key: str) -> float | None:
    return welch_p(first.values(key), entry.values(key))


def _starred(p_value: float) -> str:
    return f"{p_value:.3f}" + ("*" if p_value < SIGNIFICANT else "")


def minute_rows(entries: Sequence[Entry], unit: float) -> list[list[str]]:
    """A heading and a row for each trained entry: the best validation score of seed 1 so far, at some minutes."""
    curves = {entry.label: entry.validations for entry in entries if entry.validations}
    longest = max((curve[-1]["seconds"] / 60 for curve in curves.values()), default=0.0)
    reached = [mark for mark in MARKS if mark <= longest]
    rows = [["model", *(f"{mark:g}" for mark in reached), "end"]]
    for label, curve in curves.items():
        cells = []
        for mark in (*reached, longest):
            scores = [point["score"] for point in curve if point["seconds"] <= 60 * mark]
            cells.append(f"{unit * max(scores):.1f}" if scores else DASH)
        rows.append([label, *cells])
    return rows if curves else []


def mass_rows(entries: Sequence[Entry]) -> list[list[str]]:
    """A heading and a row for each entry with maps: the share of each module's map inside the object, and its area."""
    found = {entry.label: [run["object_mass"] for run in entry.runs if run.get("object_mass")] for entry in entries}
    titles = list(dict.fromkeys(title for masses in found.values() for mass in masses for title in mass))
    titles.sort(key=lambda title: (title == "area", title))
    rows = [["model", *(title.replace("_", " ") for title in titles)]]
    for label, masses in found.items():
        shares = [[100 * mass[title] for mass in masses if title in mass] for title in titles]
        if masses:
            rows.append([label, *(_mean_and_spread(values, "{:.1f}") for values in shares)])
    return rows


def length_rows(entries: Sequence[Entry]) -> list[list[str]]:
    """A heading and a row for each entry: BLEU in each range of source words, with the number of sentences."""
    labels = {row.label: row.sentences for entry in entries for row in entry.by_length}
    if len(labels) < 2:
        return []
    rows = [["model", *(f"{label} ({count:,})" for label, count in labels.items())]]
    for entry in entries:
        found = {row.label: row.bleu for row in entry.by_length}
        cells = [found.get(label) for label in labels]
        rows.append([entry.label, *(DASH if cell is None else f"{cell:.1f}" for cell in cells)])
    return rows


def markdown_table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, aligned for reading in a terminal too."""
    table = [list(heading), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(heading))]
    lines = [
        "| " + " | ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) + " |" for row in table
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])
