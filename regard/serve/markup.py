"""HTML on its way through a model: the text between the tags is translated, the tags stay."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from regard.serve.sentences import Document, Part, split_line, split_text

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

    def shown(self, translation: str) -> str:
        """A translation with its <, > and & escaped."""
        return html.escape(translation, quote=False)


def _parts(text: str) -> Iterator[Part]:
    kept, depth, preformatted = "", 0, 0  # the element that is kept whole, and how often it stands in itself
    start = 0
    for tag in _TAG.finditer(text):
        yield from _text_parts(text[start : tag.start()], keep=depth > 0, by_lines=preformatted > 0)
        yield Part(tag.group(), False)
        start = tag.end()
        name = (tag[2] or "").lower()
        if not name:
            continue
        is_end, is_closed = tag[1] == "/", tag[3].endswith("/") or name in _VOID
        if name == "pre":
            preformatted += -1 if is_end else 1
        if depth and name == kept and not is_closed:
            depth += -1 if is_end else 1
        elif not depth and not is_end and not is_closed and (name in _KEPT_ELEMENTS or _KEEP.search(tag[3])):
            kept, depth = name, 1
    yield from _text_parts(text[start:], keep=depth > 0, by_lines=preformatted > 0)


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
    for part in parts:
        if part.text:
            yield part if part.translate else Part(html.escape(part.text, quote=False), False)
