"""A look as a small picture for a notebook: words, ribbons between them, and candidates, in about 260 pixels.

It is plain SVG without script. Text takes the colour of the notebook, so light and dark themes both work. Pointing at a
target word shows its ribbons alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from regard.look.caption_maps import word_maps
from regard.look.maps import Choice, maps_of
from regard.look.record import Look, Side, Unit
from regard.look.views.notes import REASONS, notes
from regard.look.views.svg import text_width

SIZE, SMALL = 15.0, 11.0  # pixels of the words and of the candidates
GAP, EDGE, NARROWEST = 16.0, 10.0, 24.0
SOURCE, TARGET, CANDIDATES, LINE = 22.0, 170.0, 192.0, 15.0  # baselines, and the distance of candidates
HEIGHT = 240.0
SHOWN, LEAST = 3, 0.005  # candidates of a word; the least probability, which is not rounded to 0.00
FAINTEST, WIDEST = 0.12, 13.0  # the least weight with a ribbon; the width of weight 1
BLUE, ORANGE = "#4a86bf", "#d9772b"
THUMBNAIL, MOST_THUMBNAILS = 104, 10  # pixels; words of a caption
STYLE = """
.regard-look{overflow-x:auto;font-family:system-ui,'Noto Sans','DejaVu Sans',sans-serif;color:inherit}
.regard-look text{fill:currentColor;text-anchor:middle}
.regard-look .about{font-size:12px;opacity:.75;margin:2px 10px}
.regard-look path{fill:none;stroke-linecap:round}
.regard-look svg:has(.row:hover) .row:not(:hover) path{opacity:.07}
.regard-look .row:hover .chosen{font-weight:600}
"""


def ribbons_html(look: Look) -> str:
    """The HTML of a look."""
    if look.image is not None:
        drawing = _thumbnails(look)
    elif look.alignment is not None:
        drawing = _ribbons(look)
    else:
        drawing = _bottleneck(look)
    about = " · ".join(escape(each) for each in (look.model.name, *notes(look)))
    return f'<div class="regard-look"><style>{STYLE}</style>{drawing}<div class="about">{about}</div></div>'


def _ribbons(look: Look) -> str:
    """Source above, target below; each target word with its ribbons and the candidates of its first piece."""
    (whole,) = maps_of(look, Choice(specials=False))
    likely = [_candidates(look, number) for number in range(len(look.target.units))]
    source, target = _widths(look.source), _target_widths(look.target, likely)
    width = max(_extent(source), _extent(target))
    above, below = _centres(source, width), _centres(target, width)
    parts = [_source_word(unit, x) for unit, x in zip(look.source.units, above, strict=True)]
    for row, x in enumerate(below):
        lines = []
        strongest = int(whole.weights[row].argmax()) if whole.weights.shape[1] else -1
        for column, weight in enumerate(whole.weights[row].tolist()):
            if weight >= FAINTEST or column == strongest:
                lines.append(_ribbon(above[column], x, weight, f"{whole.rows[row]} → {whole.columns[column]}"))
        parts.append(f'<g class="row">{"".join(lines)}{_target_word(look.target.units[row], x, likely[row])}</g>')
    return _svg(width, "".join(parts), f"{look.source.text} → {look.target.text}")


def _bottleneck(look: Look) -> str:
    """All words into one block, and out of it."""
    likely = [_candidates(look, number) for number in range(len(look.target.units))]
    source, target = _widths(look.source), _target_widths(look.target, likely)
    width = max(_extent(source), _extent(target))
    above, below = _centres(source, width), _centres(target, width)
    neck = min(60.0, 0.4 * width)
    left, right, middle = width / 2 - neck / 2, width / 2 + neck / 2, (SOURCE + TARGET) / 2
    funnel = [
        f"{EDGE:.1f},{SOURCE + 10}",
        f"{width - EDGE:.1f},{SOURCE + 10}",
        f"{right:.1f},{middle - 12}",
        f"{right:.1f},{middle + 12}",
        f"{width - EDGE:.1f},{TARGET - 20}",
        f"{EDGE:.1f},{TARGET - 20}",
        f"{left:.1f},{middle + 12}",
        f"{left:.1f},{middle - 12}",
    ]
    parts = [f'<polygon points="{" ".join(funnel)}" fill="{BLUE}" fill-opacity="0.18"/>']
    parts.append(
        f'<rect x="{left:.1f}" y="{middle - 12}" width="{neck:.1f}" height="24" fill="{BLUE}"><title>'
        f"one vector of {look.dimensions.summary} numbers</title></rect>"
    )
    parts += [_source_word(unit, x) for unit, x in zip(look.source.units, above, strict=True)]
    parts += [_target_word(*each) for each in zip(look.target.units, below, likely, strict=True)]
    return _svg(width, "".join(parts), f"{look.source.text} → {look.target.text}")


def _thumbnails(look: Look) -> str:
    """The image for each word of a caption, veiled where the word did not look."""
    assert look.image is not None
    image, maps = look.image, word_maps(look)
    tall = THUMBNAIL * image.height / image.width
    parts = []
    for number, (unit, weights) in enumerate(zip(look.target.units, maps, strict=True)):
        if number == MOST_THUMBNAILS:
            break
        x = EDGE + number * (THUMBNAIL + 8)
        veil = 0.75 * (1 - weights / max(float(weights.max()), 1e-12))
        across, down = THUMBNAIL / image.columns, tall / image.rows
        cells = "".join(
            f'<rect x="{x + column * across:.1f}" y="{30 + row * down:.1f}" width="{across + 0.2:.1f}" '
            f'height="{down + 0.2:.1f}" fill="#000" fill-opacity="{veil[row, column]:.2f}"/>'
            for row, column in np.ndindex(*veil.shape)
        )
        parts.append(
            f'<image x="{x:.1f}" y="30" width="{THUMBNAIL}" height="{tall:.1f}" preserveAspectRatio="none" '
            f'href="data:image/png;base64,{image.png}"/>{cells}'
            f'<text x="{x + THUMBNAIL / 2:.1f}" y="20" font-size="{SIZE}">{escape(unit.text)}</text>'
        )
    width = EDGE + len(parts) * (THUMBNAIL + 8)
    return _svg(width, "".join(parts), look.target.text, 36 + tall)


def _svg(width: float, body: str, label: str, height: float = HEIGHT) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(label)}">{body}</svg>'
    )


def _widths(side: Side) -> list[float]:
    return [max(NARROWEST, text_width(_plain(unit.text), SIZE)) for unit in side.units]


def _target_widths(side: Side, likely: Sequence[Sequence[tuple[str, bool]]]) -> list[float]:
    """Widths that have room for the candidates too."""
    return [
        max([width, *(text_width(text, SMALL) for text, _ in each)])
        for width, each in zip(_widths(side), likely, strict=True)
    ]


def _extent(widths: Sequence[float]) -> float:
    return sum(widths) + GAP * max(len(widths) - 1, 0) + 2 * EDGE


def _centres(widths: Sequence[float], width: float) -> list[float]:
    """The middles of words that are spread over the whole width."""
    gap = GAP + (width - _extent(widths)) / max(len(widths), 1)
    centres, left = [], EDGE + (gap - GAP) / 2
    for each in widths:
        centres.append(left + each / 2)
        left += each + gap
    return centres


def _ribbon(start: float, end: float, weight: float, label: str) -> str:
    top, bottom = SOURCE + 10, TARGET - 20
    middle = (top + bottom) / 2
    curve = f"M{start:.1f} {top}C{start:.1f} {middle} {end:.1f} {middle} {end:.1f} {bottom}"
    return (
        f'<path d="{curve}" stroke="{BLUE}" stroke-width="{max(1.0, WIDEST * weight):.1f}" '
        f'stroke-opacity="{0.25 + 0.55 * min(weight, 1.0):.2f}"><title>{escape(label)} {weight:.2f}</title></path>'
    )


def _source_word(unit: Unit, x: float) -> str:
    reason = "" if unit.unfamiliar is None else f"<title>{REASONS[unit.unfamiliar]}</title>"
    dots = f' text-decoration="underline" style="text-decoration:underline dotted {ORANGE} 2px"' if reason else ""
    return f'<text x="{x:.1f}" y="{SOURCE}" font-size="{SIZE}"{dots}>{reason}{escape(_plain(unit.text))}</text>'


def _target_word(unit: Unit, x: float, candidates: Sequence[tuple[str, bool]]) -> str:
    """The word, underlined by its probability, and the most probable pieces in its place."""
    known = unit.probability is not None
    bar = (
        f'<rect x="{x - 12:.1f}" y="{TARGET + 5}" width="{24 * (unit.probability or 0):.1f}" height="3" rx="1.5" '
        f'fill="{BLUE if (unit.probability or 0) >= 0.5 else ORANGE}"/>'
        if known
        else ""
    )
    title = f"<title>probability {unit.probability:.2f}</title>" if known else ""
    word = f'<text class="chosen" x="{x:.1f}" y="{TARGET}" font-size="{SIZE}">{title}{escape(_plain(unit.text))}</text>'
    others = "".join(
        f'<text x="{x:.1f}" y="{CANDIDATES + rank * LINE}" font-size="{SMALL}" opacity="{0.95 if chosen else 0.65}">'
        f"{escape(text)}</text>"
        for rank, (text, chosen) in enumerate(candidates)
    )
    return f"{word}{bar}{others}"


def _candidates(look: Look, unit: int) -> list[tuple[str, bool]]:
    """The candidates at the first piece of a unit, and whether each was chosen."""
    first = next((place for place, piece in enumerate(look.target.pieces) if piece.unit == unit), None)
    if first is None or first >= len(look.steps):
        return []
    step = look.steps[first]
    return [
        (f"{_plain(each.piece.replace('▁', ' ').strip() or each.piece)} {each.probability:.2f}", each.id == step.id)
        for each in step.candidates[:SHOWN]
        if each.probability >= LEAST or each.id == step.id
    ]


def _plain(text: str) -> str:
    return "".join(character if character.isprintable() else "�" for character in text)
