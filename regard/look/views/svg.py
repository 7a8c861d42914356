"""Elements of a diagram in SVG: lines with round corners, texts with subscripts, colours for light and dark pages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from html import escape

Point = tuple[float, float]

CORNER = 7
ROLE_NAMES = {
    "input": "input",
    "recurrent": "state → next state",
    "self": "self-attention",
    "start": "starts the decoder",
    "keys": "keys and values",
    "query": "query",
    "centre": "window's centre",
    "context": "context",
    "feeding": "input feeding",
    "residual": "residual",
}

# colour of each class on a light and on a dark page
COLOURS = {
    "page": ("#ffffff", "#10171f"),
    "ink": ("#1f2b37", "#e3eaf1"),
    "muted": ("#5d6a77", "#a3b0bd"),
    "word": ("#f0f2f5", "#1e2934"),
    "word-line": ("#c3cad2", "#445361"),
    "encoder": ("#e5eefa", "#1b2f49"),
    "encoder-line": ("#4176b5", "#78a8de"),
    "decoder": ("#fcefdf", "#3a2a18"),
    "decoder-line": ("#c07a2c", "#dfa05c"),
    "attend": ("#dff3ee", "#12352f"),
    "attend-line": ("#148a76", "#4fc3ae"),
    "input": ("#66737f", "#9aa8b5"),
    "recurrent": ("#1f2b37", "#e3eaf1"),
    "self": ("#7556bf", "#b49cf2"),
    "start": ("#7556bf", "#b49cf2"),
    "keys": ("#148a76", "#4fc3ae"),
    "rail": ("#a9dccf", "#1f5a4f"),
    "query": ("#cc3d50", "#ff8b98"),
    "centre": ("#cc3d50", "#ff8b98"),
    "context": ("#1a68c7", "#72adf6"),
    "feeding": ("#a8338f", "#ea8ad6"),
    "residual": ("#85741a", "#d9c75c"),
}
DASHES = {"start": "7 4", "feeding": "3 4"}


def line(points: Sequence[Point], role: str, arrow: bool = True, *, name: str = "", prefix: str = "") -> str:
    """A line through the points in its role's colour and dash, with the id `name`."""
    head = f' marker-end="url(#{prefix}arrow.{role})"' if arrow else ""
    own = f' id="{prefix}{name}"' if name else ""
    return f'<path{own} class="line {role}" d="{rounded(points, CORNER)}"{head}/>'


def rounded(points: Sequence[Point], radius: float) -> str:
    """A path through the points with round corners."""
    points = [point for place, point in enumerate(points) if place == 0 or point != points[place - 1]]
    parts = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        near = min(radius, _distance(before, corner) / 2, _distance(corner, after) / 2)
        start, end = _towards(corner, before, near), _towards(corner, after, near)
        parts.append(f"L{start[0]:.1f} {start[1]:.1f}Q{corner[0]:.1f} {corner[1]:.1f} {end[0]:.1f} {end[1]:.1f}")
    parts.append(f"L{points[-1][0]:.1f} {points[-1][1]:.1f}")
    return "".join(parts)


def _distance(start: Point, end: Point) -> float:
    return abs(start[0] - end[0]) + abs(start[1] - end[1])  # the lines are orthogonal


def _towards(start: Point, end: Point, length: float) -> Point:
    whole = _distance(start, end) or 1.0
    return (start[0] + (end[0] - start[0]) * length / whole, start[1] + (end[1] - start[1]) * length / whole)


def _pieces(text: str) -> list[tuple[str, str]]:
    """The text as (place, piece): "" on the line, "_" below it, "^" above it; a backslash takes the sign away."""
    found = re.findall(r"\\(.)|([_^])(?:\{([^}]*)\}|(.))|([^\\_^]+|.)", text, re.DOTALL)
    return [(mark, plain or escaped or group or single) for escaped, mark, group, single, plain in found]


def plain_text(text: str) -> str:
    """The text without its marks."""
    return "".join(piece for _, piece in _pieces(text))


def text_width(text: str, size: float) -> float:
    """About how many pixels a text takes in a sans-serif font."""
    total = 0.0
    for place, piece in _pieces(text):
        for character in piece:
            if unicodedata.combining(character):
                continue
            em = 1.0 if unicodedata.east_asian_width(character) in "WF" else 0.52
            total += em * size * (0.79 if place else 1.0)
    return total


def fit(text: str, room: float) -> str:
    """The text, cut with an ellipsis if it is wider than `room` pixels."""
    if text_width(text, 14) <= room:
        return text
    kept = plain_text(text)
    while kept and text_width(kept.replace("_", "\\_") + "…", 14) > room:
        kept = kept[:-1]
    return re.sub(r"([\\_^])", r"\\\1", kept) + "…"


def text_element(x: float, y: float, text: str, look: str) -> str:
    """A text with sub- and superscripts; `dy` is understood by every viewer, `baseline-shift` is not."""
    parts, raised = [], 0.0
    for place, piece in _pieces(text):
        height = {"_": 3.5, "^": -5.0}.get(place, 0.0)
        shift = f' dy="{height - raised:g}"' if height != raised else ""
        size = ' class="script"' if place else ""
        clean = "".join(sign if sign.isprintable() else "�" for sign in piece)
        parts.append(f"<tspan{shift}{size}>{escape(clean)}</tspan>")
        raised = height
    return f'<text class="{look}" x="{x:.1f}" y="{y:.1f}" xml:space="preserve">{"".join(parts)}</text>'


def marker_elements(prefix: str = "") -> str:
    """The arrow heads."""
    heads = [
        f'<marker id="{prefix}arrow.{role}" viewBox="0 0 8 8" refX="7.2" refY="4" markerWidth="8" markerHeight="8" '
        f'markerUnits="userSpaceOnUse" orient="auto"><path class="head {role}" d="M0 0.6L8 4L0 7.4z"/></marker>'
        for role in ROLE_NAMES
    ]
    return "<defs>" + "".join(heads) + "</defs>"


def diagram_style() -> str:
    """The style sheet of diagrams, for elements inside `.diagram`; a dark page changes only the variables."""

    def variables(shade: int) -> str:
        return "".join(f"--{name}:{pair[shade]};" for name, pair in COLOURS.items())

    rules = {
        ".page": "fill:var(--page)",
        "text": "font:14px 'Helvetica Neue',Helvetica,Arial,'Noto Sans','DejaVu Sans',sans-serif;fill:var(--ink)",
        ".title": "font-size:20px;font-weight:600",
        ".note": "fill:var(--muted)",
        ".script": "font-size:11px",
        ".inside": "text-anchor:middle",
        ".small": "font-size:11px;text-anchor:middle;fill:var(--muted)",
        ".label": "font-size:13px;fill:var(--muted)",
        ".legend": "font-size:13px;fill:var(--muted)",
        ".encoder-label": "text-anchor:end",
        ".rail-label": "font-size:12px;fill:var(--keys)",
        ".box": "stroke-width:1.3",
        ".line": "fill:none;stroke-linejoin:round;stroke-width:1.5",
        ".halo": "fill:none;stroke-linejoin:round;stroke:var(--page);stroke-width:4.5",
        ".rail": "fill:none;stroke-linejoin:round;stroke:var(--rail);stroke-width:7;stroke-linecap:round",
    }
    rules |= {
        f".box.{look}": f"fill:var(--{look});stroke:var(--{look}-line)"
        for look in ("word", "encoder", "decoder", "attend")
    }
    for role in ROLE_NAMES:
        dash = f";stroke-dasharray:{DASHES[role]}" if role in DASHES else ""
        rules |= {f".line.{role}": f"stroke:var(--{role}){dash}", f".head.{role}": f"fill:var(--{role})"}
    return "\n".join(
        [
            f".diagram{{{variables(0)}}}",
            f"@media (prefers-color-scheme: dark){{.diagram{{{variables(1)}}}}}",
            *(f".diagram {selector}{{{body}}}" for selector, body in rules.items()),
        ]
    )
