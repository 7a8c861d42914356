"""Inline HTML elements on their way through a model: a sentence is translated whole, and attention says where they go.

An element goes around the words of the translation that looked most at its words. That is only done where it is clear:
these words stand side by side, elements lie in one another as they did, and none begins or ends within a word.
Elsewhere the text inside and outside of the elements is translated apart, as it is for a model without attention.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

from regard.serve.sentences import Links, Part, around_placeholders, split_line

_NAMES = "a abbr b bdi big cite del dfn em font i ins label mark q s small span strike strong sub sup u"
INLINE = frozenset(_NAMES.split())


@dataclass(frozen=True)
class Element:
    """An inline element: its tags, and the characters of the text that stand in it."""

    opening: str
    closing: str
    start: int
    end: int


@dataclass(frozen=True)
class MarkedPart(Part):
    """A sentence with inline elements in it, outer ones first."""

    elements: tuple[Element, ...] = ()

    def placed(self, translation: str, links: Links) -> str | None:
        """The translation as HTML, with the elements around their words; None where it is not clear which those are."""
        words, others = _words(self.text), _words(translation)
        spans = [_span(element, words, others, links, translation) for element in self.elements]
        known = [span for span in spans if span is not None]
        if len(known) < len(spans) or not _nested_alike(self.elements, known):
            return None
        return _written(translation, self.elements, known)

    def pieces(self) -> list[Part]:
        """The tags, and the text between them to be translated by itself."""
        tags = sorted(_tags(self.elements))
        starts = [0, *(place for place, _, _ in tags)]
        ends = [*(place for place, _, _ in tags), len(self.text)]
        parts: list[Part] = []
        for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
            parts += escaped(around_placeholders(self.text[start:end]))
            if number < len(tags):
                parts.append(Part(tags[number][2], False))
        return parts


def escaped(parts: Sequence[Part]) -> list[Part]:
    """The parts, with what is kept of them written as HTML."""
    return [part if part.translate else Part(html.escape(part.text, quote=False), False) for part in parts]


def read_run(run: Sequence[str | re.Match[str]]) -> list[Part] | None:
    """The parts of text with inline tags; None where tags do not match, hold nothing, or span several sentences."""
    text = ""
    elements: list[Element] = []
    open_tags: list[tuple[re.Match[str], int, int]] = []
    for item in run:
        if isinstance(item, str):
            plain = re.sub(r"\s+", " ", html.unescape(item))
            text += plain.lstrip() if not text or text.endswith(" ") else plain
        elif not item[1]:
            open_tags.append((item, len(text), len(elements)))
            elements.append(Element(item.group(), "", 0, 0))
        else:
            if not open_tags or open_tags[-1][0][2].lower() != item[2].lower():
                return None
            _, start, number = open_tags.pop()
            inside = text[start:]
            start += len(inside) - len(inside.lstrip())
            elements[number] = Element(elements[number].opening, item.group(), start, len(text.rstrip()))
    if open_tags or any(element.start >= element.end for element in elements):
        return None
    return _shared_out(text.rstrip(), elements)


def _shared_out(text: str, elements: Sequence[Element]) -> list[Part] | None:
    """The sentences of a text, each with its elements."""
    parts: list[Part] = []
    start, placed = 0, 0
    for part in split_line(text):
        end = start + len(part.text)
        own = [each for each in elements if start <= each.start and each.end <= end] if part.translate else []
        moved = tuple(Element(each.opening, each.closing, each.start - start, each.end - start) for each in own)
        parts += [MarkedPart(part.text, True, moved)] if moved else escaped([part])
        placed += len(own)
        start = end
    return parts if placed == len(elements) else None


# --- placing ------------------------------------------------------------------------------------------------------

_Word = tuple[int, int, int, int]
"""Where a word begins and ends, and where its letters and digits do."""


def _words(text: str) -> list[_Word]:
    """The white-space words; those without letters have an empty core."""
    found = []
    for word in re.finditer(r"\S+", text):
        core = [word.start() + place for place, sign in enumerate(word.group()) if sign.isalnum()]
        first, last = (core[0], core[-1] + 1) if core else (word.start(), word.start())
        found.append((word.start(), word.end(), first, last))
    return found


def _span(
    element: Element, words: Sequence[_Word], others: Sequence[_Word], links: Links, translation: str
) -> tuple[int, int] | None:
    """The characters of the translation that an element goes around."""
    real = {number for number, word in enumerate(words) if word[2] < word[3]}
    inside = {number for number in real if element.start <= words[number][2] and words[number][3] <= element.end}
    touched = {number for number in real if element.start < words[number][3] and words[number][2] < element.end}
    if not inside or touched != inside:
        return None
    if inside == real:
        chosen = [number for number, word in enumerate(others) if word[2] < word[3]]
    else:
        chosen = sorted({target for source, target in links if source in inside})
    if not chosen:
        return None
    between = set(range(chosen[0], chosen[-1])) - set(chosen)
    if any(others[number][2] < others[number][3] for number in between):
        return None
    first, last = others[chosen[0]], others[chosen[-1]]
    # punctuation that stood outside of the element stays outside
    begins = first[0] if element.start <= words[min(inside)][0] else first[2]
    ends = last[1] if element.end >= words[max(inside)][1] else last[3]
    return (begins, ends) if begins < ends <= len(translation) else None


def _nested_alike(elements: Sequence[Element], spans: Sequence[tuple[int, int]]) -> bool:
    """Whether elements lie in one another, or apart, as they did."""
    for number, (outer, (start, end)) in enumerate(zip(elements, spans, strict=True)):
        for inner, (first, last) in zip(elements[number + 1 :], spans[number + 1 :], strict=True):
            if inner.start < outer.end:
                if not (start <= first and last <= end):
                    return False
            elif first < end and start < last:
                return False
    return True


def _tags(elements: Sequence[Element]) -> list[tuple[int, tuple[int, int, int], str]]:
    """The tags with their places and their order there: those that close first, the inner ones of them first."""
    tags = []
    for number, each in enumerate(elements):
        tags.append((each.start, (1, -each.end, number), each.opening))
        tags.append((each.end, (0, -each.start, -number), each.closing))
    return tags


def _written(text: str, elements: Sequence[Element], spans: Sequence[tuple[int, int]]) -> str:
    moved = [
        Element(each.opening, each.closing, start, end) for each, (start, end) in zip(elements, spans, strict=True)
    ]
    out, at = [], 0
    for place, _, tag in sorted(_tags(moved)):
        out += [html.escape(text[at:place], quote=False), tag]
        at = place
    return "".join([*out, html.escape(text[at:], quote=False)])
