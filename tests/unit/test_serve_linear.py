"""The time of every function that reads a client's text grows no faster than the text."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from functools import partial

import pytest

from regard.serve.languages import parse_pair
from regard.serve.markup import HtmlDocument, plain_text
from regard.serve.sentences import (
    LONGEST_SENTENCE,
    Document,
    Links,
    around_placeholders,
    keeps_placeholders,
    split_text,
)
from regard.serve.subtitles import SubtitleDocument
from regard.serve.tags import read_tags

SHORT, FACTOR = 800, 6
MOST = 2.4 * FACTOR  # quadratic growth is FACTOR², 36

# each is repeated to the length that is wanted
_SENTENCES = """a|A|1|.|. |a. |1. |A. |a.a|!|?"'|."' |…|。|。」|,|, |一| .|a |a, """
_HTML = """<|>|&|&#|&#9|&a|&amp|&amp;|&#x|&lt;|;|'|"|(|[|]|{|}|{{|}}|<a|</|</a|<a>|</a>|<a |<a b|<a b=|<a b='|<a b="
|<a b="'|<a b='>|<a b=">" |<b>a|<b>a |a <b>b</b> |<b><i>a</i></b>|<b>a</b>|<p>|<p>a. |<pre>|</pre>|<br>|<br/>|<!|<!-
|<!--|<!-->|<!---|--|-->|<![|<?|<!a|<!a>|<script>|</script|<title>|<textarea>|<code>|<code/>|=|/|/>|<a/|<a a=1 |<svg>
|<span class=notranslate>"""
_PLACEHOLDERS = """http|http://|http://.|http://a |@|a@|a@b|a@b.|a.b@|a@b.c |me+|-|+|_|__|__a|%|%s|%(|%(a|%(a)s |%1$|${
|${a}|{a|{a}|{{a}} |{{ a|<0|<0>|</0> """
_SPACES = (" ", "\n", "\t", "\r\n", "\u2028", "\xa0", "<a\n", "</pre>\n", "a" * 499 + " ")
REPEATED = [*f"{_SENTENCES}|{_HTML}|{_PLACEHOLDERS}".replace("\n", "").split("|"), *_SPACES]


def nested(size: int) -> str:
    return "<b>" * (size // 8) + "a b" + "</b>" * (size // 8)


def nested_words(size: int) -> str:
    return "<b>w " * (size // 10) + "</b> w" * (size // 10)


def unclosed_after_quotes(size: int) -> str:
    return "<a " * (size // 3) + 'x=">"'


def huge_reference(size: int) -> str:
    return f"a &#{'9' * size}; <a b='&#{'9' * size};'>b</a>"


def repeated(each: str, before: str = "", after: str = "") -> Callable[[int], str]:
    return lambda size: before + each * (size // len(each)) + after


WRITTEN: dict[str, Callable[[int], str]] = {
    **{repr(each)[:24]: repeated(each) for each in REPEATED},
    **{f"<p>x{each!r}</p>"[:24]: repeated(each, "<p>x", "</p>") for each in REPEATED},
    **{each.__name__: each for each in (nested, nested_words, unclosed_after_quotes, huge_reference)},
}


def round_trip(kind: type[Document], text: str) -> None:
    """A document through a model that returns every sentence, and then one that spoils it."""
    document = kind.of(text)
    links: list[list[Links]] = [
        [frozenset((place, place) for place in range(len(line.split())))] for line in document.lines
    ]
    document.accept([[line] for line in document.lines], links)
    document.text()
    document = kind.of(text)
    further = document.accept([["x"] for _ in document.lines])
    document.accept_parts([["x"] for _ in further])
    document.text()
    document.alternatives(2)


FUNCTIONS: dict[str, Callable[[str], object]] = {
    "Document": lambda text: round_trip(Document, text),
    "HtmlDocument": lambda text: round_trip(HtmlDocument, text),
    "SubtitleDocument": lambda text: round_trip(SubtitleDocument, text),
    "around_placeholders": around_placeholders,
    "plain_text": plain_text,
    "parse_pair": parse_pair,
}


def seconds(function: Callable[[str], object], text: str, times: int) -> float:
    """The least processor time of some calls."""
    found = []
    for _ in range(times):
        start = time.thread_time()
        function(text)
        found.append(time.thread_time() - start)
    return min(found)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_time_grows_no_faster_than_the_text(function: str) -> None:
    called = FUNCTIONS[function]
    gc.disable()
    try:
        for name, write in WRITTEN.items():
            short, long = write(SHORT), write(SHORT * FACTOR)
            for times in (1, 3, 9):  # again, where something else was slow
                growth = (seconds(called, long, times) + 1e-4) / (seconds(called, short, times) + 1e-4)
                if growth < MOST:
                    break
            assert growth < MOST, f"{name}: {FACTOR} times the text takes {growth:.1f} times as long"
    finally:
        gc.enable()


@pytest.mark.parametrize("text", ["<a" * 2500, "." * 5000, '<a b="' * 800, "a" * 5000, "&#" * 2500, "1. " * 1600])
def test_the_longest_request_takes_moments(text: str) -> None:
    for kind in (Document, HtmlDocument, SubtitleDocument):
        assert seconds(partial(round_trip, kind), text, 3) < 0.2


def test_the_whole_source_is_read() -> None:
    for write in WRITTEN.values():
        text = write(200)
        assert "".join(item if isinstance(item, str) else item.text for item in read_tags(text)) == text
        assert "".join(part.text for part in split_text(text)) == text


def test_lost_placeholders_are_looked_for_in_bounded_sentences() -> None:
    """`keeps_placeholders` looks for each placeholder in the whole translation, so sentences must be bounded."""
    document = Document.of("{a}{b}x" * 2000)
    assert max(map(len, document.lines)) <= LONGEST_SENTENCE
    assert all(keeps_placeholders(line, line) for line in document.lines)
