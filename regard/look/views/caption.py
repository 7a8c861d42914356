"""What `regard vision look` does with a captioner: where each word of the caption looked, drawn or in the terminal."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.cells import set_cell_size

from regard.inference.caption import Caption
from regard.inference.captioner import Captioner
from regard.look.views.html import render_html
from regard.look.views.pictures import check_picture_path, write_picture
from regard.look.views.terminal import FAINT, SHADES, shorten

FORMATS = ("png", "svg", "pdf", "gif", "html", "json")
CELL = 2  # terminal cells that an image's cell is wide, for it to be about square
SPACE = 3  # between two maps


def look_captioner(
    folder: Path,
    image: Path,
    output: Path | None = None,
    device: str = "cpu",
    *,
    text: str | None = None,
    beam: int | None = None,
    font: Path | None = None,
) -> None:
    """Caption an image and write a sheet (.png, .svg, .pdf), an animation (.gif), a page (.html) or the record (.json).

    Without an output, maps are printed. `text` is a caption to look at instead of the model's own.
    """
    if output is not None:
        check_picture_path(output, FORMATS)
    captioner = Captioner.load(folder, device)
    if output is not None and output.suffix.lower() in (".html", ".json"):
        look = captioner.look(image, reference=text, beam=beam)
        document = f"{look.to_json()}\n" if output.suffix.lower() == ".json" else render_html(look)
        write_picture(output, document.encode())
        print(look.target.text)
        return
    caption = captioner.caption(image, beam=beam) if text is None else captioner.force(image, text)
    if output is None:
        print(f"{caption.text}\n\n{maps_text(caption, shutil.get_terminal_size().columns)}")
        return
    from regard.look.views.caption_pictures import save_caption

    save_caption(caption, output, font=font)
    print(caption.text)


def maps_text(caption: Caption, width: int = 80) -> str:
    """One map of shades for each word, side by side as they fit; shades are shares of the word's largest weight."""
    rows, columns = caption.grid
    wide = columns * CELL
    together = max(1, (width + SPACE) // (wide + SPACE))
    maps = list(zip(caption.words, caption.word_attention(), strict=True))
    blocks: list[str] = []
    for first in range(0, len(maps), together):
        part = maps[first : first + together]
        heads = [set_cell_size(shorten(word, wide), wide) for word, _ in part]
        shaded = [_shaded(weights) for _, weights in part]
        lines = [heads, *([each[row] for each in shaded] for row in range(rows))]
        blocks.append("\n".join((" " * SPACE).join(line).rstrip() for line in lines))
    return "\n\n".join(blocks)


def _shaded(weights: npt.NDArray[np.float64]) -> list[str]:
    share = weights / max(float(weights.max()), 1e-12)
    return ["".join(_shade(float(weight)) * CELL for weight in row) for row in share]


def _shade(share: float) -> str:
    return next((shade for least, shade in SHADES if share >= least), FAINT)
