"""Placing inline tags in a translation, by word alignment.

An element encloses the span of target words aligned to its source words. It begins and ends at word boundaries, lies
inside its parent, and shares no word with its siblings: of two overlapping ones the narrower is placed first, the other
gets the words left beside it. An element without aligned words is dropped. The text of the translation never changes.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from regard.serve.inline import Element, InlineRun, Point
from regard.serve.sentences import LinkedText, Links

Span = tuple[int, int]
"""First and last word (inclusive), or first character and end (exclusive)."""


@dataclass(frozen=True)
class Word:
    """Span of a white-space word, and the span of its letters and digits; the whole word if it has none."""

    start: int
    end: int
    first: int
    last: int
    has_letters: bool


def find_words(text: str, offset: int = 0) -> Iterator[Word]:
    """The white-space words of a text that begins at `offset`."""
    for found in re.finditer(r"\S+", text):
        core = [place for place, sign in enumerate(found.group()) if sign.isalnum()]
        first, last = (core[0], core[-1] + 1) if core else (0, len(found.group()))
        start = offset + found.start()
        yield Word(start, offset + found.end(), start + first, start + last, bool(core))


@dataclass(frozen=True)
class _Stretch:
    """A sentence, or kept text between two: its span of words and of characters in source and translation."""

    translated: bool
    words: Span  # end exclusive
    target_words: Span
    start: int
    end: int
    target_start: int
    target_end: int


class Placing:
    """Words of a run and of its translation; `said` holds the translation of each part, True if it was translated."""

    def __init__(self, sources: Sequence[tuple[str, bool]], said: Sequence[LinkedText]) -> None:
        self.text = "".join(each.text for each in said)
        self._source = "".join(text for text, _ in sources)
        self._words: list[Word] = []
        self._targets: list[Word] = []
        self._linked: list[Span | None] = []  # for each word the first and last aligned word
        self._stretches: list[_Stretch] = []
        start = target_start = 0
        for (source, translated), each in zip(sources, said, strict=True):
            words, targets = list(find_words(source, start)), list(find_words(each.text, target_start))
            links: Links = each.links if translated else {(place, place) for place in range(len(words))}
            self._linked += _linked(links, len(words), targets, len(self._targets))
            stretch = _Stretch(
                translated,
                (len(self._words), len(self._words) + len(words)),
                (len(self._targets), len(self._targets) + len(targets)),
                *(start, start + len(source), target_start, target_start + len(each.text)),
            )
            self._stretches.append(stretch)
            self._words += words
            self._targets += targets
            start, target_start = stretch.end, stretch.target_end
        self._starts = [word.start for word in self._words]
        self._ends = [word.end for word in self._words]
        self._firsts = [word.first for word in self._words]
        self._lasts = [word.last for word in self._words]
        self._stretch_starts = [stretch.start for stretch in self._stretches]
        self._sentences = [each for each in self._stretches if each.words[0] < each.words[1]]

    # --- words --------------------------------------------------------------------------------------------------

    def touched(self, start: int, end: int) -> Span:
        """Words with letters in a span of characters; without any, all words that overlap it."""
        found = bisect_right(self._lasts, start), bisect_left(self._firsts, end)
        if found[0] < found[1]:
            return found
        return bisect_right(self._ends, start), bisect_left(self._starts, end)

    def linked(self, words: Span) -> Span | None:
        """The first and last word aligned to a range of words."""
        return _hull(self._linked[words[0] : words[1]])

    def whole_sentences(self, words: Span) -> Span | None:
        """Target words of all sentences inside a range of source words."""
        first = bisect_left(self._sentences, words[0], key=lambda each: each.words[0])
        last = bisect_right(self._sentences, words[1], key=lambda each: each.words[1]) - 1
        if first > last:
            return None
        start, end = self._sentences[first].target_words[0], self._sentences[last].target_words[1]
        return (start, end - 1) if start < end else None

    def characters(self, element: Element, span: Span) -> Span:
        """The characters of target words; punctuation at the ends is included if the source element included it."""
        words = self.touched(element.start, element.end)
        first, last = self._words[words[0]], self._words[words[1] - 1]
        begins, ends = self._targets[span[0]], self._targets[span[1]]
        whole = self._sentence_at(words[0]), self._sentence_at(words[1] - 1)
        opens = element.start <= whole[0].start and span[0] == whole[0].target_words[0]
        closes = element.end >= whole[1].end and span[1] == whole[1].target_words[1] - 1
        before = self._source[max(element.start, first.start) : first.first]
        behind = self._source[last.last : min(element.end, last.end)]
        opens |= bool(before) and element.start <= first.start
        closes |= bool(behind) and element.end >= last.end
        start = begins.first - _common(self.text[begins.start : begins.first][::-1], before[::-1])
        end = ends.last + _common(self.text[ends.last : ends.end], behind)
        return begins.start if opens else start, ends.end if closes else end

    def _sentence_at(self, word: int) -> _Stretch:
        return self._sentences[bisect_right(self._sentences, word, key=lambda each: each.words[0]) - 1]

    def place(self, point: Point) -> int:
        """Where a point goes: the index of the character after it."""
        number = bisect_right(self._stretch_starts, point.place) - 1
        if number < 0:
            return 0
        each = self._stretches[number]
        if point.place <= each.start:
            return each.target_start
        if point.place >= each.end:
            return each.target_end
        if not each.translated:
            return each.target_start + point.place - each.start
        return self._place_in(each, point)

    def _place_in(self, each: _Stretch, point: Point) -> int:
        """The place within a sentence: beside the nearest aligned word; without any, at the same relative position."""
        if each.words[0] < each.words[1] and self.linked(each.words) is None:
            return self._by_share(each, point)
        if point.follows:
            for number in range(bisect_left(self._starts, point.place) - 1, each.words[0] - 1, -1):
                if (found := self._linked[number]) is not None:
                    word = self._targets[found[1]]
                    return word.last if point.place < self._words[number].end else word.end
            return each.target_start
        for number in range(bisect_right(self._ends, point.place), each.words[1]):
            if (found := self._linked[number]) is not None:
                return self._targets[found[0]].start
        return each.target_end

    def _by_share(self, each: _Stretch, point: Point) -> int:
        targets = self._targets[each.target_words[0] : each.target_words[1]]
        passed = bisect_left(self._starts, point.place) - each.words[0]
        number = round(passed * len(targets) / (each.words[1] - each.words[0]))
        return targets[number - 1].end if 0 < number <= len(targets) else each.target_start


def _common(text: str, other: str) -> int:
    """Length of the common prefix of two texts."""
    return next(
        (place for place, pair in enumerate(zip(text, other, strict=False)) if pair[0] != pair[1]),
        min(len(text), len(other)),
    )


def _linked(links: Links, count: int, targets: Sequence[Word], offset: int) -> list[Span | None]:
    """For each of `count` words the first and last aligned target; targets with letters before punctuation."""
    found: list[list[int]] = [[] for _ in range(count)]
    for source, target in links:
        if source < count and target < len(targets):
            found[source].append(target)
    spans: list[Span | None] = []
    for each in found:
        lettered = [target for target in each if targets[target].has_letters] or each
        spans.append((offset + min(lettered), offset + max(lettered)) if lettered else None)
    return spans


def _hull(spans: Sequence[Span | None]) -> Span | None:
    known = [span for span in spans if span is not None]
    return (min(first for first, _ in known), max(last for _, last in known)) if known else None


# --- the tree -----------------------------------------------------------------------------------------------------


def placed(run: InlineRun, placing: Placing, escape: Callable[[str], str]) -> str:
    """The translation of a run with its tags; `escape` escapes text for the document."""
    text = placing.text
    spans = _Tree(run.root, placing)
    out: list[str] = []
    at = 0
    for place, node, markup in spans.tags():
        out += [escape(text[at:place])]
        at = max(at, place)
        if not isinstance(node, Point):
            out.append(markup)
            continue
        following = text[place : place + 2]
        out += [" " if node.space_before and place and not text[place - 1].isspace() else "", markup]
        if node.space_after:
            out.append(" " if following and not following[0].isspace() else "")
        elif node.space_before and following[:1].isspace() and not following[1:].isalnum():
            at = place + 1  # "see <code>x</code>." was translated as "see ."
    return "".join([*out, escape(text[at:])])


class _Tree:
    """Where each element and each point of a tree goes."""

    def __init__(self, root: Element, placing: Placing) -> None:
        self._root = root
        self._placing = placing
        self._hulls: dict[int, Span | None] = {}  # id of an element to its aligned words
        self._ordered: dict[int, list[tuple[int, int, Element | Point]]] = {}  # children of an element, in target order
        elements = [root]
        for element in elements:  # the list grows: parents before children
            elements += [child for child in element.children if isinstance(child, Element)]
        for element in reversed(elements):
            self._hulls[id(element)] = self._hull_of(element)
        whole = (0, len(placing.text))
        waiting: list[tuple[Element, Span | None, Span]] = [(root, None, whole)]
        while waiting:
            waiting += self._share(*waiting.pop())

    def _hull_of(self, element: Element) -> Span | None:
        touched = [self._placing.touched(*segment) for segment in element.segments]
        spans = [self._placing.linked(words) for words in touched]
        spans += [self._hulls[id(child)] for child in element.children if isinstance(child, Element)]
        spans.append(self._placing.whole_sentences(self._placing.touched(element.start, element.end)))
        return _hull(spans)

    def _share(self, parent: Element, words: Span | None, within: Span) -> list[tuple[Element, Span, Span]]:
        """Place the children of an element; children with children of their own are queued."""
        hulls: list[tuple[int, int, Element, Span]] = []
        dropped: list[Element] = []
        points: list[tuple[int, Point]] = []
        for order, child in enumerate(parent.children):
            if isinstance(child, Point):
                points.append((order, child))
                continue
            hull = _clipped(self._hulls[id(child)], words)
            if hull is None:
                dropped.append(child)
            else:
                hulls.append((hull[1] - hull[0], order, child, hull))
        taken: list[Span] = []
        found: list[tuple[int, int, Element | Point]] = []
        further: list[tuple[Element, Span, Span]] = []
        for _, _, child, hull in sorted(hulls, key=lambda each: each[:2]):
            own = _free(hull, taken)
            begins, ends = (0, 0) if own is None else self._placing.characters(child, own)
            begins, ends = max(begins, within[0]), min(ends, within[1])
            if own is None or begins >= ends:
                dropped.append(child)
                continue
            insort(taken, own)
            found.append((begins, ends, child))
            further.append((child, own, (begins, ends)))
        for child in dropped:
            points += [(0, point) for point in _points(child)]
        found.sort(key=lambda each: each[:2])
        found += _between(
            found, [(self._placing.place(point), point) for _, point in sorted(points, key=_order)], within
        )
        found.sort(key=lambda each: each[:2])
        self._ordered[id(parent)] = found
        return further

    def tags(self) -> Iterator[tuple[int, Element | Point, str]]:
        """The places in the translation with what is written there, from left to right."""
        waiting: list[tuple[int, int, Element | Point, bool]] = [
            (*each, False) for each in reversed(self._ordered[id(self._root)])
        ]
        while waiting:
            begins, ends, node, is_end = waiting.pop()
            if isinstance(node, Point):
                yield begins, node, node.markup
            elif is_end:
                yield ends, node, node.closing
            else:
                yield begins, node, node.opening
                waiting.append((begins, ends, node, True))
                waiting += [(*each, False) for each in reversed(self._ordered[id(node)])]


def _order(each: tuple[int, Point]) -> int:
    return each[0]


def _clipped(span: Span | None, within: Span | None) -> Span | None:
    if span is None or within is None:
        return span
    first, last = max(span[0], within[0]), min(span[1], within[1])
    return (first, last) if first <= last else None


def _free(span: Span, taken: Sequence[Span]) -> Span | None:
    """The part of a range of words that siblings have left free, at its beginning or its end."""
    first = bisect_left(taken, span[0], key=lambda each: each[1])
    last = bisect_right(taken, span[1], key=lambda each: each[0]) - 1
    if first > last:
        return span
    before = span[0], taken[first][0] - 1
    behind = taken[last][1] + 1, span[1]
    wider = max(before, behind, key=lambda each: each[1] - each[0])
    return wider if wider[0] <= wider[1] else None


def _points(element: Element) -> Iterator[Point]:
    """All points in an element; they are kept if it is dropped."""
    waiting: list[Element | Point] = [element]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Point):
            yield node
        else:
            waiting += reversed(node.children)


def _between(
    elements: Sequence[tuple[int, int, Element | Point]], points: Sequence[tuple[int, Point]], within: Span
) -> Iterator[tuple[int, int, Point]]:
    """Points moved out of the sorted elements, to their sides."""
    for place, point in points:
        place = min(max(place, within[0]), within[1])
        number = bisect_left(elements, place, key=lambda each: each[0]) - 1
        if number >= 0 and place < elements[number][1]:
            place = elements[number][1] if point.follows else elements[number][0]
        yield place, place, point
