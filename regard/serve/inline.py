"""Inline HTML elements on their way through a model: a sentence is translated whole, and attention says where they go.

An element goes around the words of the translation that looked most at its words. That is only done where it is clear:
these words stand side by side, elements lie in one another as they did, and none begins or ends within a word.
Elsewhere the text inside and outside of the elements is translated apart, as it is for a model without attention.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from regard.serve.sentences import Links, Part, around_placeholders, split_line
from regard.serve.tags import Tag

_NAMES = "a abbr b bdi big cite del dfn em font i ins label mark q s small span strike strong sub sup u"
INLINE = frozenset(_NAMES.split())

# beyond any character; `html.unescape` would raise for thousands of digits
_HUGE_REFERENCE = re.compile(r"&#(?:[1-9][0-9]{8,}+|[xX][1-9a-fA-F][0-9a-fA-F]{8,}+);?|&#[xX]?0{8,}+[0-9a-fA-F]*+;?")


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
        placing = _Placing(self.text, translation, links)
        spans = [placing.span(element) for element in self.elements]
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


def plain_text(source: str) -> str:
    """The text that HTML without tags stands for."""
    return html.unescape(_HUGE_REFERENCE.sub("\ufffd", source))


def read_run(run: Sequence[str | Tag]) -> list[Part] | None:
    """The parts of text with inline tags; None where tags do not match, hold nothing, or span several sentences."""
    texts: list[str] = []
    length, ends_with_space = 0, True  # of the text so far
    places: list[tuple[Tag, Tag, int, int] | None] = []  # the tags of each element, and where they stand
    open_tags: list[tuple[Tag, int, int]] = []
    for item in run:
        if isinstance(item, str):
            plain = re.sub(r"\s+", " ", plain_text(item))
            texts.append(plain.lstrip() if ends_with_space else plain)
            length += len(texts[-1])
            ends_with_space = texts[-1].endswith(" ") if texts[-1] else ends_with_space
        elif not item.is_end:
            open_tags.append((item, length, len(places)))
            places.append(None)
        else:
            if not open_tags or open_tags[-1][0].name != item.name:
                return None
            opening, start, number = open_tags.pop()
            places[number] = opening, item, start, length
    text = "".join(texts)
    elements = [_element(text, *place) for place in places if place is not None]
    if open_tags or any(element.start >= element.end for element in elements):
        return None
    return _shared_out(text.rstrip(), elements)


def _element(text: str, opening: Tag, closing: Tag, start: int, end: int) -> Element:
    """An element without the space at its ends, of which there is at most one sign."""
    first = start + (text[start : start + 1] == " ")
    last = end - (text[end - 1 : end] == " ")
    return Element(opening.text, closing.text, first, last)


def _shared_out(text: str, elements: Sequence[Element]) -> list[Part] | None:
    """The sentences of a text, each with its elements, which stand in the order of their starts."""
    parts: list[Part] = []
    start, number = 0, 0
    for part in split_line(text):
        end = start + len(part.text)
        own: list[Element] = []
        while number < len(elements) and elements[number].start < end:
            each = elements[number]
            if not part.translate or each.end > end:
                return None
            own.append(Element(each.opening, each.closing, each.start - start, each.end - start))
            number += 1
        parts += [MarkedPart(part.text, True, tuple(own))] if own else escaped([part])
        start = end
    return parts if number == len(elements) else None


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


class _Placing:
    """Where the elements of a sentence go in its translation.

    The words of an element are a range, found by bisection; elements of the same range have the same place. A sentence
    has at most LONGEST_SENTENCE characters, so that the ranges of words and their links are bounded.
    """

    def __init__(self, text: str, translation: str, links: Links) -> None:
        self._words = [word for word in enumerate(_words(text)) if word[1][2] < word[1][3]]  # those with letters
        self._firsts = [word[2] for _, word in self._words]
        self._lasts = [word[3] for _, word in self._words]
        self._others = _words(translation)
        self._links: defaultdict[int, set[int]] = defaultdict(set)
        for source, target in links:
            self._links[source].add(target)
        self._known: dict[tuple[int, int], tuple[int, int] | None] = {}

    def span(self, element: Element) -> tuple[int, int] | None:
        """The characters of the translation that an element goes around; None where that is not clear."""
        inside = bisect_left(self._firsts, element.start), bisect_right(self._lasts, element.end)
        touched = bisect_right(self._lasts, element.start), bisect_left(self._firsts, element.end)
        if inside[0] >= inside[1] or touched != inside:
            return None
        if inside not in self._known:
            self._known[inside] = self._choose(*inside)
        chosen = self._known[inside]
        if chosen is None:
            return None
        first, last = self._others[chosen[0]], self._others[chosen[1]]
        # punctuation that stood outside of the element stays outside
        begins = first[0] if element.start <= self._words[inside[0]][1][0] else first[2]
        ends = last[1] if element.end >= self._words[inside[1] - 1][1][1] else last[3]
        return (begins, ends) if begins < ends else None

    def _choose(self, start: int, end: int) -> tuple[int, int] | None:
        """The first and the last word of the translation for a range of words; None if others stand between them."""
        if (start, end) == (0, len(self._words)):
            chosen = {number for number, word in enumerate(self._others) if word[2] < word[3]}
        else:
            chosen = {target for number, _ in self._words[start:end] for target in self._links[number]}
        chosen &= set(range(len(self._others)))
        if not chosen:
            return None
        first, last = min(chosen), max(chosen)
        missing = (self._others[number] for number in range(first, last) if number not in chosen)
        return None if any(word[2] < word[3] for word in missing) else (first, last)


def _nested_alike(elements: Sequence[Element], spans: Sequence[tuple[int, int]]) -> bool:
    """Whether elements lie in one another, or apart, as they did; they stand in the order of their starts."""
    enclosing: list[int] = []
    siblings: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for number, (element, span) in enumerate(zip(elements, spans, strict=True)):
        while enclosing and elements[enclosing[-1]].end <= element.start:
            enclosing.pop()
        parent = enclosing[-1] if enclosing else -1
        if enclosing and not (spans[parent][0] <= span[0] and span[1] <= spans[parent][1]):
            return False
        siblings[parent].append(span)
        enclosing.append(number)
    for group in siblings.values():
        group.sort()
        if any(left[1] > right[0] for left, right in pairwise(group)):
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
