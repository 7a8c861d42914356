"""BLEU by source length, the figure that motivated attention."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import ConfigError, DataError
from regard.evaluation.scores import fitting_tokenizer, make_bleu, reference_streams
from regard.storage.files import write_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.table import Table

DEFAULT_EDGES = (10, 20, 30, 40, 50, 60)
FEW = 6  # lines of a figure whose legend fits into it


def figure_size(lines: int) -> tuple[float, float]:
    """Inches, with room for the legend beside many lines."""
    return 6.4 + 2.4 * (lines > FEW), 4.0


@dataclass(frozen=True, slots=True)
class LengthRow:
    """Sentences with `low` to `high` source words; `high` is None for the last, open range."""

    low: int
    high: int | None
    sentences: int
    bleu: float | None  # None if the references have no words
    length_ratio: float | None  # BLEU tokens of translations / references

    @property
    def label(self) -> str:
        """The range as text: 1-10, 61+, or 0 for blank lines."""
        if self.high is None:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"

    def to_dict(self) -> dict[str, int | float | None]:
        """Plain values for metrics.json."""
        return asdict(self)


def bleu_by_length(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    *,
    edges: Sequence[int] = DEFAULT_EDGES,
    tokenize: str | None = None,
    lowercase: bool = False,
) -> list[LengthRow]:
    """BLEU of the sentences in each range of source words: 1 to edges[0], and so on to an open last range.

    Ranges beyond the longest sentence are omitted; blank sources have their own range.
    """
    streams = reference_streams(hypotheses, references)
    if len(sources) != len(hypotheses):
        raise DataError(
            f"{len(sources)} source sentences for {len(hypotheses)} translations: both need the same number."
        )
    if not edges or edges[0] < 1 or any(b <= a for a, b in pairwise(edges)):
        raise ConfigError(f"length edges {list(edges)} are invalid: give ascending numbers from 1, such as 10 20 30.")
    if tokenize == "auto":
        tokenize = fitting_tokenizer(streams[0])
    # Effective order differs from corpus BLEU only if a range has no 4-grams.
    scorer = make_bleu(tokenize, lowercase, effective_order=True)
    lengths = [len(source.split()) for source in sources]
    rows = []
    for low, high in _ranges(edges, lengths):
        chosen = [n for n, length in enumerate(lengths) if low <= length and (high is None or length <= high)]
        texts = [[stream[n] for n in chosen] for stream in streams]
        if not any(line.strip() for text in texts for line in text):
            rows.append(LengthRow(low, high, len(chosen), None, None))
            continue
        result = scorer.corpus_score([hypotheses[n] for n in chosen], texts)
        ratio = result.sys_len / result.ref_len if result.ref_len else None
        rows.append(LengthRow(low, high, len(chosen), float(result.score), ratio))
    return rows


def _ranges(edges: Sequence[int], lengths: Sequence[int]) -> list[tuple[int, int | None]]:
    ranges: list[tuple[int, int | None]] = [(0, 0)] if 0 in lengths else []
    low = 1
    for edge in edges:
        if low <= max(lengths):
            ranges.append((low, edge))
        low = edge + 1
    if low <= max(lengths):
        ranges.append((low, None))
    return ranges


def length_table(rows: Sequence[LengthRow]) -> Table:
    """A rich table of one system, legible without colour."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title="BLEU by source length", title_justify="left", title_style="bold")
    for heading in ("source words", "sentences", "BLEU", "length ratio"):
        table.add_column(heading, justify="right")
    for row in rows:
        bleu = "-" if row.bleu is None else f"{row.bleu:.1f}"
        ratio = "-" if row.length_ratio is None else f"{row.length_ratio:.2f}"
        table.add_row(row.label, f"{row.sentences:,}", bleu, ratio)
    return table


def length_bars(
    systems: Sequence[LengthRow] | Mapping[str, Sequence[LengthRow]],
    *,
    width: int = 80,
    ascii_only: bool = False,
) -> str:
    """Horizontal bars on a scale from 0 to 100, one group per range; no line exceeds `width` (40 or more)."""
    named = _named(systems)
    label_width = max((len(row.label) for rows in named.values() for row in rows), default=0)
    name_width = min(max(len(name) for name in named), max(0, width // 4)) if len(named) > 1 else 0
    gap = 2 if name_width else 0
    bar_width = max(10, width - label_width - name_width - gap - len("   100.0"))
    lines = []
    for label, cells in _by_label(named).items():
        shown = label
        for name, row in cells:
            head = f"{shown:>{label_width}}  " + (f"{name[:name_width]:<{name_width}}  " if name_width else "")
            shown = ""  # the range is written once per group
            if row.bleu is None:
                lines.append(f"{head}-")
            else:
                lines.append(f"{head}{_bar(row.bleu / 100, bar_width, ascii_only)} {row.bleu:.1f}")
    return "\n".join(line.rstrip() for line in lines)


_EIGHTHS = " ▏▎▍▌▋▊▉"


def _bar(share: float, width: int, ascii_only: bool) -> str:
    if ascii_only:
        return "#" * round(share * width)
    whole, eighths = divmod(round(share * width * 8), 8)
    return "█" * whole + _EIGHTHS[eighths].strip()


def check_picture(path: str | Path) -> Path:
    """The path, if `plot_by_length` supports its image format."""
    path = Path(path)
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ConfigError(f"{path}: image format {path.suffix!r} is not supported: use .png, .svg or .pdf.")
    return path


def plot_by_length(
    systems: Sequence[LengthRow] | Mapping[str, Sequence[LengthRow]], path: str | Path, *, title: str = ""
) -> None:
    """Draw one line per system into a PNG, SVG or PDF file."""
    from matplotlib.figure import Figure

    path = check_picture(path)
    named = _named(systems)
    labels = list(_by_label(named))
    figure = Figure(figsize=figure_size(len(named)), layout="constrained")
    axes = figure.add_subplot()
    for (name, rows), marker in zip(named.items(), _markers(len(named)), strict=True):
        places = [labels.index(row.label) for row in rows]
        # A range without a score breaks the line instead of being bridged.
        heights = [math.nan if row.bleu is None else row.bleu for row in rows]
        axes.plot(places, heights, marker=marker, label=name, clip_on=False)
    ticks = labels
    if len(named) == 1:
        counts = {row.label: row.sentences for rows in named.values() for row in rows}
        ticks = [f"{label}\n({counts[label]:,})" for label in labels]
    axes.set_xticks(range(len(labels)), ticks)
    axes.set_xlim(-0.4, len(labels) - 0.6)
    axes.set_xlabel("source words" + (" (sentences)" if len(named) == 1 else ""))
    axes.set_ylabel("BLEU")
    axes.set_ylim(0, 100)
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if title:
        axes.set_title(title)
    if len(named) > 1:
        draw_legend(axes)
    picture, form = io.BytesIO(), path.suffix[1:].lower()
    figure.savefig(picture, format=form, dpi=150, metadata={"Date": None} if form == "svg" else None)
    write_bytes(path, picture.getvalue())


def draw_legend(axes: Axes) -> None:
    """The names of the lines: inside the axes, or beside them if there are many."""
    if len(axes.get_lines()) > FEW:
        axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    else:
        axes.legend(frameon=False)


def _markers(count: int) -> list[str]:
    # Markers as well as colours, so that the lines differ in print.
    shapes = ("o", "s", "^", "D", "v", "P", "X", "*")
    return [shapes[n % len(shapes)] for n in range(count)]


def _named(
    systems: Sequence[LengthRow] | Mapping[str, Sequence[LengthRow]],
) -> dict[str, Sequence[LengthRow]]:
    named = dict(systems) if isinstance(systems, Mapping) else {"": systems}
    if not any(named.values()):
        raise DataError("there are no lengths to draw: score at least one sentence.")
    return named


def _by_label(named: Mapping[str, Sequence[LengthRow]]) -> dict[str, list[tuple[str, LengthRow]]]:
    """The rows of every system by range, ranges ascending."""
    cells = [(row, name) for name, rows in named.items() for row in rows]
    groups: dict[str, list[tuple[str, LengthRow]]] = {}
    for row, name in sorted(cells, key=lambda cell: (cell[0].low, cell[0].high or cell[0].low)):
        groups.setdefault(row.label, []).append((name, row))
    return groups
