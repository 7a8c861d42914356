"""Where a classifier looks: its attention modules as rows of pictures, drawn as a sheet, layer by layer, or as text.

A row for each module. A gate (BAM, CBAM, squeeze-and-excitation) shows the features before it, the weights, the
features after it, and the weight of each channel. Self-attention shows, head by head, what the class token looks at
(ViT), or how much each cell is looked at, and what some cells look at, which are marked (on feature maps).
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from regard.look.classification import Classification, Map, only_image
from regard.look.views.heatmap import COLOURS, INK, MUTED, PAPER, save_figure
from regard.look.views.pictures import check_picture_path, write_picture
from regard.look.views.shades import legend, shaded, side_by_side
from regard.nn.image.attention_map import Gates, Seen

FORMATS = ("png", "svg", "pdf", "gif", "json")
PANEL = 1.6  # inches
MOST_COLUMNS = 9
MILLISECONDS = 1500  # of a frame
MARK = "#35c4e8"
VEIL = (1.0, 0.62, 0.16)
DIM = 0.75  # of the light that the image keeps where nothing is looked at
UNIFORM = 0.01  # a gate's weights with a smaller range are drawn flat: scaled, their noise would look like a pattern
ASKED = (0.25, 0.75)  # where in height and width the cells lie whose look is drawn


@dataclass(frozen=True)
class Panel:
    """One picture: a map over the image's cells, or bars; `values` between 0 and 1."""

    title: str
    values: Map
    note: str = ""
    form: Literal["map", "lit", "bars"] = "map"  # lit: over the image itself
    mark: tuple[int, int] | None = None  # the cell that looks


@dataclass(frozen=True)
class Row:
    """The pictures of one module."""

    title: str
    panels: tuple[Panel, ...]


def save_look(found: Classification, path: str | Path, dpi: int = 150) -> Path:
    """Draw a sheet (.png, .svg, .pdf), a frame for each module (.gif), or write all weights (.json)."""
    path = check_picture_path(path, FORMATS)
    form = path.suffix[1:].lower()
    if form == "json":
        write_picture(path, (json.dumps(found.to_dict(), ensure_ascii=False) + "\n").encode())
    elif form == "gif":
        write_picture(path, animation(found))
    else:
        save_figure(sheet(found, rows_of(found)), path, dpi)
    return path


# --- panels -------------------------------------------------------------------------------------------------------


def rows_of(found: Classification) -> list[Row]:
    """The pictures, module by module."""
    return [_row(number, seen) for number, seen in enumerate(found.seen, 1)]


def _row(number: int, seen: Seen) -> Row:
    if isinstance(seen, Gates):
        return _gate_row(number, seen)
    rows, columns = seen.grid
    weights = only_image(seen.weights)  # (heads, T, S)
    title = f"layer {number}\n{rows} x {columns}"
    if seen.class_token:
        maps = weights[:, 0, 1:].reshape(-1, rows, columns)
        return Row(title, tuple(_lit(f"head {head}", each) for head, each in enumerate(maps, 1)))
    panels = [_lit("looked at", weights[0].mean(0).reshape(rows, columns))]
    for down in ASKED:
        for across in ASKED:
            cell = int(down * rows), int(across * columns)
            looks = weights[0, cell[0] * columns + cell[1]].reshape(rows, columns)
            panels.append(_lit(f"from {cell[0] + 1}, {cell[1] + 1}", looks, mark=cell))
    return Row(title, tuple(panels))


def _gate_row(number: int, seen: Gates) -> Row:
    before, after = (np.abs(only_image(each)).mean(0) for each in (seen.before, seen.after))
    weights = only_image(seen.weights)  # (C, H, W)
    brightest = max(float(before.max()), float(after.max()), 1e-12)
    height, width = before.shape
    channels = weights.mean((1, 2))
    spread = weights.mean(0)
    return Row(
        f"module {number}\n{height} x {width}",
        (
            Panel("before", before / brightest, f"mean |F|, up to {before.max():.2f}"),
            _weights(spread),
            Panel("after", after / brightest, f"mean |F'|, up to {after.max():.2f}"),
            Panel("channels", channels, f"{len(channels)}: {channels.min():.2f} to {channels.max():.2f}", "bars"),
        ),
    )


def _weights(spread: Map) -> Panel:
    """The weights of a gate, scaled from 0 (least) to 1 (largest); flat where they hardly differ."""
    least, largest = float(spread.min()), float(spread.max())
    if largest - least < UNIFORM:
        mean = float(spread.mean())
        return Panel("weights", np.full_like(spread, min(max(mean, 0.0), 1.0)), f"uniform, {mean:.3f}")
    return Panel("weights", (spread - least) / (largest - least), f"least {least:.3f}, largest {largest:.3f}")


def _lit(title: str, weights: Map, mark: tuple[int, int] | None = None) -> Panel:
    largest = float(weights.max())
    return Panel(title, weights / max(largest, 1e-12), f"largest weight {largest:.2g}", "lit", mark)


# --- drawing ------------------------------------------------------------------------------------------------------


def sheet(found: Classification, rows: list[Row]) -> Figure:
    """The image first, then a row for each module."""
    columns = 1 + min(MOST_COLUMNS, max(len(row.panels) for row in rows))
    lines = [_wrapped(row, columns - 1) for row in rows]
    flat = [(row if first else None, part) for row, parts in zip(rows, lines, strict=True) for first, part in parts]
    figure = Figure(figsize=(columns * PANEL, len(flat) * (PANEL + 0.42) + 0.5), facecolor=PAPER, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(f"{found.label} ({found.probability:.1%})", color=INK, fontsize=12)
    axes = figure.subplots(len(flat), columns, squeeze=False)
    picture = _picture(found)
    for (row, panels), places in zip(flat, axes, strict=True):
        for place in places:
            place.set_axis_off()
        if row is not None:
            _draw_image(places[0], picture)
            places[0].set_title(row.title, color=INK, fontsize=9, pad=3)
        for panel, place in zip(panels, places[1:], strict=False):
            _draw(place, panel, picture)
    return figure


def _wrapped(row: Row, columns: int) -> list[tuple[bool, tuple[Panel, ...]]]:
    """The panels of a row, in as many lines as they need; True for the first."""
    return [(start == 0, row.panels[start : start + columns]) for start in range(0, len(row.panels), columns)]


def animation(found: Classification) -> bytes:
    """A GIF: a frame for each module."""
    frames = []
    rows = rows_of(found)
    for row in rows:
        figure = sheet(found, [row])
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=110, facecolor=PAPER)
        frames.append(Image.open(buffer).convert("RGB"))
    size = max(frame.width for frame in frames), max(frame.height for frame in frames)
    first, *others = [_on_paper(frame, size).quantize(128) for frame in frames]
    written = io.BytesIO()
    first.save(written, "GIF", save_all=True, append_images=others, duration=MILLISECONDS, loop=0)
    return written.getvalue()


def _on_paper(frame: Image.Image, size: tuple[int, int]) -> Image.Image:
    paper = Image.new("RGB", size, PAPER)
    paper.paste(frame)
    return paper


def _picture(found: Classification) -> Map:
    """The image (H, W, 3) between 0 and 1."""
    pixels = found.image.astype(np.float64) / 255
    return np.repeat(pixels[..., None], 3, 2) if pixels.ndim == 2 else pixels


def _draw_image(axes: Axes, picture: Map) -> None:
    axes.set_axis_on()
    axes.imshow(picture, interpolation="nearest", vmin=0, vmax=1)
    _plain(axes)


def _draw(axes: Axes, panel: Panel, picture: Map) -> None:
    axes.set_axis_on()
    axes.set_title(panel.title, color=INK, fontsize=9, pad=3)
    axes.set_xlabel(panel.note, color=MUTED, fontsize=6.5, labelpad=2)
    if panel.form == "bars":
        axes.bar(np.arange(len(panel.values)), panel.values, width=1.0, color=COLOURS(0.7))
        axes.set(ylim=(0, 1), xlim=(-0.5, len(panel.values) - 0.5))
        axes.set_box_aspect(1)
        _plain(axes)
        axes.spines["bottom"].set(visible=True, color=MUTED)
        return
    rows, columns = panel.values.shape
    if panel.form == "lit":
        height, width = picture.shape[:2]
        shown = panel.values[np.arange(height) * rows // height][:, np.arange(width) * columns // width]
        # A veil of colour: on the dark ground of an image brightness alone would show nothing.
        share = 0.8 * shown[..., None]
        axes.imshow(DIM * picture * (1 - share) + np.array(VEIL) * share, interpolation="nearest", vmin=0, vmax=1)
    else:
        axes.imshow(panel.values, cmap=COLOURS, vmin=0, vmax=1, interpolation="nearest")
    if panel.mark is not None:
        down, across = picture.shape[0] / rows, picture.shape[1] / columns
        corner = panel.mark[1] * across - 0.5, panel.mark[0] * down - 0.5
        axes.add_patch(Rectangle(corner, across, down, fill=False, edgecolor=MARK, linewidth=1.4))
    _plain(axes)


def _plain(axes: Axes) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)


# --- as text ------------------------------------------------------------------------------------------------------


def text_maps(found: Classification, width: int = 80) -> str:
    """The maps of the last module in shades, side by side as they fit, with their scales and a legend."""
    row = rows_of(found)[-1]
    panels = [panel for panel in row.panels if panel.form != "bars"][:4]
    maps = side_by_side([(panel.title, shaded(panel.values, width)) for panel in panels], width)
    notes = [f"{panel.title}: {panel.note}" for panel in panels]
    title = row.title.replace("\n", ", ")
    return "\n".join([title, maps, "", *notes, *legend("the map's scale", width)])
