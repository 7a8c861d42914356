"""Maps in shades for the terminal: shading, placing side by side, and the legend."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from rich.cells import cell_len, set_cell_size

from regard.look.views.terminal import FAINT, SHADES, shorten

CELL = 2  # terminal cells that an image's cell is wide, for it to be about square
SPACE = 3  # between two maps


def shaded(shares: npt.NDArray[np.floating], width: int) -> list[str]:
    """The rows of a map of shares (rows, columns); its cells are half as wide where the map exceeds the width."""
    wide = CELL if shares.shape[1] * CELL <= width else 1
    return ["".join(_shade(float(share)) * wide for share in row) for row in shares]


def side_by_side(maps: Sequence[tuple[str, list[str]]], width: int) -> str:
    """Titles over their maps, all of one size; as many side by side as fit the width."""
    wide = max(cell_len(row) for _, rows in maps for row in rows)
    together = max(1, (width + SPACE) // (wide + SPACE))
    blocks = []
    for first in range(0, len(maps), together):
        part = maps[first : first + together]
        heads = [set_cell_size(shorten(title, wide), wide) for title, _ in part]
        lines = [heads, *zip(*(rows for _, rows in part), strict=True)]
        blocks.append("\n".join((" " * SPACE).join(line).rstrip() for line in lines))
    return "\n\n".join(blocks)


def legend(of: str, width: int) -> list[str]:
    """What the shades say, shares of `of`; nothing in a window too narrow for it."""
    steps = "  ".join(f"{shade} ≥ {least:.0%}".replace("%", " %") for least, shade in reversed(SHADES))
    one = f"{FAINT} < {SHADES[-1][0]:.0%}  ".replace("%", " %") + steps
    lines = [f"{one}  of {of}"] if cell_len(one) + cell_len(of) + 5 <= width else [one, f"of {of}"]
    return lines if max(map(cell_len, lines)) <= width else []


def _shade(share: float) -> str:
    return next((shade for least, shade in SHADES if share >= least), FAINT)
