"""Inline HTML elements: a run of text and inline tags, split into plain text and a tree of its tags.

The model translates the plain text, sentence by sentence; `placing.py` puts the tree into the translation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from regard.serve.tags import Tag

_NAMES = "a abbr b bdi big cite del dfn em font i ins label mark q s small span strike strong sub sup u"
INLINE = frozenset(_NAMES.split())
INLINE_KEPT = frozenset({"code", "kbd", "samp", "var", "svg", "math"})
"""Inline elements whose content is not translated."""
INLINE_VOID = frozenset({"img", "wbr"})

_SPACES = re.compile(r"\s+")


@dataclass(frozen=True)
class Kept:
    """Inline markup that is not translated: <code>ls</code>, <img>, a comment."""

    text: str
    is_seen: bool = True  # rendered, as <img> is; a comment is not


@dataclass
class Point:
    """Markup without words: its position in the text, and whether it belongs to the word before or after it."""

    markup: str
    place: int
    follows: bool = True
    space_before: bool = False  # of visible markup: keep a space before it
    space_after: bool = False


@dataclass
class Element:
    """An inline element: its tags, its span of characters, and its children."""

    opening: str
    closing: str
    start: int
    end: int
    children: list[Element | Point] = field(default_factory=list)
    segments: list[tuple[int, int]] = field(default_factory=list)  # its own text, outside its children


@dataclass(frozen=True)
class InlineRun:
    """Text with inline tags: the text without them, and the root of their tree."""

    text: str
    root: Element

    @property
    def has_elements(self) -> bool:
        """Whether placing its tags needs a word alignment."""
        return bool(self.root.children)


def read_run(items: Sequence[str | Tag | Kept], *, preformatted: bool = False) -> InlineRun:
    """The run of unescaped texts and the markup between them.

    White space between words is collapsed to one space, unless preformatted; around the run it is kept. If two elements
    overlap without nesting, the inner tags are dropped. An unmatched tag becomes a point.
    """
    reader = _RunReader()
    filled = [number for number, item in enumerate(items) if isinstance(item, str) and item.strip()]
    for number, item in enumerate(items):
        if isinstance(item, Tag):
            reader.add_tag(item)
        elif isinstance(item, Kept):
            reader.add_point(item.text, follows=True, is_seen=item.is_seen)
        elif preformatted or not filled or number < filled[0] or number > filled[-1]:
            reader.add_text(item, item)
        else:
            reader.add_text(item, _collapsed(item, number == filled[0], number == filled[-1], reader.ends_with_space))
    return reader.finish()


def _collapsed(text: str, is_first: bool, is_last: bool, after_space: bool) -> str:
    """The text with white space collapsed, except at the ends of the run."""
    bare = text.strip()
    before = text[: len(text) - len(text.lstrip())]
    behind = text[len(text.rstrip()) :]
    if not bare:
        return "" if after_space or not text else " "
    before = before if is_first else " " if before and not after_space else ""
    return before + _SPACES.sub(" ", bare) + (behind if is_last else behind and " ")


class _RunReader:
    def __init__(self) -> None:
        self._texts: list[str] = []
        self._length = 0
        self._root = Element("", "", 0, 0)
        self._open: list[tuple[str, Element]] = [("", self._root)]
        self._names: Counter[str] = Counter()  # open elements by name
        self._misnested: Counter[str] = Counter()  # elements whose end tags are dropped
        self._awaiting: Point | None = None  # the last point, until the next text shows whether a word follows
        self.ends_with_space = False

    def add_text(self, source: str, text: str) -> None:
        """Add text, as written in the source and unescaped."""
        if self._awaiting is not None and source:
            self._awaiting.space_after = source[0].isspace()
            self._awaiting = None
        if not text:
            return
        if not text.isspace():
            self._open[-1][1].segments.append((self._length, self._length + len(text)))
        self._texts.append(text)
        self._length += len(text)
        self.ends_with_space = text[-1].isspace()

    def add_point(self, markup: str, *, follows: bool, is_seen: bool = False) -> None:
        """Add markup without words."""
        point = Point(markup, self._length, follows)
        if is_seen:
            point.space_before = self.ends_with_space and self._awaiting is None
            self._awaiting = point
        self._open[-1][1].children.append(point)

    def add_tag(self, tag: Tag) -> None:
        """Add a start or an end tag."""
        if not tag.is_end:
            element = Element(tag.text, "", self._length, -1)
            self._open[-1][1].children.append(element)
            self._open.append((tag.name, element))
            self._names[tag.name] += 1
        elif self._names[tag.name]:
            while self._open[-1][0] != tag.name:  # an element that would overlap this one
                name, element = self._pop()
                self._misnested[name] += 1
                parent = self._open[-1][1]  # inherits the children of the dropped element
                parent.children[-1:] = element.children
                parent.segments += element.segments
            _, element = self._pop()
            element.closing = tag.text
            if not element.segments and not any(isinstance(child, Element) for child in element.children):
                self._open[-1][1].children[-1] = self._point_of(element)
        elif self._misnested[tag.name]:
            self._misnested[tag.name] -= 1
        else:
            self.add_point(tag.text, follows=True)

    def _pop(self) -> tuple[str, Element]:
        name, element = self._open.pop()
        self._names[name] -= 1
        element.end = self._length
        return name, element

    def _point_of(self, element: Element) -> Point:
        """An element without words, such as <a><img></a>, as one point."""
        points = [child for child in element.children if isinstance(child, Point)]
        inside = "".join(point.markup for point in points)
        found = Point(f"{element.opening}{inside}{element.closing}", element.start)
        found.space_before = any(point.space_before for point in points[:1])
        found.space_after = any(point.space_after for point in points[-1:])
        if self._awaiting is not None and self._awaiting in points:
            self._awaiting = found
        return found

    def finish(self) -> InlineRun:
        """The run; unclosed start tags become points."""
        for (_, parent), (_, element) in zip(self._open, self._open[1:], strict=False):
            # the open element is its parent's last child; its own children follow it
            parent.children[-1] = Point(element.opening, element.start, follows=False)
        for _, element in self._open[1:]:
            self._root.children += element.children
        self._root.end = self._length
        return InlineRun("".join(self._texts), self._root)
