"""The picture of a model without attention: one fixed vector is the bottleneck between source and target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Polygon

from regard.errors import NoAttention
from regard.look.maps import no_attention
from regard.look.record import Look, Side
from regard.look.views.fonts import fonts_for
from regard.look.views.heatmap import FONT_SIZE, INK, LONGEST_LABEL, MUTED, PAPER, TITLE_SIZE, NotebookFigure
from regard.look.views.terminal import shorten

SIGNS = LinearSegmentedColormap.from_list("regard-signs", ["#b4531a", "#f0b48a", "#f5f7fa", "#8fb8de", "#1f568f"])
FUNNEL = "#e9eef4"
WORD_GAP, EDGE, HEIGHT = 0.22, 0.3, 2.75  # inches
BLOCK = (1.16, 0.42)  # where the vector lies above the bottom edge, and its height
WIDEST_BLOCK, ROWS = 1.5, 4  # inches; rows of numbers
NECK = 0.6  # of the shorter sentence's width: the vector is narrower than what it holds


def vector_figure(
    look: Look, *, pieces: bool = False, title: str | None = None, font: str | Path | None = None
) -> Figure:
    """The source above, the numbers of the fixed vector in the narrow middle, the target below."""
    if look.fixed_vector is None:
        raise NoAttention(no_attention(look))
    source, target = _words(look.source, pieces), _words(look.target, pieces)
    families = fonts_for([*source, *target, title or ""], font)
    properties = FontProperties(family=families, size=FONT_SIZE)
    figure = NotebookFigure(facecolor=PAPER)
    FigureCanvasAgg(figure)
    widths = {word: _width(figure, word, properties) for word in (*source, *target)}
    needed = max(sum(widths[word] + WORD_GAP for word in side) for side in (source, target))
    width, height = max(needed, 5.2) + 2 * EDGE, HEIGHT + (0.3 if title else 0.0)
    figure.set_size_inches(width, height)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width)
    axes.set_ylim(0, height)
    axes.set_axis_off()
    shorter = min(sum(widths[word] for word in side) + WORD_GAP * (len(side) - 1) for side in (source, target))
    neck = min(WIDEST_BLOCK, max(NECK * shorter, 0.3))
    block = (width / 2 - neck / 2, width / 2 + neck / 2)
    _draw_words(axes, source, widths, 2.25, properties, block)
    _draw_words(axes, target, widths, 0.3, properties, block)
    _draw_block(axes, look.fixed_vector, block)
    shown = f"one vector of {look.dimensions.summary} numbers,\n{len(look.fixed_vector)} of them shown"
    small = FontProperties(family=families, size=8.5)
    axes.text(block[1] + 0.15, sum(BLOCK) - BLOCK[1] / 2, shown, fontproperties=small, color=MUTED, va="center")
    if title:
        large = FontProperties(family=families, size=TITLE_SIZE)
        axes.text(EDGE, height - 0.15, title, fontproperties=large, color=INK, va="top", parse_math=False)
    return figure


def _words(side: Side, pieces: bool) -> list[str]:
    words = [piece.surface for piece in side.pieces] if pieces else side.words
    return [shorten(word, LONGEST_LABEL) for word in words]


def _width(figure: Figure, word: str, properties: FontProperties) -> float:
    text = figure.text(0, 0, word, fontproperties=properties, parse_math=False)
    extent = text.get_window_extent().width / figure.dpi
    text.remove()
    return float(extent)


def _draw_words(
    axes: Axes,
    words: Sequence[str],
    widths: dict[str, float],
    height: float,
    properties: FontProperties,
    block: tuple[float, float],
) -> None:
    """A line of words, and the funnel between them and the vector."""
    total = sum(widths[word] for word in words) + WORD_GAP * (len(words) - 1)
    left = (axes.get_xlim()[1] - total) / 2
    above = height > BLOCK[0]
    near = height - 0.1 if above else height + 0.22
    far = sum(BLOCK) + 0.04 if above else BLOCK[0] - 0.04
    funnel = [(left - 0.08, near), (left + total + 0.08, near), (block[1], far), (block[0], far)]
    axes.add_patch(Polygon(funnel, closed=True, facecolor=FUNNEL, edgecolor="none", zorder=0))
    for word in words:
        axes.text(left, height, word, fontproperties=properties, color=INK, parse_math=False)
        left += widths[word] + WORD_GAP


def _draw_block(axes: Axes, numbers: Sequence[float], block: tuple[float, float]) -> None:
    """The numbers in rows, from the upper left."""
    rows = ROWS if len(numbers) >= 4 * ROWS else 1
    columns = math.ceil(len(numbers) / rows)
    table = np.full(rows * columns, np.nan)
    table[: len(numbers)] = numbers
    largest = max(map(abs, numbers)) or 1.0
    axes.pcolormesh(
        np.linspace(*block, columns + 1),
        np.linspace(sum(BLOCK), BLOCK[0], rows + 1),
        table.reshape(rows, columns),
        cmap=SIGNS,
        vmin=-largest,
        vmax=largest,
        edgecolors=PAPER,
        linewidth=0.5,
    )
