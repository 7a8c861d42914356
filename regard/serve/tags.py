"""HTML tokenizer: tags and the text between them, as written in the source.

The rules are those of the HTML standard (https://html.spec.whatwg.org/#tokenization), for the parts that matter here:
tags with quoted and bare attributes, comments, declarations, and elements whose content is raw text. Every character is
read a bounded number of times, whatever the input. `html.parser` of Python 3.11 is quadratic for unclosed tags and
raises for some declarations; parsers that build a tree do not return tags as they were written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_VOID_NAMES = "area base br col embed hr img input link meta source track wbr"
VOID = frozenset(_VOID_NAMES.split())
"""Elements without content and without an end tag."""

_RAW_ELEMENTS = frozenset({"script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes"})
_RAW_END = {name: re.compile(rf"</{name}(?=[\t\n\f\r />])", re.IGNORECASE) for name in _RAW_ELEMENTS}

_NAME = re.compile(r"[^\t\n\f\r />]++")
_BETWEEN_ATTRIBUTES = re.compile(r"[\t\n\f\r /]*+")
_ATTRIBUTE = re.compile(r"=?[^\t\n\f\r />=]*+")
_EQUALS = re.compile(r"[\t\n\f\r ]*+=[\t\n\f\r ]*+")
_BARE_VALUE = re.compile(r"[^\t\n\f\r >]*+")
_COMMENT_END = re.compile(r"--!?>")


@dataclass(frozen=True)
class Tag:
    """A tag as written in the source; comments and declarations have no name."""

    text: str
    name: str = ""  # in lower case
    is_end: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_closed(self) -> bool:
        """Whether the element has no content: <br>, <b/>."""
        return self.name in VOID or self.text.endswith("/>")


def read_tags(text: str) -> Iterator[str | Tag]:
    """The tags and the text between them; joined they are the source."""
    reader = _Reader(text)
    start = at = 0  # start of the text before the next tag, and the search position
    while (at := text.find("<", at)) >= 0:
        tag = reader.tag(at)
        if tag is None:
            at += 1
            continue
        if start < at:
            yield text[start:at]
        yield tag
        start = at = at + len(tag.text)
        if tag.name in _RAW_ELEMENTS and not tag.is_end and not tag.is_closed:
            end = _RAW_END[tag.name].search(text, at)
            at = end.start() if end else len(text)
    if start < len(text):
        yield text[start:]


class _Reader:
    """Reads single tags of a source."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._last = {sign: text.rfind(sign) for sign in "\"'>"}  # an opening quote at or after it is unclosed

    def tag(self, at: int) -> Tag | None:
        """The tag that begins at `at`; None if this < is text."""
        text = self._text
        if at > self._last[">"] and not text.startswith("<!--", at):
            return None
        following = text[at + 1 : at + 3]
        if _is_letter(following[:1]):
            return self._named(at, at + 1)
        if following[:1] == "/" and _is_letter(following[1:]):
            return self._named(at, at + 2)
        if text.startswith("<!--", at):
            end = _COMMENT_END.search(text, at + 2)
            return Tag(text[at : end.end() if end else len(text)])
        if following[:1] in ("!", "?", "/"):
            return Tag(text[at : text.index(">", at) + 1])
        return None

    def _named(self, start: int, at: int) -> Tag:
        text = self._text
        name = _NAME.match(text, at)
        assert name is not None  # it begins with a letter
        attributes: dict[str, str] = {}
        at = _after(_BETWEEN_ATTRIBUTES, text, name.end())
        while at < len(text) and text[at] != ">":
            end = _after(_ATTRIBUTE, text, at)
            value, after = self._value(end)
            attributes.setdefault(text[at:end].lower(), value)
            at = _after(_BETWEEN_ATTRIBUTES, text, after)
        if at >= len(text):  # the last > is quoted: the standard drops such a tag, and we keep it
            return Tag(text[start:])
        is_end = text[start + 1] == "/"
        return Tag(text[start : at + 1], name.group().lower(), is_end, attributes)

    def _value(self, at: int) -> tuple[str, int]:
        """The value of the attribute whose name ends at `at`, and its end; an unclosed quote is a normal character."""
        text = self._text
        equals = _EQUALS.match(text, at)
        if equals is None:
            return "", at
        at = equals.end()
        quote = text[at : at + 1]
        if quote in ('"', "'") and at < self._last[quote]:
            end = text.index(quote, at + 1)
            return text[at + 1 : end], end + 1
        end = _after(_BARE_VALUE, text, at)
        return text[at:end], end


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return at if found is None else found.end()


def _is_letter(sign: str) -> bool:
    return sign.isascii() and sign.isalpha()
