"""Drawing the frames of an animation, and writing them as a GIF.

A frame is a list of marks on a plane of 900 × 600; a mark that stands for a number carries its value and where in the
look record it comes from, so that what is drawn can be read back.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from PIL import Image, ImageDraw

from regard.look.views.fonts import fonts_for
from regard.look.views.heatmap import INK, PAPER
from regard.look.views.pictures import GIF_WIDTH, write_picture
from regard.look.views.vector import SIGNS

WIDTH, HEIGHT = GIF_WIDTH, 600
BLUE, ACCENT, RULE, SHADE = "#4a86bf", "#b4531a", "#d9e0e7", "#eef3f8"
PALETTE = 128  # colours of a GIF


@dataclass(frozen=True)
class Mark:
    """One thing on a frame; x to the right, y down."""

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
        red, green, blue, _ = SIGNS((min(max(shade, -1.0), 1.0) + 1) / 2)
        colour = f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"
        return cls("box", x, y, width, height, colour=colour, what=what, value=value, edge=True)

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
    """What stands on the plane, for how long."""

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
    write_images(images, [frame.milliseconds / speed for frame in frames], path)


def write_images(images: Sequence[Image.Image], milliseconds: Sequence[float], path: Path) -> None:
    """Write images of one size as a GIF that plays for ever, all in one palette."""
    palette = _palette(images)
    indexed = [_indexed(image, palette) for image in images]
    buffer = io.BytesIO()
    # A GIF counts in hundredths of a second, and players slow down what is faster than two of them.
    times = [max(20, round(time / 10) * 10) for time in milliseconds]
    indexed[0].save(buffer, "GIF", save_all=True, append_images=indexed[1:], duration=times, loop=0, optimize=False)
    write_picture(path, buffer.getvalue())


def _palette(images: Sequence[Image.Image]) -> Image.Image:
    """The colours that all images need, from some of them."""
    some = [images[place] for place in sorted({*np.linspace(0, len(images) - 1, 6).astype(int).tolist()})]
    sheet = Image.new("RGB", (some[0].width, sum(image.height for image in some)))
    top = 0
    for image in some:
        sheet.paste(image, (0, top))
        top += image.height
    colours = sheet.quantize(PALETTE - 1, dither=Image.Dither.NONE).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette([*colours[: 3 * (PALETTE - 1)], 255, 255, 255])
    return palette


def _indexed(image: Image.Image, palette: Image.Image) -> Image.Image:
    """The image in the colours of the palette; paper stays white, which Pillow's search for the nearest misses."""
    found = np.array(image.quantize(palette=palette, dither=Image.Dither.NONE))
    found[(np.asarray(image) == 255).all(-1)] = PALETTE - 1
    indexed = Image.fromarray(found, "P")
    indexed.putpalette(palette.getpalette() or [])
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
        """The word in letters of `size` units; None where nothing is to be seen."""
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
