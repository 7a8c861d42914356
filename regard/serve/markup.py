"""HTML on its way through a model: the text between the tags is translated, the tags stay.

What stands between two tags of blocks is translated sentence by sentence; `inline.py` puts inline tags into them.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from regard.serve.inline import INLINE, MarkedPart, escaped, read_run
from regard.serve.sentences import Document, Links, Part, around_placeholders, split_line, split_text

# a comment, a declaration, or a tag with its quoted attributes
_TAG = re.compile(r"""<!--.*?-->|<[!?][^>]*>|<(/?)([a-zA-Z][^\s/>]*)((?:[^"'>]|"[^"]*"|'[^']*')*)>""", re.DOTALL)
_KEEP = re.compile(r"""\stranslate\s*=\s*["']?no\b|\sclass\s*=\s*["'][^"']*\bnotranslate\b""", re.IGNORECASE)
_KEPT_ELEMENTS = frozenset({"script", "style", "code", "kbd", "samp", "var", "textarea", "svg", "math"})
_VOID = frozenset({"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"})


class HtmlDocument(Document):
    """An HTML text; translations are escaped on their way back into it."""

    @classmethod
    def of(cls, text: str) -> HtmlDocument:
        """The document of an HTML text."""
        return cls(list(_parts(text)))

    @property
    def needs_links(self) -> bool:
        """Whether elements are to be placed by what words looked at."""
        return any(isinstance(part, MarkedPart) for part in self.parts)

    def shown(self, part: Part, translation: str, links: Links) -> str | None:
        """A translation with its <, > and & escaped, and the inline elements of the sentence in it."""
        if isinstance(part, MarkedPart):
            return part.placed(translation, links)
        return html.escape(translation, quote=False)

    def apart(self, part: Part) -> list[Part]:
        """The sentence cut around its placeholders and its inline tags."""
        return part.pieces() if isinstance(part, MarkedPart) else escaped(around_placeholders(part.text))


def _parts(text: str) -> Iterator[Part]:
    kept, depth, preformatted = "", 0, 0  # the element that is kept whole, and how often it stands in itself
    run: list[str | re.Match[str]] = []  # text and inline tags, as they follow each other
    start = 0
    for tag in _TAG.finditer(text):
        between, start = text[start : tag.start()], tag.end()
        name = (tag[2] or "").lower()
        is_end, is_closed = tag[1] == "/", (tag[3] or "").endswith("/") or name in _VOID
        keeps = not is_end and not is_closed and (name in _KEPT_ELEMENTS or bool(_KEEP.search(tag[3] or "")))
        if not depth and not preformatted and name in INLINE and not keeps and not is_closed:
            run += [between, tag]
            continue
        yield from _run_parts([*run, "" if depth or preformatted else between])
        run = []
        if depth or preformatted:
            yield from _text_parts(between, keep=depth > 0, by_lines=preformatted > 0)
        yield Part(tag.group(), False)
        if name == "pre":
            preformatted += -1 if is_end else 1
        if depth and name == kept and not is_closed:
            depth += -1 if is_end else 1
        elif not depth and keeps:
            kept, depth = name, 1
    if depth or preformatted:
        yield from _text_parts(text[start:], keep=depth > 0, by_lines=preformatted > 0)
    else:
        yield from _run_parts([*run, text[start:]])


def _run_parts(run: list[str | re.Match[str]]) -> Iterator[Part]:
    """Text with inline tags: whole sentences if that can be, else what stands between the tags."""
    joined = "".join(item if isinstance(item, str) else item.group() for item in run)
    if any(not isinstance(item, str) for item in run):
        bare = joined.strip()
        before, _, after = joined.partition(bare)
        parts = read_run(run)
        if parts is not None:
            yield from (part for part in (Part(before, False), *parts, Part(after, False)) if part.text)
            return
    for item in run:
        if isinstance(item, str):
            yield from _text_parts(item, keep=False, by_lines=False)
        else:
            yield Part(item.group(), False)


def _text_parts(text: str, *, keep: bool, by_lines: bool) -> Iterator[Part]:
    """The text between two tags; outside <pre> a line break is but a space."""
    if keep or not text.strip():
        if text:
            yield Part(text, False)
        return
    plain = html.unescape(text)
    if by_lines:
        parts = split_text(plain)
    else:
        bare = plain.strip()
        before, _, after = plain.partition(bare)
        parts = [Part(before, False), *split_line(" ".join(bare.split())), Part(after, False)]
    yield from (part for part in escaped(parts) if part.text)
