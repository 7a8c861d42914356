"""White-space words of a line, and the units into which views split them.

A word is what `str.split()` gives: links, AER and Pharaoh output count these. Views show units, so that a word is not
averaged with its punctuation: leading and trailing punctuation (the Unicode categories P*) are units of their own.

    noir.         noir .
    («Bonjour»,   (« Bonjour »,
    don't  3.14  학교에  C++     unchanged: only the ends are split
    e.g.  U.S.  Ph.D.           unchanged: initials of one or two letters, each with its full stop
    -5  l'  dogs'               unchanged: the sign of a number; an apostrophe after a letter, unless one opens the word
    --  ...                     unchanged: a word of punctuation alone

A unit is never smaller than a piece: where one piece covers a word and its punctuation, both stay one unit.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence

Span = tuple[int, int]
"""Character span: start and exclusive end."""

_INITIALS = re.compile(r"(?:[^\W\d_]{1,2}\.){2,}")
_APOSTROPHES = "'’"


class WordSpans:
    """The spans of the white-space words of a line."""

    def __init__(self, text: str) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        place = 0
        for word in text.split():
            place = text.index(word, place)
            self.starts.append(place)
            place += len(word)
            self.ends.append(place)

    def of(self, start: int, end: int) -> int | None:
        """The first word with a character from `start` to `end`; else the word that begins at `end`."""
        number = bisect_right(self.ends, start)
        if number == len(self.starts):
            return None
        begins = self.starts[number]
        return number if begins < end or begins == end else None


def split_word(word: str) -> tuple[str, ...]:
    """The units of one word: leading punctuation, the rest, trailing punctuation."""
    first, last = 0, len(word)
    while first < last and _is_punctuation(word[first]):
        first += 1
    while last > first and _is_punctuation(word[last - 1]):
        last -= 1
    if first == last:
        return (word,)
    if initials := _INITIALS.match(word, first):
        last = max(last, initials.end())
    opened = any(mark in _APOSTROPHES for mark in word[:first])
    if last < len(word) and word[last] in _APOSTROPHES and word[last - 1].isalpha() and not opened:
        last += 1
    if first and word[first - 1] == "-" and word[first].isdigit():
        first -= 1
    return tuple(part for part in (word[:first], word[first:last], word[last:]) if part)


def unit_spans(text: str, pieces: Sequence[Span]) -> list[tuple[int, Span]]:
    """The units of a line: number of the white-space word, and span; `pieces` are the spans of the pieces."""
    words = WordSpans(text)
    inside = {place for start, end in pieces for place in range(start + 1, end)}  # here a piece would be cut
    units: list[tuple[int, Span]] = []
    for number, (start, end) in enumerate(zip(words.starts, words.ends, strict=True)):
        begin = place = start
        for part in split_word(text[start:end]):
            place += len(part)
            if place == end or place not in inside:
                units.append((number, (begin, place)))
                begin = place
    return units


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character).startswith("P")
