"""Attention as a picture for a page: PNG, SVG or PDF, with every script that an installed font can write.

Nothing of matplotlib's global state is used or changed, so pictures may be drawn from several threads and never
disturb a notebook's own plots.
"""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.ft2font import FT2Font

from regard.errors import DataError
from regard.look.pictures import check_picture_path, write_picture
from regard.look.terminal import Weights, labelled_weights, shorten

if TYPE_CHECKING:
    from regard.translation import Translation

INK, MUTED, PAPER = "#22303c", "#7b8794", "#ffffff"
# White, then one hue that darkens evenly: weights are compared by lightness alone, also in grey print.
COLOURS = LinearSegmentedColormap.from_list(
    "regard", ["#f5f7fa", "#cfdff0", "#8fb8de", "#4a86bf", "#1f568f", "#0d2f5c"]
)
CELL, BAR, MARGIN = 0.34, 0.09, 0.18  # inches
FONT_SIZE = 10.5  # points
LONGEST_LABEL = 24
PREFERRED_FONTS = ("DejaVu Sans", "Noto Sans", "Noto Sans CJK", "NanumGothic", "Nanum", "Apple SD Gothic", "Malgun")


def save_heatmap(
    translation: Translation,
    path: str | Path,
    *,
    pieces: bool = False,
    title: str | None = None,
    font: str | Path | None = None,
    dpi: int = 200,
) -> Path:
    """Draw the attention of a translation between words, or between pieces, into a .png, .svg or .pdf file."""
    path = check_picture_path(path)
    weights, source, target = labelled_weights(translation, pieces)
    figure = heatmap_figure(weights, source, target, title=title, font=font)
    # A date would make every drawing of the same sentence another file.
    form = path.suffix[1:].lower()
    date = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[form]
    buffer = io.BytesIO()
    figure.savefig(buffer, format=form, dpi=dpi, metadata=date, facecolor=PAPER)
    write_picture(path, buffer.getvalue())
    return path


def heatmap_figure(
    weights: Weights,
    source: Sequence[str],
    target: Sequence[str],
    *,
    title: str | None = None,
    font: str | Path | None = None,
) -> Figure:
    """A figure of the weights (T, S): source labels along the top, target labels down the side."""
    source = [shorten(word, LONGEST_LABEL) for word in source]
    target = [shorten(word, LONGEST_LABEL) for word in target]
    families = fonts_for([*source, *target, title or ""], font)
    figure = Figure(facecolor=PAPER)
    FigureCanvasAgg(figure)
    properties = FontProperties(family=families, size=FONT_SIZE)
    columns, rows = max(len(source), 1), max(len(target), 1)
    label_widths, label_heights, slant = _label_room(figure, source, target, properties)
    heading = 0.42 if title else 0.0
    overhang = label_heights if slant else 0.0  # a slanted last label leans out to the right
    right = max(MARGIN + 0.62, overhang)
    width = MARGIN + label_widths + columns * CELL + right
    height = MARGIN + heading + label_heights + rows * CELL + MARGIN
    figure.set_size_inches(width, height)
    left, bottom = MARGIN + label_widths, MARGIN
    axes = figure.add_axes((left / width, bottom / height, columns * CELL / width, rows * CELL / height))
    _draw_matrix(axes, weights, source, target, properties, slant)
    bar_height = min(rows * CELL, 1.6)
    bar = figure.add_axes(((left + columns * CELL + 0.16) / width, bottom / height, BAR / width, bar_height / height))
    _draw_scale(bar, properties)
    if title:
        figure.text(
            MARGIN / width,
            1 - MARGIN / height,
            title,
            fontproperties=properties,
            color=INK,
            va="top",
            fontsize=12,
            parse_math=False,
        )
    return figure


def fonts_for(texts: Iterable[str], font: str | Path | None = None) -> list[str]:
    """Font families that together have every glyph of the texts, or one line that says what to install."""
    needed = {character for text in texts for character in text if _has_glyph(character)}
    families: list[str] = []
    if font is not None:
        families.append(_add_font(Path(font)))
        needed -= _glyphs(str(font))
    families.append("DejaVu Sans")  # comes with matplotlib
    needed -= _glyphs(font_manager.findfont("DejaVu Sans"))
    for family, path in _installed_fonts() if needed else ():
        found = needed & _glyphs(path)
        if found:
            families.append(family)
            needed -= found
        if not needed:
            break
    if needed:
        missing = "".join(sorted(needed))[:20]
        raise DataError(
            f"no installed font can draw {missing!r}: install one that can (Korean: the package fonts-nanum; Chinese "
            "and Japanese: fonts-noto-cjk), or name a font file with --font."
        )
    return families


def _has_glyph(character: str) -> bool:
    return not character.isspace() and unicodedata.category(character) not in ("Cf", "Cc") and character != "\ufe0f"


def _installed_fonts() -> list[tuple[str, str]]:
    """(family, file) of the regular upright fonts, the calmest first, also those newer than matplotlib's cache."""
    known = {entry.fname for entry in font_manager.fontManager.ttflist}
    for path in font_manager.findSystemFonts():
        if path not in known:
            try:
                font_manager.fontManager.addfont(path)
            except (OSError, RuntimeError):
                continue  # bitmap and colour fonts that matplotlib cannot read
    entries = [
        entry
        for entry in font_manager.fontManager.ttflist
        if entry.style == "normal" and entry.weight in (400, "normal", "regular", "book")
    ]

    def rank(family: str) -> tuple[int, str]:
        near = [place for place, name in enumerate(PREFERRED_FONTS) if family.startswith(name)]
        return (near[0] if near else len(PREFERRED_FONTS), family)

    pairs = {entry.name: entry.fname for entry in entries}
    return sorted(pairs.items(), key=lambda pair: rank(pair[0]))


def _glyphs(path: str) -> set[str]:
    try:
        return {chr(code) for code in FT2Font(path).get_charmap()}
    except (OSError, RuntimeError):
        return set()


def _add_font(path: Path) -> str:
    try:
        font_manager.fontManager.addfont(path)
        return str(FontProperties(fname=path).get_name())
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such font file: check --font.") from None
    except (OSError, RuntimeError):
        raise DataError(f"{path}: is not a font that can be read: give a .ttf, .otf or .ttc file.") from None


def _label_room(
    figure: Figure, source: Sequence[str], target: Sequence[str], properties: FontProperties
) -> tuple[float, float, bool]:
    """Inches the target labels need to the left and the source labels above, and whether the latter are slanted."""

    def inches(word: str) -> float:
        text = figure.text(0, 0, word, fontproperties=properties, parse_math=False)
        extent = text.get_window_extent().width / figure.dpi
        text.remove()
        return float(extent)

    left = max(map(inches, target), default=0.0) + 0.12
    widest = max(map(inches, source), default=0.0)
    slant = widest > CELL * 0.9
    return left, (widest * 0.72 + 0.26 if slant else 0.34), slant


def _draw_matrix(
    axes: Axes,
    weights: Weights,
    source: Sequence[str],
    target: Sequence[str],
    properties: FontProperties,
    slant: bool,
) -> None:
    if np.size(weights):
        axes.pcolormesh(weights, cmap=COLOURS, vmin=0, vmax=1, edgecolors=PAPER, linewidth=1.6, antialiased=True)
    axes.set_xlim(0, max(len(source), 1))
    axes.set_ylim(max(len(target), 1), 0)
    axes.xaxis.tick_top()
    axes.set_xticks(np.arange(len(source)) + 0.5)
    axes.set_xticklabels(
        source,
        fontproperties=properties,
        rotation=45 if slant else 0,
        ha="left" if slant else "center",
        rotation_mode="anchor" if slant else "default",
        parse_math=False,  # a dollar sign is a dollar sign
    )
    axes.set_yticks(np.arange(len(target)) + 0.5)
    axes.set_yticklabels(target, fontproperties=properties, parse_math=False)
    axes.tick_params(length=0, pad=5, labelcolor=INK)
    axes.set_frame_on(False)


def _draw_scale(axes: Axes, properties: FontProperties) -> None:
    axes.pcolormesh(np.linspace(0, 1, 128)[:, None], cmap=COLOURS, vmin=0, vmax=1, rasterized=True)
    axes.set_xticks([])
    axes.yaxis.tick_right()
    axes.set_yticks([0, 64, 128])
    axes.set_yticklabels(["0", "0.5", "1"], fontproperties=properties, fontsize=8.5)
    axes.tick_params(length=0, pad=4, labelcolor=MUTED)
    axes.set_frame_on(False)
