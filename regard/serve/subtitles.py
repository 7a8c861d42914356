"""Subtitles (SubRip, .srt): numbers and times are kept, each subtitle is translated.

The lines of a subtitle are one text, translated sentence by sentence and wrapped to the same number of lines; a dash at
the beginning of a line marks another speaker. Tags (<i>) move with their words as in HTML, but nothing is escaped.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from regard.serve.inline import INLINE, Kept, read_run
from regard.serve.markup import HtmlDocument
from regard.serve.sentences import LinkedText, split_line
from regard.serve.tags import read_tags

_TIME = re.compile(r"\s*\d[\d:.,]*\s*-->")
_DASH = re.compile(r"\s*[-–—]")


@dataclass
class SubtitleDocument(HtmlDocument):
    """A subtitle file."""

    heights: dict[int, int] = field(default_factory=dict)  # first part of a run to its number of lines
    line_end: str = "\n"

    @classmethod
    def of(cls, text: str) -> SubtitleDocument:
        """The document of an .srt file."""
        document = cls([], line_end="\r\n" if "\r\n" in text else "\n")
        for lines in _speeches(text.splitlines(keepends=True)):
            if isinstance(lines, str):
                document.keep(lines)
            else:
                document.add_speech(lines)
        return document

    def add_speech(self, lines: Sequence[str]) -> None:
        """Add the lines of one speaker."""
        source = "".join(lines)
        bare = source.rstrip()
        items = [
            item if isinstance(item, str) or (item.name in INLINE and not item.is_closed) else Kept(item.text)
            for item in read_tags(bare)
        ]
        run = read_run(items)
        parts = split_line(run.text)
        if any(part.translate for part in parts):
            self.heights[len(self.parts)] = len(lines)
            self.runs[len(self.parts)] = len(self.parts) + len(parts), run
            self.parts += parts
            self.keep(source[len(bare) :])
        else:
            self.keep(source)

    def escape(self, text: str) -> str:
        """The text itself: .srt has no escapes."""
        return text

    def arranged(self, place: int, said: list[LinkedText]) -> list[LinkedText]:
        """The translation wrapped to the source's number of lines."""
        whole = "".join(each.text for each in said)
        breaks = set(line_breaks(whole, self.heights[place]))
        found, start = [], 0
        for each in said:
            signs = ["\n" if start + number in breaks else sign for number, sign in enumerate(each.text)]
            found.append(replace(each, text="".join(signs)))
            start += len(each.text)
        return found

    def text(self, choice: int = 0) -> str:
        """The subtitles, with the source's line endings."""
        return super().text(choice).replace("\r\n", "\n").replace("\n", self.line_end)


def line_breaks(text: str, height: int) -> Iterator[int]:
    """The spaces at which to break a text into `height` lines of similar length."""
    spaces = [found.start() for found in re.finditer(r"(?<=\S) (?=\S)", text)]
    used = 0  # spaces already passed
    for line in range(1, height):
        wanted = len(text) * line / height
        number = max(used, bisect_left(spaces, wanted))
        near = [each for each in (number - 1, number) if used <= each < len(spaces)]
        if not near:
            return
        best = min(near, key=lambda each: abs(spaces[each] - wanted))
        yield spaces[best]
        used = best + 1


def _speeches(lines: Sequence[str]) -> Iterator[str | list[str]]:
    """Kept lines, and the lines of each speaker."""
    speech: list[str] = []
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        is_number = line.strip("\ufeff \t\r\n").isdecimal() and _TIME.match(following) is not None
        kept = not line.strip() or is_number or _TIME.match(line) is not None
        if speech and (kept or _DASH.match(line)):
            yield speech
            speech = []
        if kept:
            yield line
        else:
            speech.append(line)
    if speech:
        yield speech
