"""Where a captioner looked, word by word: a sheet of pictures, or an animation with a frame for each word.

Each picture is the image, lit where the word looked: a cell is as bright as its weight is to the word's largest one.
Cells are drawn as they are, without smoothing, because the model sees no finer.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.offsetbox import AnnotationBbox, HPacker, TextArea
from PIL import Image
from rich.cells import cell_len

from regard.data.images.pixels import Pixels
from regard.look.caption_maps import shown_image, word_maps
from regard.look.record import Look, Side
from regard.look.views.fonts import fonts_for
from regard.look.views.heatmap import INK, MUTED, PAPER, save_figure
from regard.look.views.pictures import check_picture_path, write_picture

COLUMNS = 6  # pictures side by side
PANEL = 1.7  # inches
FADED = "#6b7682"  # words that are not marked; a contrast of 4.6:1
DIM = 0.25  # of the light that a cell with no weight keeps
SIDE = 384  # least pixels of a drawn image's longer side
FRAME = (4.6, 5.0)  # inches
FRAME_DPI = 100
MILLISECONDS = 900  # of a frame


def save_caption(
    look: Look, path: str | Path, *, title: str | None = None, font: str | Path | None = None, dpi: int = 150
) -> Path:
    """Draw a sheet into a .png, .svg or .pdf file, or an animation into a .gif file."""
    path = check_picture_path(path, ("png", "svg", "pdf", "gif"))
    if path.suffix.lower() == ".gif":
        write_picture(path, animation(look, font=font))
    else:
        save_figure(sheet(look, title=title, font=font), path, dpi)
    return path


def sheet(look: Look, *, title: str | None = None, font: str | Path | None = None) -> Figure:
    """The image, then one picture for each word."""
    image, maps = shown_image(look), word_maps(look)
    units = [unit.text for unit in look.target.units]
    largest = [f"largest weight {weights.max():.2f}" for weights in maps]
    lit = [light(image, weights) for weights in maps]
    panels = [("", full_light(image), ""), *zip(units, lit, largest, strict=True)]
    columns = min(COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    tall = PANEL * image.shape[0] / image.shape[1] + 0.42
    families = fonts_for([look.target.text, title or ""], font)
    figure = Figure(figsize=(columns * PANEL, rows * tall + 0.4), facecolor=PAPER, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title or look.target.text, family=families, color=INK, fontsize=12)
    axes = figure.subplots(rows, columns, squeeze=False).flatten()
    for (word, picture, note), place in zip(panels, axes, strict=False):
        _show(place, picture)
        place.set_xlabel(note, color=MUTED, fontsize=7, labelpad=2)
        place.set_title(word, family=families, color=INK, fontsize=11, pad=3)
    for place in axes[len(panels) :]:
        place.set_axis_off()
    return figure


def animation(look: Look, *, font: str | Path | None = None, milliseconds: int = MILLISECONDS) -> bytes:
    """A GIF: the image with the whole caption, then a frame for each word, which the caption marks."""
    families = fonts_for([look.target.text], font)
    image = shown_image(look)
    pictures = [full_light(image), *(light(image, weights) for weights in word_maps(look))]
    frames = [_frame(picture, look.target, number - 1, families) for number, picture in enumerate(pictures)]
    buffer = io.BytesIO()
    first, *others = [frame.quantize(256) for frame in frames]
    first.save(buffer, "GIF", save_all=True, append_images=others, duration=milliseconds, loop=0)
    return buffer.getvalue()


def light(image: Pixels, weights: npt.NDArray[np.floating]) -> Pixels:
    """The image (H, W, 3), enlarged, lit by the weights (rows, columns)."""
    picture = full_light(image).astype(np.float64)
    largest = float(weights.max())
    share = weights / largest if largest > 0 else weights
    rows, columns = share.shape
    height, width = picture.shape[:2]
    brightness = share[np.arange(height) * rows // height][:, np.arange(width) * columns // width]
    return np.asarray((picture * (DIM + (1 - DIM) * brightness[..., None])).round(), dtype=np.uint8)


def full_light(image: Pixels) -> Pixels:
    """The image as (H, W, 3); a small one is enlarged by an integer factor without interpolation."""
    colour = np.repeat(image[..., None], 3, 2) if image.ndim == 2 else image
    times = max(1, SIDE // max(image.shape[:2]))
    return colour.repeat(times, 0).repeat(times, 1)


def _show(axes: Axes, picture: Pixels) -> None:
    axes.imshow(picture, interpolation="antialiased")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)


def _frame(picture: Pixels, caption: Side, marked: int, families: Sequence[str]) -> Image.Image:
    """One frame: the picture, and below it the caption with one unit marked."""
    figure = Figure(figsize=FRAME, facecolor=PAPER, dpi=FRAME_DPI)
    _show(figure.add_axes((0.04, 0.14, 0.92, 0.84)), picture)
    size = min(14.0, 520 / max(1, cell_len(caption.text)))  # points, so that a long caption stays inside
    words: list[list[Artist]] = [[] for _ in caption.words]
    for number, unit in enumerate(caption.units):
        colour = INK if marked in (-1, number) else FADED
        style = {"family": families, "fontsize": size, "color": colour}
        words[unit.word].append(TextArea(unit.text, textprops=style))
    packed: list[Artist] = [HPacker(pad=0, sep=0, children=units, align="baseline") for units in words]
    line = HPacker(pad=0, sep=0.4 * size, children=packed, align="baseline")
    figure.add_artist(AnnotationBbox(line, (0.5, 0.07), xycoords="figure fraction", frameon=False, pad=0))
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", facecolor=PAPER)
    return Image.open(buffer).convert("RGB")
