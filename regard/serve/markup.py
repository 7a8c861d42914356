"""HTML on its way through a model: the text between the tags is translated, the tags stay.

What stands between two tags of blocks is translated sentence by sentence; `inline.py` puts inline tags into them.
"""

from __future__ import annotations

import html
from collections.abc import Iterator

from regard.serve.inline import INLINE, MarkedPart, escaped, plain_text, read_run
from regard.serve.sentences import Document, Links, Part, around_placeholders, split_line, split_text, stripped
from regard.serve.tags import Tag, read_tags

_KEPT_ELEMENTS = frozenset({"script", "style", "code", "kbd", "samp", "var", "textarea", "svg", "math"})


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
    run: list[str | Tag] = []  # text and inline tags, as they follow each other
    for item in read_tags(text):
        if isinstance(item, str):
            if depth or preformatted:
                yield from _text_parts(item, keep=depth > 0, by_lines=preformatted > 0)
            else:
                run.append(item)
            continue
        keeps = not item.is_end and not item.is_closed and _is_kept(item)
        if not depth and not preformatted and item.name in INLINE and not keeps and not item.is_closed:
            run.append(item)
            continue
        yield from _run_parts(run)
        run = []
        yield Part(item.text, False)
        if item.name == "pre":
            preformatted = max(0, preformatted + (-1 if item.is_end else 1))
        if depth and item.name == kept and not item.is_closed:
            depth += -1 if item.is_end else 1
        elif not depth and keeps:
            kept, depth = item.name, 1
    yield from _run_parts(run)


def _is_kept(tag: Tag) -> bool:
    """Whether the content of an element is not translated."""
    return (
        tag.name in _KEPT_ELEMENTS
        or tag.attributes.get("translate", "").strip().lower() == "no"
        or "notranslate" in tag.attributes.get("class", "").lower().split()
    )


def _run_parts(run: list[str | Tag]) -> Iterator[Part]:
    """Text with inline tags: whole sentences if that can be, else what stands between the tags."""
    if any(isinstance(item, Tag) for item in run):
        joined = "".join(item if isinstance(item, str) else item.text for item in run)
        before, _, after = stripped(joined)
        parts = read_run(run)
        if parts is not None:
            yield from (part for part in (Part(before, False), *parts, Part(after, False)) if part.text)
            return
    for item in run:
        if isinstance(item, str):
            yield from _text_parts(item, keep=False, by_lines=False)
        else:
            yield Part(item.text, False)


def _text_parts(text: str, *, keep: bool, by_lines: bool) -> Iterator[Part]:
    """The text between two tags; outside <pre> a line break is but a space."""
    if keep or not text.strip():
        if text:
            yield Part(text, False)
        return
    plain = plain_text(text)
    if by_lines:
        parts = split_text(plain)
    else:
        before, bare, after = stripped(plain)
        parts = [Part(before, False), *split_line(" ".join(bare.split())), Part(after, False)]
    yield from (part for part in escaped(parts) if part.text)
