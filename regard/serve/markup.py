"""HTML documents: the text between the tags is translated, the tags are kept.

Block tags separate runs of text with inline tags. A sentence is translated once, without its tags.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from regard.serve.inline import INLINE, INLINE_KEPT, INLINE_VOID, InlineRun, Kept, read_run
from regard.serve.placing import Placing, placed
from regard.serve.sentences import Document, LinkedText, Part, split_line, split_text
from regard.serve.tags import Tag, read_tags

_KEPT_ELEMENTS = INLINE_KEPT | {"script", "style", "textarea"}

# beyond the largest code point; `html.unescape` would raise for thousands of digits
_HUGE_REFERENCE = re.compile(r"&#(?:[1-9][0-9]{8,}+|[xX][1-9a-fA-F][0-9a-fA-F]{8,}+);?|&#[xX]?0{8,}+[0-9a-fA-F]*+;?")


@dataclass
class HtmlDocument(Document):
    """An HTML document; translations are escaped when inserted."""

    runs: dict[int, tuple[int, InlineRun]] = field(default_factory=dict)  # first part of a run to its end and the run

    @classmethod
    def of(cls, text: str) -> HtmlDocument:
        """The document of an HTML text."""
        document = cls([])
        reader = _Reader(document)
        for item in read_tags(text):
            reader.read(item)
        reader.finish()
        return document

    def keep(self, markup: str) -> None:
        """Add markup that is not translated."""
        self.parts.append(Part(markup, False))

    def add_run(self, items: Sequence[str | Tag | Kept], *, preformatted: bool) -> None:
        """Add text with inline tags; line breaks count if it is preformatted."""
        plain = [plain_text(item) if isinstance(item, str) else item for item in items]
        run = read_run(plain, preformatted=preformatted)
        parts = split_text(run.text) if preformatted else split_line(run.text)
        if any(part.translate for part in parts):
            self.runs[len(self.parts)] = len(self.parts) + len(parts), run
            self.parts += parts
        else:
            self.parts += [Part(item if isinstance(item, str) else item.text, False) for item in items]

    @property
    def needs_links(self) -> bool:
        """Whether placing the elements needs a word alignment."""
        return any(run.has_elements for _, run in self.runs.values())

    def escape(self, text: str) -> str:
        """The text, escaped for HTML."""
        return html.escape(text, quote=False)

    def arranged(self, place: int, said: list[LinkedText]) -> list[LinkedText]:
        """Translations of the run that begins at `place`, unescaped; same length."""
        return said

    def text(self, choice: int = 0) -> str:
        """The whole document, with inline elements placed in the translations."""
        out: list[str] = []
        place = 0
        while place < len(self.parts):
            end, run = self.runs.get(place, (place + 1, None))
            if run is None:
                out.append(self.parts[place].text)
            else:
                parts = [(part.text, part.translate) for part in self.parts[place:end]]
                said = [self.said(number, choice) for number in range(place, end)]
                out.append(placed(run, Placing(parts, self.arranged(place, said)), self.escape))
            place = end
        return "".join(out)


def plain_text(source: str) -> str:
    """HTML without tags, unescaped."""
    return html.unescape(_HUGE_REFERENCE.sub("\ufffd", source))


class _Reader:
    """Reads tags and text into the runs of a document."""

    def __init__(self, document: HtmlDocument) -> None:
        self._document = document
        self._run: list[str | Tag | Kept] = []
        self._preformatted = 0  # depth of nested <pre>
        self._kept, self._depth = "", 0  # the element kept verbatim, and its nesting depth
        self._held: list[str] = []  # its content

    def read(self, item: str | Tag) -> None:
        """Read the next tag or text."""
        if self._depth:
            self._hold(item)
        elif isinstance(item, str):
            self._run.append(item)
        elif not item.is_end and not item.is_closed and _is_kept(item):
            self._kept, self._depth = item.name, 1
            self._held.append(item.text)
        elif item.name in INLINE and not item.is_closed:
            self._run.append(item)
        elif not item.name or item.name in INLINE or item.name in INLINE_VOID:
            self._run.append(Kept(item.text, is_seen=item.name == "img"))
        else:
            self._end_run()
            self._document.keep(item.text)
            if item.name == "pre":
                self._preformatted = max(0, self._preformatted + (-1 if item.is_end else 1))

    def finish(self) -> None:
        """Flush at the end of the source."""
        self._end_run()
        if self._held:  # unclosed
            self._document.keep("".join(self._held))

    def _hold(self, item: str | Tag) -> None:
        self._held.append(item if isinstance(item, str) else item.text)
        if isinstance(item, Tag) and item.name == self._kept and not item.is_closed:
            self._depth += -1 if item.is_end else 1
        if self._depth:
            return
        markup = "".join(self._held)
        self._held.clear()
        if self._kept in INLINE or self._kept in INLINE_KEPT:
            self._run.append(Kept(markup))
        else:
            self._end_run()
            self._document.keep(markup)

    def _end_run(self) -> None:
        if self._run:
            self._document.add_run(self._run, preformatted=self._preformatted > 0)
        self._run = []


def _is_kept(tag: Tag) -> bool:
    """Whether the content of an element is kept untranslated."""
    return (
        tag.name in _KEPT_ELEMENTS
        or tag.attributes.get("translate", "").strip().lower() == "no"
        or "notranslate" in tag.attributes.get("class", "").lower().split()
    )
