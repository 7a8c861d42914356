"""The keys of a step and the terms of its scores, for the animation: they are seen with the scores, and pass.

Below the scores stands one strip for each key, one for its terms, and the score of the most attended piece written out.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from regard.look.record import AttentionStep, HeadKeys, Look
from regard.look.steps import FORMULAS
from regard.look.views.gif import Mark
from regard.look.views.heatmap import MUTED

KEYS, TERMS, SUM, STRIP = 236.0, 316.0, 404.0, 64.0  # upper edges, and the height of a strip
LEFT, WRITTEN = 132.0, 4  # terms that are written out


NAMES = {  # of query and key as they meet in the score
    "general": ("q", "W k"),
    "additive": ("W q", "U k"),
    "concat": ("W₁ q", "W₂ k"),
    "location": ("q", "Wⱼ"),
    "cosine": ("q / |q|", "k / |k|"),
}


def score_of(look: Look) -> str:
    """The name of the score; Luong writes the additive one as concat."""
    return "concat" if look.model.score == "additive" and look.model.kind == "luong" else look.model.score or ""


def terms_at(trace: AttentionStep, keys: HeadKeys, position: int) -> list[float]:
    """The terms of a position's score at the shown dimensions."""
    assert trace.asked is not None
    numbers = zip(keys.factor, trace.asked, keys.keys[position], strict=True)
    return [factor * (math.tanh(query + key) if keys.additive else query * key) for factor, query, key in numbers]


def term_marks(
    look: Look, trace: AttentionStep, centre: Callable[[float], float], width: float, share: float
) -> list[Mark]:
    """Keys and terms under the columns; once they have come, the sum of the most attended piece."""
    keys = look.keys_of(trace)
    if keys is None or trace.asked is None or trace.rest is None:
        return []
    terms = [terms_at(trace, keys, position) for position in range(len(trace.scores))]
    query, key = NAMES.get(score_of(look), ("q", "k"))
    marks = [
        Mark.text_at(LEFT - 14, KEYS + STRIP / 2, f"keys {key}", size=12, colour=MUTED, anchor="right"),
        Mark.text_at(LEFT - 14, TERMS + STRIP / 2, "terms", size=12, colour=MUTED, anchor="right"),
        *_strip(38.0, KEYS, 18.0, trace.asked, _largest([trace.asked]), "asked"),
        Mark.text_at(38, KEYS + STRIP + 10, query, size=11, colour=MUTED),
    ]
    largest_key, largest_term = _largest(keys.keys), _largest(terms)
    shown = round(len(terms) * share)
    for position in range(shown):
        if trace.scores[position] is None:
            continue
        marks += _strip(centre(position), KEYS, width, keys.keys[position], largest_key, f"key[{position}]")
        marks += _strip(centre(position), TERMS, width, terms[position], largest_term, f"term[{position}]")
    return [*marks, *_written(look, trace, keys, terms)] if share == 1.0 else marks


def _strip(x: float, top: float, width: float, numbers: list[float], largest: float, what: str) -> list[Mark]:
    height = STRIP / len(numbers)
    return [
        Mark.cell(x - width / 2, top + i * height, width, height, number / largest, number, f"{what}[{i}]")
        for i, number in enumerate(numbers)
    ]


def _written(look: Look, trace: AttentionStep, keys: HeadKeys, terms: list[list[float]]) -> list[Mark]:
    """The formula, and its largest terms with the sum of all others."""
    best = max(range(len(terms)), key=trace.weights.__getitem__)
    score, rest = trace.scores[best], (trace.rest or [])[best]
    if score is None or rest is None:
        return []
    ranked = sorted(terms[best], key=abs, reverse=True)
    first, others = ranked[:WRITTEN], sum(ranked[WRITTEN:]) + rest
    count = keys.size - len(first)
    text = " ".join(f"{'−' if number < 0 else '+'} {abs(number):.2f}" for number in first).removeprefix("+ ")
    if count > 0:
        text += f" {'−' if others < 0 else '+'} {abs(others):.2f} ({count} other dimensions)"
    formula = FORMULAS.get(score_of(look), "")
    piece = "" if look.image is not None else f" of {look.source.pieces[best].surface}"
    return [
        Mark.text_at(LEFT, SUM, f"score{piece} = {formula}", size=13, anchor="left", what="formula"),
        Mark.text_at(LEFT, SUM + 22, f"= {text} = {_signed(score)}", size=13, anchor="left", what=f"sum[{best}]"),
    ]


def _signed(number: float) -> str:
    return f"{number:.2f}".replace("-", "−")


def _largest(rows: list[list[float]]) -> float:
    return max((abs(number) for row in rows for number in row), default=1.0) or 1.0
