"""Translations as lines: plain text with columns, n-best lists, or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable

from regard.evaluation.alignment import format_links
from regard.inference.translation import Translation

LineOf = Callable[[int, Translation], str]
"""The output of the line with this number, line end included."""


def json_lines(alignments: bool) -> LineOf:
    """One JSON object a line."""

    def line(number: int, translation: Translation) -> str:
        return json.dumps(translation.to_dict(alignment=alignments), ensure_ascii=False) + "\n"

    return line


def text_lines(n_best: bool, scores: bool, alignments: bool) -> LineOf:
    """Text and columns separated by tabs, or an n-best list with ` ||| ` between its fields."""

    def columns(number: int, translation: Translation) -> str:
        text = translation.text.replace("\t", " ") if scores or alignments else translation.text
        fields = [text]
        if scores:
            fields.append(f"{translation.score:.4f}")
        if alignments:
            fields.append(format_links(translation.links()))
        return "\t".join(fields) + "\n"

    def listed(number: int, translation: Translation) -> str:
        lines = []
        for each in translation.n_best:
            fields = [str(number), each.text, f"{each.score:.4f}"]
            if alignments:
                fields.append(format_links(each.links()))
            lines.append(" ||| ".join(fields) + "\n")
        return "".join(lines)

    return listed if n_best else columns
