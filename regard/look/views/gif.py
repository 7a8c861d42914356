"""Drawing the frames of an animation, and writing them as a GIF.

A frame is a list of marks on a plane of 900 × 600; a mark that stands for a number carries its value and where in the
look record it comes from, so that tests can compare the drawing with the record.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Colormap, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from regard.look.views.fonts import fonts_for
from regard.look.views.heatmap import INK, MUTED, PAPER
from regard.look.views.pictures import GIF_WIDTH, write_picture
from regard.look.views.vector import SIGNS

WIDTH, HEIGHT = GIF_WIDTH, 600
BLUE, ACCENT, RULE, SHADE = "#4a86bf", "#b4531a", "#d9e0e7", "#eef3f8"
SIGN_LEVELS = 101  # shades of a cell
BLENDS = 12  # shades between an ink and its ground, for smooth edges

Place = tuple[float, float, float, float]
"""x, y, width and height."""


@dataclass(frozen=True)
class Mark:
    """One shape or text of a frame; x to the right, y down."""

    shape: Literal["text", "box", "line", "curve"]
    x: float
    y: float
    width: float = 0.0
    height: float = 0.0
    text: str = ""
    colour: str = INK
    size: float = 13.0
    anchor: Literal["left", "center", "right"] = "center"
    dashed: bool = False
    points: tuple[tuple[float, float], ...] = ()
    what: str = ""  # where its value stands, such as score[3]
    value: float | tuple[float, ...] | None = None
    edge: bool = False

    @classmethod
    def text_at(
        cls,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 13.0,
        colour: str = INK,
        anchor: Literal["left", "center", "right"] = "center",
        what: str = "",
    ) -> Mark:
        """A word, centred at y."""
        return cls("text", x, y, text=text, size=size, colour=colour, anchor=anchor, what=what)

    @classmethod
    def number(cls, x: float, y: float, value: float, form: str, what: str, colour: str = INK) -> Mark:
        """A number of the record."""
        text = format(value, form)
        text = text if float(text) else text.removeprefix("-")
        return cls("text", x, y, text=text, size=12, colour=colour, what=what, value=value)

    @classmethod
    def cell(cls, x: float, y: float, width: float, height: float, shade: float, value: float, what: str) -> Mark:
        """A number as a colour, from -1 to 1."""
        level = round((min(max(shade, -1.0), 1.0) + 1) / 2 * (SIGN_LEVELS - 1)) / (SIGN_LEVELS - 1)
        return cls("box", x, y, width, height, colour=to_hex(SIGNS(level)), what=what, value=value, edge=True)

    @classmethod
    def moving(cls, place: Place, shade: float) -> Mark:
        """A cell on its way, without a value."""
        return replace(cls.cell(*place, shade, 0.0, ""), value=None)

    @classmethod
    def bar(cls, x: float, y: float, width: float, height: float, colour: str) -> Mark:
        """A bar whose lower edge is y + height."""
        return cls("box", x, y, width, height, colour=colour)

    @classmethod
    def area(cls, x: float, y: float, width: float, height: float, what: str) -> Mark:
        """A shaded ground."""
        return cls("box", x, y, width, height, colour=SHADE, what=what)

    @classmethod
    def line(cls, x: float, y: float, to_x: float, to_y: float, colour: str, dashed: bool = False) -> Mark:
        """A straight line."""
        return cls("line", x, y, to_x - x, to_y - y, colour=colour, dashed=dashed)

    @classmethod
    def curve(cls, points: Sequence[tuple[float, float]], colour: str, value: tuple[float, ...]) -> Mark:
        """A line through points."""
        return cls("curve", 0, 0, points=tuple(points), colour=colour, what="gaussian", value=value)


@dataclass(frozen=True)
class Frame:
    """The marks of one frame, and its duration."""

    marks: tuple[Mark, ...]
    milliseconds: int
    stage: str
    step: int


def save_gif(
    frames: Sequence[Frame], path: Path, *, size: int = WIDTH, speed: float = 1.0, font: str | Path | None = None
) -> None:
    """Draw all frames, `size` pixels wide, and write them whole or not at all."""
    lettering = Lettering(fonts_for((mark.text for frame in frames for mark in frame.marks), font), size / WIDTH)
    images = [draw_frame(frame, lettering) for frame in frames]
    palette = palette_of(SIGNS, SIGN_LEVELS, (INK, MUTED, BLUE, ACCENT), (PAPER, SHADE), RULE)
    write_images(images, [frame.milliseconds / speed for frame in frames], path, palette)


def palette_of(
    ramp: Colormap, levels: int, inks: Sequence[str], grounds: Sequence[str], *others: str
) -> NDArray[np.int64]:
    """The colours (N, 3) of a GIF: evenly spaced colours of a ramp, and inks with their blends into each ground.

    A palette counted from the pixels would merge neighbouring shades of the ramp, which shows as bands.
    """
    shares = np.linspace(0, 1, BLENDS)[:, None]
    blends = [
        (1 - shares) * np.array(to_rgb(ink)) + shares * np.array(to_rgb(ground)) for ink in inks for ground in grounds
    ]
    ramped = ramp(np.linspace(0, 1, levels))[:, :3]
    colours = np.concatenate([ramped, *blends, [to_rgb(each) for each in (*grounds, *others)]])
    return np.unique(np.rint(colours * 255).astype(np.int64), axis=0)


def write_images(
    images: Sequence[Image.Image], milliseconds: Sequence[float], path: Path, palette: NDArray[np.int64]
) -> None:
    """Write images of one size as a GIF that plays for ever, all in one palette of at most 256 colours."""
    assert len(palette) <= 256, f"a GIF cannot have {len(palette)} colours"
    indexed = [_indexed(image, palette) for image in images]
    buffer = io.BytesIO()
    # A GIF counts in hundredths of a second; players slow down frames shorter than two hundredths.
    times = [max(20, round(time / 10) * 10) for time in milliseconds]
    indexed[0].save(buffer, "GIF", save_all=True, append_images=indexed[1:], duration=times, loop=0, optimize=False)
    write_picture(path, buffer.getvalue())


def _indexed(image: Image.Image, palette: NDArray[np.int64]) -> Image.Image:
    """The image in the nearest colours of the palette."""
    pixels = np.asarray(image).astype(np.int64)  # (H, W, 3)
    packed = (pixels[..., 0] << 16) | (pixels[..., 1] << 8) | pixels[..., 2]
    seen, places = np.unique(packed, return_inverse=True)
    colours = np.stack([seen >> 16, (seen >> 8) & 255, seen & 255], axis=-1)  # (U, 3)
    nearest = ((colours[:, None] - palette) ** 2).sum(-1).argmin(-1)
    indexed = Image.fromarray(nearest[places].reshape(packed.shape).astype(np.uint8), "P")
    indexed.putpalette(palette.flatten().tolist())
    return indexed


@dataclass(frozen=True)
class Word:
    """A word as a mask, with the pixels between its corner and the beginning of its baseline."""

    mask: Image.Image
    left: int
    above: int
    width: float


class Lettering:
    """Words as matplotlib writes them (all scripts, joined letters, from the right), each drawn once."""

    def __init__(self, families: list[str], scale: float) -> None:
        self.families = families
        self.scale = scale  # pixels of the image for each unit of the plane
        self._figure = Figure(figsize=(WIDTH / 100, 0.8), dpi=100 * scale, facecolor="white")
        self._canvas = FigureCanvasAgg(self._figure)
        self._words: dict[tuple[str, float], Word | None] = {}

    def word(self, text: str, size: float) -> Word | None:
        """The rendered word at `size` units; None if it has no ink."""
        if (text, size) not in self._words:
            self._words[text, size] = self._draw(text, size)
        return self._words[text, size]

    def _draw(self, text: str, size: float) -> Word | None:
        properties = FontProperties(family=self.families, size=size * 0.72)
        drawn = self._figure.text(0.02, 0.4, text, fontproperties=properties, color="black", parse_math=False)
        self._canvas.draw()  # type: ignore[no-untyped-call]
        width = float(drawn.get_window_extent().width)
        drawn.remove()
        pixels = np.asarray(self._canvas.buffer_rgba())  # type: ignore[no-untyped-call]
        ink = 255 - pixels[..., :3].mean(-1)
        rows, columns = np.flatnonzero(ink.max(1) > 0), np.flatnonzero(ink.max(0) > 0)
        if not rows.size:
            return None
        cut = ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        left = columns[0] - 0.02 * ink.shape[1]
        above = 0.6 * ink.shape[0] - rows[0]
        return Word(Image.fromarray(cut.round().astype(np.uint8)), round(left), round(above), width)


def draw_frame(frame: Frame, lettering: Lettering) -> Image.Image:
    """The frame as an image."""
    scale = lettering.scale
    fine = 2 * scale  # shapes are drawn twice as large, and shrunk, for smooth edges
    image = Image.new("RGB", (round(WIDTH * fine), round(HEIGHT * fine)), PAPER)
    pen = ImageDraw.Draw(image)
    for mark in frame.marks:
        _draw_shape(pen, mark, fine)
    image = image.resize((round(WIDTH * scale), round(HEIGHT * scale)), Image.Resampling.BOX)
    for mark in frame.marks:
        word = lettering.word(mark.text, mark.size) if mark.shape == "text" else None
        if word is not None:
            share = {"left": 0.0, "center": 0.5, "right": 1.0}[mark.anchor]
            x = round(mark.x * scale - share * word.width) + word.left
            y = round((mark.y + 0.36 * mark.size) * scale) - word.above
            image.paste(mark.colour, (x, y), word.mask)
    return image


def _draw_shape(pen: ImageDraw.ImageDraw, mark: Mark, scale: float) -> None:
    x, y, to_x, to_y = (scale * place for place in (mark.x, mark.y, mark.x + mark.width, mark.y + mark.height))
    thin = max(1, round(scale))
    if mark.shape == "box" and round(to_x) > round(x) and round(to_y) > round(y):
        gap = max(1, round(scale / 2)) if mark.edge else 0
        pen.rectangle((round(x), round(y), round(to_x) - 1 - gap, round(to_y) - 1 - gap), fill=mark.colour)
    elif mark.shape == "line" and mark.dashed:
        for start in np.arange(y, to_y, 5 * scale).tolist():  # upright ones alone are dashed
            pen.line((x, start, to_x, min(start + 3 * scale, to_y)), fill=mark.colour, width=thin)
    elif mark.shape == "line":
        pen.line((x, y, to_x, to_y), fill=mark.colour, width=thin)
    elif mark.shape == "curve":
        points = [(scale * across, scale * down) for across, down in mark.points]
        pen.line(points, fill=mark.colour, width=thin, joint="curve")
