"""The report of a comparison as one HTML file: tables, figures and attention side by side. No script, no network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import islice

from regard.comparison.figures import (
    accuracies_svg,
    attention_svg,
    by_length_svg,
    curves_svg,
    validation_loss_svg,
    validation_score_svg,
)
from regard.comparison.results import Comparison

MAPS = 8  # models whose attention is drawn side by side

STYLE = """
:root { color-scheme: light; --ink: #1f2933; --muted: #52606d; --line: #d9e2ec; }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: #fff; margin: 2rem auto; max-width: 72rem;
  padding: 0 1rem; }
h1 { font-size: 28px; margin: 0 0 .25rem; } h2 { font-size: 20px; margin: 2.5rem 0 .5rem; }
p, figcaption { color: var(--muted); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .35rem .8rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; font-weight: 600; }
tbody tr:hover { background: #f5f7fa; }
.figures, .attention { display: flex; flex-wrap: wrap; gap: 1.5rem; }
figure { margin: 0; } svg { max-width: 100%; height: auto; }
"""


def render_page(comparison: Comparison) -> str:
    """The whole page."""
    sections = []
    for title, table in comparison.tables:
        sections += [f"<h2>{escape(title)}</h2>" if title else "", html_table(table[0], table[1:])]
        if not title:
            sections.append(f"<p>{escape(comparison.notes)}</p>" if comparison.notes else "")
    sections += [_figures(comparison), _attention(comparison)]
    title = "Comparison"
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head>\n<body>\n<h1>{title}</h1>\n<p>{escape(comparison.heading)}</p>\n"
        + "\n".join(section for section in sections if section)
        + "\n</body></html>\n"
    )


def html_table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table that scrolls by itself on a narrow screen."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heading)
    body = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def _figures(comparison: Comparison) -> str:
    first = accuracies_svg if comparison.task == "classification" else by_length_svg
    drawn = [draw(comparison) for draw in (first, validation_score_svg, curves_svg, validation_loss_svg)]
    figures = "".join(f"<figure>{svg}</figure>" for svg in drawn if svg)
    return f'<h2>Figures</h2><div class="figures">{figures}</div>' if figures else ""


def _attention(comparison: Comparison) -> str:
    """A row for each sentence, a map for each of the first models with attention."""
    rows = []
    for sentence in comparison.sentences:
        maps = (attention_svg(entry.first["folder"], entry.label, sentence) for entry in comparison.entries)
        figures = "".join(f"<figure>{svg}</figure>" for svg in islice((svg for svg in maps if svg), MAPS))
        if figures:
            rows.append(f'<h2>Attention: {escape(sentence)}</h2><div class="attention">{figures}</div>')
    return "\n".join(rows)
