"""The alignment of a watched sentence over training: a strip, a GIF, or tables in the terminal."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image
from rich.text import Text

from regard.errors import ConfigError, DataError
from regard.look.maps import Choice, Map, ends_matter, maps_of
from regard.look.record import Look
from regard.look.views.gif import WIDTH, palette_of, write_images
from regard.look.views.heatmap import COLOURS, INK, MUTED, PAPER, Panel, grid_cell, save_figure, sheet_figure
from regard.look.views.terminal import map_table

STRIP_MOMENTS, TERMINAL_MOMENTS = 6, 3
MOST_IN_ROW = 3
FRAME, LAST_FRAME = 450, 2500  # milliseconds


def save_over_time(
    look: Look,
    path: Path,
    choice: Choice,
    *,
    title: str | None = None,
    font: str | Path | None = None,
    size: int = WIDTH,
    speed: float = 1.0,
) -> None:
    """Some moments, three in a row, as .png, .svg or .pdf; all of them, one after the other, as .gif."""
    maps = moment_maps(look, choice)
    if path.suffix.lower() == ".gif":
        _save_gif(maps, path, title, font, size, speed)
    else:
        shown = _strip([maps[place] for place in spread(len(maps), STRIP_MOMENTS)])
        save_figure(sheet_figure(shown, title=title, font=font), path)


def over_time_table(look: Look, choice: Choice, *, width: int = 80, colour: bool = True, digits: bool = False) -> Text:
    """The first moment, the last, and one between them, for the terminal."""
    maps = moment_maps(look, choice)
    parts: list[Text] = []
    for place in spread(len(maps), TERMINAL_MOMENTS):
        update, drawn = maps[place]
        parts += [Text(f"update {update:,}", "bold"), Text()]
        parts += [map_table(drawn, width=width, colour=colour, digits=digits), Text()]
    table = Text("\n", no_wrap=True, overflow="ignore", end="").join(parts[:-1])
    table.no_wrap, table.overflow = True, "ignore"
    return table


def moment_maps(look: Look, choice: Choice) -> list[tuple[int, Map]]:
    """(update, map) of every moment."""
    if not choice.is_alignment:
        raise ConfigError("over time only the alignment is kept: leave --kind, --layer, --head and --average out.")
    if not look.over_time:
        raise DataError(f"{look.model.name}: nothing was kept over time.")
    then = [
        look.model_copy(update={"target": moment.target, "alignment": moment.alignment}) for moment in look.over_time
    ]
    ends = any(ends_matter(each, choice) for each in then) if choice.specials is None and not choice.pieces else None
    maps = [maps_of(each, choice, ends=ends)[0] for each in then]
    return [(moment.update, drawn) for moment, drawn in zip(look.over_time, maps, strict=True)]


def spread(count: int, most: int) -> list[int]:
    """At most `most` evenly spaced indices of 0 … count - 1, with the first and the last."""
    return sorted({round(place) for place in np.linspace(0, count - 1, min(count, most)).tolist()})


def _strip(maps: Sequence[tuple[int, Map]]) -> list[list[Panel]]:
    """Panels in rows of at most three; with equal rows, as with a reference, only the first of each has row labels."""
    rows = [maps[first : first + MOST_IN_ROW] for first in range(0, len(maps), MOST_IN_ROW)]
    cell = min(grid_cell([drawn for _, drawn in row]) for row in rows)
    same = len({drawn.rows for _, drawn in maps}) == 1
    return [
        [
            Panel(drawn, f"update {update:,}", row_labels=number == 0 or not same, cell=cell)
            for number, (update, drawn) in enumerate(row)
        ]
        for row in rows
    ]


def _save_gif(
    maps: Sequence[tuple[int, Map]], path: Path, title: str | None, font: str | Path | None, size: int, speed: float
) -> None:
    figures = [sheet_figure([[Panel(drawn, f"update {update:,}")]], title=title, font=font) for update, drawn in maps]
    inches = [figure.get_size_inches() for figure in figures]
    width, height = max(each[0] for each in inches), max(each[1] for each in inches)
    canvas = (size, round(size * height / width))
    images = []
    for figure in figures:
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=size / width, facecolor=PAPER)
        image = Image.new("RGB", canvas, PAPER)
        image.paste(Image.open(buffer).convert("RGB"), (0, 0))
        images.append(image)
    times = [FRAME / speed] * (len(images) - 1) + [LAST_FRAME / speed]
    write_images(images, times, path, palette_of(COLOURS, 192, (INK, MUTED), (PAPER,)))
