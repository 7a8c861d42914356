"""Pointing accuracy of a captioner: the image counterpart of alignment error rate.

Every word that refers to a thing has a gold box. The box covers the cells that overlap it by at least half, or, for a
small box, the cells with the largest overlap. Pointing accuracy (the "pointing game" of Zhang et al. 2016) is the share
of these words whose most attended cell is covered; the mass is the attention on covered cells. Uniform attention is
the baseline of both.
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
    """Sums over words with a gold box."""

    words: int = 0
    hits: int = 0
    mass: float = 0.0
    even: float = 0.0  # baseline of uniform attention, the same for hits and mass

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
    """The mask (rows, columns) of the cells covered by a box in an image of height and width `size`."""
    covered = np.outer(
        _overlaps(box.top, box.bottom, grid[0], size[0] / grid[0]),
        _overlaps(box.left, box.right, grid[1], size[1] / grid[1]),
    )
    return np.asarray(covered >= min(HALF, float(covered.max())))


def _overlaps(first: float, last: float, count: int, width: float) -> npt.NDArray[np.float64]:
    """The overlap of each of `count` intervals of this width with [first, last]."""
    begin = np.arange(count) * width
    return np.asarray(np.maximum(0.0, np.minimum(begin + width, last) - np.maximum(begin, first)) / width)
