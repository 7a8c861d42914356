"""Attention in the terminal: a matrix of target words (rows) by source words (columns).

The source words stand above their columns as a staircase, so that every word is read from left to right:

              the
              │   black
              │   │     cat
    le        ███ ·     ·

A weight is a shade, which blends with any background, light or dark; colour only adds to it. Everything is measured in
terminal cells, so Hangul, Chinese, emoji and combining marks keep the columns straight, and no line is ever wider than
the window: columns become narrower first, then the matrix is split.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text

from regard.errors import NoAttention

if TYPE_CHECKING:
    from regard.look.maps import Choice, Map
    from regard.look.record import Look

Weights = NDArray[np.floating]

SHADES = ((0.75, "█"), (0.5, "▓"), (0.25, "▒"), (0.05, "░"))  # from this weight on
FAINT = "·"
WIDEST_COLUMN, NARROWEST_COLUMN, SPLIT_COLUMN = 7, 2, 4
MEASURE = 5  # cells of an entropy at the end of a row
LONGEST_WORD = 18  # cells; longer ones are cut with an ellipsis
SMALLEST_WIDTH = 16
# Mid-tones, legible on white and on black alike.
LOW_COLOUR, HIGH_COLOUR = (116, 138, 160), (226, 88, 34)


def attention_table(
    weights: Weights,
    source_words: Sequence[str],
    target_words: Sequence[str],
    *,
    width: int = 80,
    colour: bool = True,
    digits: bool = False,
    entropy: Weights | None = None,
    coverage: Weights | None = None,
) -> Text:
    """The weights (T, S) as lines of at most `width` cells; `digits` writes tenths in ASCII instead of shades.

    `entropy` (T,) ends each row, and `coverage` (S,) stands below the columns.
    """
    weights = np.asarray(weights)
    if weights.shape != (len(target_words), len(source_words)):
        raise ValueError(
            f"weights {weights.shape} do not fit {len(target_words)} target and {len(source_words)} source words"
        )
    width = max(width, SMALLEST_WIDTH)
    ellipsis = "~" if digits else "…"
    longest_label = min(LONGEST_WORD, width // 3)
    labels = [shorten(word, longest_label, ellipsis) for word in target_words]
    margin = max((cell_len(label) for label in labels), default=0) + 1
    room = width - margin - (0 if entropy is None else MEASURE)
    heads = [shorten(word, min(LONGEST_WORD, room), ellipsis) for word in source_words]
    lines: list[Text] = []
    for columns, pitch in _panels(heads, room, NARROWEST_COLUMN if coverage is None else SPLIT_COLUMN):
        if lines:
            lines.append(Text())
        lines += _header([heads[column] for column in columns], pitch, margin, "|" if digits else "│")
        for number, (label, row) in enumerate(zip(labels, weights, strict=True)):
            line = Text(set_cell_size(label, margin))
            for column in columns:
                line.append_text(_cell(float(row[column]), pitch, colour, digits))
            if entropy is None:
                line.rstrip()
            else:
                line.append(f"{entropy[number]:{MEASURE}.1f}", "dim")
            lines.append(line)
        if coverage is not None:
            shares = "".join(f"{coverage[column]:.1f}".ljust(pitch) for column in columns)
            lines.append(Text((" " * margin + shares).rstrip()[:width], "dim"))
    lines += _legend(width, colour, digits)
    if entropy is not None:
        lines += _explanation(width)
    table = Text("\n", no_wrap=True, overflow="ignore", end="").join(lines)
    table.no_wrap, table.overflow = True, "ignore"
    return table


def map_table(
    drawn: Map, *, width: int = 80, colour: bool = True, digits: bool = False, measures: bool = False
) -> Text:
    """One map; `measures` adds the entropy of each row, in bits, and the coverage of each column."""
    return attention_table(
        drawn.weights,
        drawn.columns,
        drawn.rows,
        width=width,
        colour=colour,
        digits=digits,
        entropy=drawn.entropy if measures else None,
        coverage=drawn.coverage if measures else None,
    )


def look_table(
    look: Look,
    choice: Choice | None = None,
    *,
    width: int = 80,
    colour: bool = True,
    digits: bool = False,
    measures: bool = False,
) -> Text:
    """All chosen maps of a look, one below the other, and notes; of a model without attention its fixed vector."""
    from regard.look.maps import Choice, maps_of
    from regard.look.views.notes import notes

    choice = choice or Choice()
    parts: list[Text] = []
    if look.fixed_vector is not None and choice.is_alignment:
        parts += [vector_table(look, width=width, colour=colour, digits=digits), Text()]
    else:
        for drawn in maps_of(look, choice):
            if drawn.name:
                parts += [Text(f"{choice.kind or 'cross'}, {drawn.name}", "bold"), Text()]
            parts += [map_table(drawn, width=width, colour=colour, digits=digits, measures=measures), Text()]
    below = [Text(shorten(line, width, "~" if digits else "…"), "dim") for line in notes(look)]
    table = Text("\n", no_wrap=True, overflow="ignore", end="").join([*parts, *below] if below else parts[:-1])
    table.no_wrap, table.overflow = True, "ignore"
    return table


def vector_table(look: Look, *, width: int = 80, colour: bool = True, digits: bool = False) -> Text:
    """The fixed vector of a model without attention, as shades of its absolute values."""
    if look.fixed_vector is None:
        raise NoAttention(f"{look.model.name} tells neither attention nor the vector that starts its decoder.")
    size, shown = look.dimensions.summary, look.fixed_vector
    table = Text(no_wrap=True, overflow="ignore", end="")
    table.append(f"no attention: the encoder compresses the {len(look.source.pieces)} source subwords into one fixed\n")
    table.append(f"vector of {size} numbers. The shade shows the absolute value of {len(shown)} of them:\n\n", "dim")
    largest = max(map(abs, shown)) or 1.0
    for start in range(0, len(shown), max(width - 2, 1)):
        table.append("  ")
        for number in shown[start : start + max(width - 2, 1)]:
            table.append_text(_cell(abs(number) / largest, 1, colour, digits))
        table.append("\n")
    table.rstrip()
    return table


def shorten(word: str, cells: int, ellipsis: str = "…") -> str:
    """The word without control characters, truncated to `cells` terminal cells."""
    safe = "".join(_visible(character) for character in word) or "·"
    if cell_len(safe) <= cells:
        return safe
    return set_cell_size(safe, max(cells - 1, 0)).rstrip() + ellipsis


def _visible(character: str) -> str:
    category = unicodedata.category(character)
    if category in ("Cc", "Zl", "Zp", "Cs", "Co", "Cn"):
        return "�"  # it would move the cursor or has no known width
    if category == "Cf" and character not in "\u200c\u200d":
        return ""  # direction marks would reorder the columns
    return " " if character.isspace() else character


def _panels(heads: Sequence[str], room: int, narrowest: int) -> list[tuple[range, int]]:
    """The columns of each panel and their pitch; one panel if the narrowest pitch fits."""
    for pitch in range(WIDEST_COLUMN, narrowest - 1, -1):
        if _extent(heads, pitch) <= room:
            return [(range(len(heads)), pitch)]
    panels: list[tuple[range, int]] = []
    fewest = math.ceil(len(heads) / max(room // SPLIT_COLUMN - 1, 1))
    balanced = math.ceil(len(heads) / fewest)
    start = 0
    while start < len(heads):
        stop = min(start + balanced, len(heads))
        while stop > start + 1 and _extent(heads[start:stop], SPLIT_COLUMN) > room:
            stop -= 1
        panels.append((range(start, stop), min(SPLIT_COLUMN, room)))
        start = stop
    return panels


def _extent(heads: Sequence[str], pitch: int) -> int:
    ends = [column * pitch + max(pitch, cell_len(head)) for column, head in enumerate(heads)]
    return max(ends, default=0)


def _header(heads: Sequence[str], pitch: int, margin: int, stem: str) -> list[Text]:
    """The staircase: a word stands above every later word whose column it would cover."""
    levels = [0] * len(heads)
    for column in reversed(range(len(heads))):
        reach = math.ceil((cell_len(heads[column]) + 1) / pitch)
        covered = levels[column + 1 : column + reach]
        levels[column] = 1 + max(covered) if covered else 0
    lines = []
    for level in range(max(levels, default=0), -1, -1):
        line = Text(" " * margin)
        for column, head in enumerate(heads):
            if levels[column] < level:
                continue
            line.append(" " * (margin + column * pitch - cell_len(line.plain)))
            line.append(head if levels[column] == level else stem, "bold" if levels[column] == level else "dim")
        lines.append(line)
    return lines


def _cell(weight: float, pitch: int, colour: bool, digits: bool) -> Text:
    ink = max(pitch - 1, 1) if pitch > NARROWEST_COLUMN or digits else pitch
    if digits:
        tenths = min(round(weight * 10), 9)
        return Text(f"{tenths if tenths else '.'}".ljust(pitch), "" if tenths else "dim")
    shade = next((shade for least, shade in SHADES if weight >= least), None)
    if shade is None:
        return Text(FAINT.ljust(pitch), "dim")
    return Text((shade * ink).ljust(pitch), _style(weight) if colour else "")


def _style(weight: float) -> Style:
    share = min(max(weight, 0.0), 1.0)
    mixed = [round(low + (high - low) * share) for low, high in zip(LOW_COLOUR, HIGH_COLOUR, strict=True)]
    return Style(color=f"rgb({mixed[0]},{mixed[1]},{mixed[2]})")


def _explanation(width: int) -> list[Text]:
    """What the numbers beside and below the matrix are: on one line if there is room, else on two."""
    right, bottom = "right: entropy of each row (bits)", "bottom: coverage of each source word (column sum)"
    lines = [f"{right}; {bottom}"] if cell_len(f"{right}; {bottom}") <= width else [right, bottom]
    return [Text(line, "dim") for line in lines if cell_len(line) <= width]


def _legend(width: int, colour: bool, digits: bool) -> list[Text]:
    if digits:
        legend = Text("weights in tenths; . is less than one half of a tenth", "dim")
    else:
        legend = Text()
        for least, shade in reversed(SHADES):
            legend.append(shade * 2, _style(least) if colour else "")
            legend.append(f" ≥ {least:.0%}   ".replace("%", " %"), "dim")
        legend.rstrip()
    return [Text(), legend] if cell_len(legend.plain) <= width else []
