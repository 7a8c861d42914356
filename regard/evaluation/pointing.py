"""Does a captioner look at what it names? The image counterpart of alignment error rate.

Every word that tells of a thing has a gold box. The box's cells are those that lie at least half in it or, where it is
too small for that, those that lie in it most. Pointing accuracy (the "pointing game" of Zhang et al. 2016) is the share
of such words whose most attended cell is one of them; the mass is the attention that falls on them. Both come with what
attention spread evenly over the image would get.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.data.toy.scenes import Box

HALF = 0.5


@dataclass(frozen=True)
class Pointing:
    """Sums over words that have a gold box."""

    words: int = 0
    hits: int = 0
    mass: float = 0.0
    even: float = 0.0  # what attention that is spread evenly would get, as hits and as mass alike

    def __add__(self, other: Pointing) -> Pointing:
        return Pointing(
            self.words + other.words, self.hits + other.hits, self.mass + other.mass, self.even + other.even
        )

    def to_dict(self) -> dict[str, Any]:
        """Shares, for JSON."""
        count = max(self.words, 1)
        return {
            "words": self.words,
            "pointing_accuracy": self.hits / count,
            "mass_in_box": self.mass / count,
            "by_chance": self.even / count,
        }


def point(maps: npt.NDArray[np.floating], boxes: Iterable[tuple[int, Box]], size: tuple[int, int]) -> Pointing:
    """Score the maps (W, rows, columns) of a caption's words; `boxes` are (word, box), `size` height and width."""
    total = Pointing()
    for word, box in boxes:
        cells = cells_of(box, (maps.shape[1], maps.shape[2]), size)
        row, column = divmod(int(maps[word].argmax()), maps.shape[2])
        total += Pointing(1, int(cells[row, column]), float(maps[word][cells].sum()), float(cells.mean()))
    return total


def cells_of(box: Box, grid: tuple[int, int], size: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Which cells (rows, columns) of an image of height and width `size` belong to a box."""
    covered = np.outer(
        _overlaps(box.top, box.bottom, grid[0], size[0] / grid[0]),
        _overlaps(box.left, box.right, grid[1], size[1] / grid[1]),
    )
    return np.asarray(covered >= min(HALF, float(covered.max())))


def _overlaps(first: float, last: float, count: int, width: float) -> npt.NDArray[np.float64]:
    """How much of each of `count` stretches of that width lies between first and last."""
    begin = np.arange(count) * width
    return np.asarray(np.maximum(0.0, np.minimum(begin + width, last) - np.maximum(begin, first)) / width)
