"""A report as lines of text, readable without colour."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence

from regard.evaluation.alignment import AlignmentScore
from regard.evaluation.by_length import length_bars, length_table
from regard.evaluation.report import AlignmentReport, Report

# AER difference from which the shifted reading is reported as better
CLEARLY = 0.01


def render(report: Report, *, width: int = 80, ascii_only: bool = False) -> str:
    """The report in at most `width` columns; signatures and reasons are not wrapped."""
    sections = [
        _head(report),
        _scores(report),
        _lengths(report, width, ascii_only),
        _alignment(report.alignment, width),
    ]
    if report.no_alignment is not None:
        sections.append(f"no word alignment: {report.no_alignment}")
    return "\n\n".join(section for section in sections if section)


def _head(report: Report) -> str:
    parts = [f"{report.scores.sentences:,} sentences"]
    if report.search is not None:
        parts.append("sampled" if report.search.sample else f"beam {report.search.beam}")
    if report.speed is not None:
        parts.append(f"{report.speed.sentences_per_second:,.1f} sentences/s ({report.speed.seconds:,.1f} s)")
    return ", ".join(parts)


def _scores(report: Report) -> str:
    rows = [(score.name, f"{score.value:.1f}", score.signature) for score in report.scores.by_metric.values()]
    if report.likelihood is not None:
        meaning = f"of the reference, over {report.likelihood.tokens:,} tokens"
        rows.append(("perplexity", f"{report.likelihood.perplexity:.2f}", meaning))
    return _columns(rows, "<><")


def _lengths(report: Report, width: int, ascii_only: bool) -> str:
    if not report.by_length:
        return ""
    from rich.console import Console

    # Rendered to a string buffer, independent of the terminal and its size.
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(length_table(report.by_length))
    lines = [line.rstrip() for line in captured.get().splitlines()]
    table = "\n".join(line.translate(_ASCII) if ascii_only else line for line in lines if line)
    return f"{table}\n\n{length_bars(report.by_length, width=width, ascii_only=ascii_only)}"


_ASCII = str.maketrans("─━", "--")


def _alignment(alignment: AlignmentReport | None, width: int) -> str:
    if alignment is None:
        return ""
    readings = {"this step": alignment.this_step, "shifted": alignment.shifted}
    if alignment.both_directions is not None:
        readings["both directions"] = alignment.both_directions
    rows: list[tuple[str, ...]] = [("reading", "AER", "precision", "recall", "links")]
    rows += [_reading(name, score) for name, score in readings.items()]
    title = f"word alignment from attention, forced decoding of the reference ({alignment.method})"
    legend = "this step: weights of the step that predicts the word; shifted: of the step that reads it"
    below = [textwrap.fill(line, width) for line in (legend, *_remark(alignment))]
    return "\n".join([textwrap.fill(title, width), _columns(rows, "<>>>>"), *below])


def _reading(name: str, score: AlignmentScore) -> tuple[str, ...]:
    return name, f"{score.aer:.3f}", f"{score.precision:.3f}", f"{score.recall:.3f}", f"{score.links:,}"


def _remark(alignment: AlignmentReport) -> list[str]:
    if alignment.shifted.aer < alignment.this_step.aer - CLEARLY:
        return ["The shifted reading is better: this model attends to the source of a word one step late."]
    return []


def _columns(rows: Sequence[tuple[str, ...]], justify: str) -> str:
    """Rows as aligned columns, left (<) or right (>), separated by two spaces."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(justify))]
    return "\n".join(
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, justify, widths, strict=True)).rstrip()
        for row in rows
    )
