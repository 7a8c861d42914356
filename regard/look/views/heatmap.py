"""Attention as a picture for a page: PNG, SVG or PDF.

A sheet is rows of panels; each panel is one map. A single sentence is one panel, its layers and heads are a grid that
shares its labels, several sentences flow over the sheet. Nothing of matplotlib's global state is used or changed, so
pictures may be drawn from several threads and never disturb a notebook's own plots.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties

from regard.look.maps import Choice, Map, maps_of
from regard.look.record import Look
from regard.look.views.fonts import fonts_for
from regard.look.views.notes import notes
from regard.look.views.pictures import check_picture_path, write_picture
from regard.look.views.terminal import shorten

INK, MUTED, PAPER = "#22303c", "#5f6b78", "#ffffff"  # muted text has a contrast of 5.4:1
# White, then one hue that darkens evenly: weights are compared by lightness alone, also in grey print.
COLOURS = LinearSegmentedColormap.from_list(
    "regard", ["#f5f7fa", "#cfdff0", "#8fb8de", "#4a86bf", "#1f568f", "#0d2f5c"]
)
CELL, SMALLEST_CELL, BAR, MARGIN, GAP = 0.34, 0.09, 0.09, 0.18, 0.22  # inches
WIDEST_GRID, WIDEST_FLOW = 15.0, 11.0  # inches of cells that a grid may take; of panels side by side
FONT_SIZE, TITLE_SIZE, NOTE_SIZE = 10.5, 12.0, 8.5  # points
ENTROPY, COVERAGE = "entropy (bits)", "coverage"
MEASURE_SPACE = 0.2  # inches between the cells and the end of these names, besides their width
NOTE_LINE = 0.17  # inches
LONGEST_LABEL = 24
SCREEN_DPI = 100


@dataclass(frozen=True)
class Panel:
    """One map on a sheet."""

    map: Map
    title: str = ""
    row_labels: bool = True
    column_labels: bool = True
    measures: bool = False  # entropy beside the rows, coverage below the columns
    cell: float = CELL
    notes: tuple[str, ...] = ()  # lines below the map

    @property
    def labels(self) -> tuple[list[str], list[str]]:
        """Rows and columns, cut to a length that can be drawn."""
        rows, columns = self.map.rows, self.map.columns
        return [shorten(word, LONGEST_LABEL) for word in rows], [shorten(word, LONGEST_LABEL) for word in columns]

    @property
    def font_size(self) -> float:
        """In points; smaller for small cells, so that labels do not touch."""
        return min(FONT_SIZE, self.cell * 72 * 0.85)


Sheet = Sequence[Sequence[Panel]]


def save_heatmap(
    looks: Look | Sequence[Look],
    path: str | Path,
    choice: Choice = Choice(),  # noqa: B008 (it never changes)
    *,
    measures: bool = False,
    title: str | None = None,
    font: str | Path | None = None,
    dpi: int = 200,
) -> Path:
    """Draw the attention of one or several looks, or one fixed vector, into a .png, .svg or .pdf file."""
    path = check_picture_path(path)
    save_figure(attention_figure(looks, choice, measures=measures, title=title, font=font), path, dpi)
    return path


def attention_figure(
    looks: Look | Sequence[Look],
    choice: Choice = Choice(),  # noqa: B008 (it never changes)
    *,
    measures: bool = False,
    title: str | None = None,
    font: str | Path | None = None,
) -> Figure:
    """The attention of one or several looks, or one fixed vector, as a figure."""
    several = [looks] if isinstance(looks, Look) else looks
    if len(several) == 1 and several[0].fixed_vector is not None and choice.is_alignment:
        from regard.look.views.vector import vector_figure

        return vector_figure(several[0], pieces=choice.pieces, title=title, font=font)
    return sheet_figure(sheet_of(several, choice, measures=measures), title=title, font=font)


def save_figure(figure: Figure, path: Path, dpi: int = 200) -> None:
    """Write the figure in the format of the file's name, whole or not at all."""
    form = path.suffix[1:].lower()
    # A date would make every drawing of the same sentence another file.
    date = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[form]
    buffer = io.BytesIO()
    figure.savefig(buffer, format=form, dpi=dpi, metadata=date, facecolor=PAPER)
    write_picture(path, buffer.getvalue())


class NotebookFigure(Figure):
    """A figure that a notebook shows without pyplot."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=SCREEN_DPI, facecolor=PAPER)
        return buffer.getvalue()


def sheet_of(looks: Sequence[Look], choice: Choice, *, measures: bool = False) -> list[list[Panel]]:
    """Rows of panels: the layers and heads of one look as a grid, single maps of several looks in a flow."""
    rows: list[list[Panel]] = []
    single: list[Panel] = []
    for look in looks:
        maps = maps_of(look, choice)
        if len(maps) == 1:
            single.append(Panel(maps[0], maps[0].name, measures=measures, notes=tuple(notes(look))))
        else:
            rows += _grid(maps, measures)
    return [*_flow(single), *rows]


def _grid(maps: Sequence[Map], measures: bool) -> list[list[Panel]]:
    """A row for each layer, a column for each head; labels at the left and above alone. Averages stand in one row."""
    layers = sorted({each.layer or 0 for each in maps})
    by_layer = [[each for each in maps if (each.layer or 0) == layer] for layer in layers]
    rows = [list(maps)] if all(len(heads) == 1 for heads in by_layer) else by_layer
    cell = min(map(grid_cell, rows))
    return [
        [
            Panel(each, each.name, column == 0, row == 0, measures, cell if not measures else max(cell, 0.26))
            for column, each in enumerate(line)
        ]
        for row, line in enumerate(rows)
    ]


def grid_cell(row: Sequence[Map]) -> float:
    """Size of a cell in inches; a row of maps fits the sheet."""
    return min(CELL, max(SMALLEST_CELL, WIDEST_GRID / max(sum(len(each.columns) for each in row), 1)))


def _flow(panels: Sequence[Panel]) -> list[list[Panel]]:
    """Panels from left to right, a new row where the sheet would become too wide."""
    rows: list[list[Panel]] = []
    width = 0.0
    for panel in panels:
        needed = len(panel.map.columns) * panel.cell + 2.0
        if not rows or width + needed > WIDEST_FLOW:
            rows.append([])
            width = 0.0
        rows[-1].append(panel)
        width += needed
    return rows


@dataclass(frozen=True)
class _Room:
    """Inches that a panel needs around its cells."""

    left: float
    top: float
    right: float
    bottom: float
    slant: bool


def sheet_figure(sheet: Sheet, *, title: str | None = None, font: str | Path | None = None) -> Figure:
    """A figure of all panels: column labels along the top, row labels down the side, and one scale."""
    panels = [panel for row in sheet for panel in row]
    words = [word for panel in panels for labels in (*panel.labels, panel.notes) for word in labels]
    families = fonts_for([*words, title or ""], font)
    figure = NotebookFigure(facecolor=PAPER)
    FigureCanvasAgg(figure)
    rooms = [[_room(figure, panel, families) for panel in row] for row in sheet]
    widths = [[_width(*pair) for pair in zip(*each, strict=True)] for each in zip(sheet, rooms, strict=True)]
    is_grid = any(not panel.column_labels for panel in panels) and len({len(row) for row in widths}) == 1
    if is_grid:  # each head's column is as wide as its widest panel
        aligned = [max(column) for column in zip(*widths, strict=True)]
        widths = [aligned for _ in widths]
    heights = [max(_height(*pair) for pair in zip(*each, strict=True)) for each in zip(sheet, rooms, strict=True)]
    heading = 0.42 if title else 0.0
    scale = 0.44
    width = 2 * MARGIN + max(sum(row) + GAP * (len(row) - 1) for row in widths) + scale
    height = 2 * MARGIN + heading + sum(heights) + GAP * (len(heights) - 1)
    figure.set_size_inches(width, height)
    top = height - MARGIN - heading
    for row, row_rooms, row_widths, row_height in zip(sheet, rooms, widths, heights, strict=True):
        left = MARGIN
        for panel, room, its_width in zip(row, row_rooms, row_widths, strict=True):
            _draw_panel(figure, panel, room, left, top, families)
            left += its_width + GAP
        top -= row_height + GAP
    cells = max(len(sheet[0][0].map.rows), 1) * sheet[0][0].cell
    _draw_scale(figure, families, cells, height - MARGIN - heading - rooms[0][0].top - cells)
    if title:
        properties = FontProperties(family=families, size=TITLE_SIZE)
        figure.text(
            MARGIN / width, 1 - MARGIN / height, title, fontproperties=properties, color=INK, va="top", parse_math=False
        )
    return figure


def heatmap_figure(
    weights: object,
    source: Sequence[str],
    target: Sequence[str],
    *,
    title: str | None = None,
    font: str | Path | None = None,
) -> Figure:
    """A figure of weights (T, S) with their labels."""
    matrix = np.asarray(weights)
    one = Map(matrix, tuple(target), tuple(source), np.zeros(len(target)), np.zeros(len(source)))
    return sheet_figure([[Panel(one)]], title=title, font=font)


def _width(panel: Panel, room: _Room) -> float:
    return room.left + max(len(panel.map.columns), 1) * panel.cell + room.right


def _height(panel: Panel, room: _Room) -> float:
    return room.top + max(len(panel.map.rows), 1) * panel.cell + room.bottom


def _room(figure: Figure, panel: Panel, families: list[str]) -> _Room:
    """The room for labels, titles and measures; column labels are slanted where they are wider than a cell."""
    properties = FontProperties(family=families, size=panel.font_size)
    rows, columns = panel.labels
    left = _widest(figure, rows, properties) + 0.12 if panel.row_labels else 0.0
    top = 0.26 if panel.title else 0.0
    right, slant = 0.0, False
    if panel.column_labels:
        widest = _widest(figure, columns, properties)
        slant = widest > panel.cell * 0.9
        top += widest * 0.72 + 0.2 if slant else 0.28
        last = _widest(figure, columns[-1:], properties)
        right = max(0.0, last * 0.72 - panel.cell * 0.4) if slant else 0.0  # the last one leans out
    if panel.measures:
        small = _measure_font(panel, families)
        entropy = _widest(figure, [ENTROPY], small)
        heading = (entropy * 0.72 if slant else entropy) if panel.column_labels else 0.0
        top = max(top, entropy * 0.72 + 0.2) if slant else top
        right = max(right, 0.5, heading + MEASURE_SPACE, _widest(figure, [COVERAGE], small) + MEASURE_SPACE)
    below = 0.3 if panel.measures else 0.0
    if panel.notes:
        small = FontProperties(family=families, size=NOTE_SIZE)
        cells = max(len(columns), 1) * panel.cell
        right = max(right, _widest(figure, panel.notes, small) - left - cells)
        below += 0.12 + NOTE_LINE * len(panel.notes)
    return _Room(left, top, right, below, slant)


def _widest(figure: Figure, words: Iterable[str], properties: FontProperties) -> float:
    def inches(word: str) -> float:
        text = figure.text(0, 0, word, fontproperties=properties, parse_math=False)
        extent = text.get_window_extent().width / figure.dpi
        text.remove()
        return float(extent)

    return max(map(inches, words), default=0.0)


def _draw_panel(figure: Figure, panel: Panel, room: _Room, left: float, top: float, families: list[str]) -> None:
    width, height = figure.get_size_inches()
    rows, columns = panel.labels
    across, down = max(len(columns), 1) * panel.cell, max(len(rows), 1) * panel.cell
    bottom = top - room.top - down
    axes = figure.add_axes(((left + room.left) / width, bottom / height, across / width, down / height))
    properties = FontProperties(family=families, size=panel.font_size)
    _draw_matrix(axes, panel, rows, columns, properties, room.slant)
    if panel.measures:
        _draw_measures(axes, panel, _measure_font(panel, families), room.slant)
    below = bottom - (0.3 if panel.measures else 0.0) - 0.12
    for number, note in enumerate(panel.notes):
        small = FontProperties(family=families, size=NOTE_SIZE)
        place = left / width, (below - NOTE_LINE * number) / height
        figure.text(*place, note, fontproperties=small, color=MUTED, va="top", parse_math=False)
    if panel.title:
        small = FontProperties(family=families, size=max(panel.font_size, 9.0))
        axes_left = (left + room.left) / width
        figure.text(axes_left, top / height, panel.title, fontproperties=small, color=MUTED, va="top")


def _draw_matrix(
    axes: Axes, panel: Panel, rows: list[str], columns: list[str], properties: FontProperties, slant: bool
) -> None:
    if np.size(panel.map.weights):
        line = 1.6 * min(1.0, panel.cell / CELL)
        axes.pcolormesh(
            panel.map.weights, cmap=COLOURS, vmin=0, vmax=1, edgecolors=PAPER, linewidth=line, antialiased=True
        )
    axes.set_xlim(0, max(len(columns), 1))
    axes.set_ylim(max(len(rows), 1), 0)
    axes.xaxis.tick_top()
    axes.set_xticks(np.arange(len(columns)) + 0.5 if panel.column_labels else [])
    if panel.column_labels:
        axes.set_xticklabels(
            columns,
            fontproperties=properties,
            rotation=45 if slant else 0,
            ha="left" if slant else "center",
            rotation_mode="anchor" if slant else "default",
            parse_math=False,  # a dollar sign is a dollar sign
        )
    axes.set_yticks(np.arange(len(rows)) + 0.5 if panel.row_labels else [])
    if panel.row_labels:
        axes.set_yticklabels(rows, fontproperties=properties, parse_math=False)
    axes.tick_params(length=0, pad=5 if panel.cell == CELL else 3, labelcolor=INK)
    axes.set_frame_on(False)


def _measure_font(panel: Panel, families: list[str]) -> FontProperties:
    return FontProperties(family=families, size=min(8.5, panel.font_size))


def _draw_measures(axes: Axes, panel: Panel, properties: FontProperties, slant: bool) -> None:
    """Entropy to the right of the rows, in bits; coverage below the columns; each with its name."""
    rows, columns = len(panel.map.rows), len(panel.map.columns)
    look: dict[str, Any] = {"fontproperties": properties, "color": MUTED}
    for row, bits in enumerate(panel.map.entropy):
        axes.text(columns + 0.15, row + 0.5, f"{bits:.1f}", va="center", **look)
    for column, share in enumerate(panel.map.coverage):
        axes.text(column + 0.5, rows + 0.15, f"{share:.1f}", ha="center", va="top", **look)
    axes.text(columns + 0.15, rows + 0.15, COVERAGE, va="top", style="italic", **look)
    if panel.column_labels:  # the name of one more column, slanted as theirs
        turned: dict[str, Any] = {"rotation": 45, "rotation_mode": "anchor"} if slant else {}
        axes.text(columns + (0.5 if slant else 0.15), -0.15, ENTROPY, va="bottom", style="italic", **turned, **look)


def _draw_scale(figure: Figure, families: list[str], tall: float, bottom: float) -> None:
    """The colour scale from 0 to 1, at the right edge; `tall` and `bottom` are those of the first panel's cells."""
    width, height = figure.get_size_inches()
    place = (width - MARGIN - 0.34) / width, bottom / height, BAR / width, min(tall, 1.6) / height
    axes = figure.add_axes(place)
    axes.pcolormesh(np.linspace(0, 1, 128)[:, None], cmap=COLOURS, vmin=0, vmax=1, rasterized=True)
    axes.set_xticks([])
    axes.yaxis.tick_right()
    axes.set_yticks([0, 64, 128])
    axes.set_yticklabels(["0", "0.5", "1"], fontproperties=FontProperties(family=families, size=8.5))
    axes.tick_params(length=0, pad=4, labelcolor=MUTED)
    axes.set_frame_on(False)
