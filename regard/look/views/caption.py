"""Where each word of a caption looked, in shades in the terminal."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from rich.cells import set_cell_size

from regard.look.caption_maps import word_maps
from regard.look.record import Look
from regard.look.views.terminal import FAINT, SHADES, shorten

CELL = 2  # terminal cells that an image's cell is wide, for it to be about square
SPACE = 3  # between two maps


def maps_text(look: Look, width: int = 80) -> str:
    """One map of shades for each word, side by side as they fit; shades are shares of the word's largest weight."""
    weights = word_maps(look)
    rows, columns = weights.shape[1:]
    wide = columns * CELL
    together = max(1, (width + SPACE) // (wide + SPACE))
    maps = list(zip((unit.text for unit in look.target.units), weights, strict=True))
    blocks: list[str] = []
    for first in range(0, len(maps), together):
        part = maps[first : first + together]
        heads = [set_cell_size(shorten(word, wide), wide) for word, _ in part]
        shaded = [_shaded(each) for _, each in part]
        lines = [heads, *([each[row] for each in shaded] for row in range(rows))]
        blocks.append("\n".join((" " * SPACE).join(line).rstrip() for line in lines))
    return "\n\n".join(blocks)


def _shaded(weights: npt.NDArray[np.float64]) -> list[str]:
    share = weights / max(float(weights.max()), 1e-12)
    return ["".join(_shade(float(weight)) * CELL for weight in row) for row in share]


def _shade(share: float) -> str:
    return next((shade for least, shade in SHADES if share >= least), FAINT)
