"""Tags of HTML: as they were written, and found where the standard library's parser finds them."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.serve.markup import HtmlDocument
from regard.serve.tags import Tag, read_tags

WELL_FORMED = [
    *("<b>", "</b>", "<p class='a>b' id=\"x'y\">", "</p >", "<br>", "<br/>", '<img src="a" alt="<b>">', "<a href=x>"),
    *("<input disabled>", "<A HREF='x'  title = y>", "</A>", "<!-- a > b <i> -->", "<!DOCTYPE html>", "<?php x ?>"),
    *("text", " ", "a b", "1 < 2", "\n", ".", "=", "'", '"', "<script>if (a<b) c('</b>')</script>", "<h1>", "< b>"),
]


class Reference(HTMLParser):
    """The tags that the standard library finds."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self.found: list[tuple[str, str, dict[str, str]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append(("start", tag, {name: value or "" for name, value in reversed(attributes)}))

    def handle_endtag(self, tag: str) -> None:
        self.found.append(("end", tag, {}))

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)


def tags(text: str) -> list[Tag]:
    return [item for item in read_tags(text) if isinstance(item, Tag)]


@given(st.lists(st.sampled_from(WELL_FORMED), max_size=12).map("".join))
def test_tags_are_those_of_the_standard_library(text: str) -> None:
    found = [("end" if tag.is_end else "start", tag.name, dict(tag.attributes)) for tag in tags(text) if tag.name]
    assert found == Reference(text).found


@given(st.text(alphabet=st.sampled_from("ab<>/!-?'\"=& \n"), max_size=60))
def test_the_source_comes_back_whole(text: str) -> None:
    assert "".join(item if isinstance(item, str) else item.text for item in read_tags(text)) == text


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("a <b", []),  # never closed: text
        ("a < b > c <3 > d", []),
        ("x <a b='>' y", ["<a b='>' y"]),  # closed only within its quotes: kept to the end
        ("<a b='x>y", ["<a b='x>"]),  # an unclosed quote is an ordinary sign
        ("</><!x><?y><!--z", ["</>", "<!x>", "<?y>", "<!--z"]),
        ("<!--><b>", ["<!-->", "<b>"]),
        ("<title><b></title>", ["<title>", "</title>"]),
        ("<script></scripts></SCRIPT >", ["<script>", "</SCRIPT >"]),
        ("<style/><b>", ["<style/>", "<b>"]),
        ("<a=b>", ["<a=b>"]),
    ],
)
def test_malformed_markup(source: str, found: list[str]) -> None:
    assert [tag.text for tag in tags(source)] == found


def test_a_reference_beyond_any_character_is_a_replacement_sign() -> None:
    assert HtmlDocument.of(f"a &#{'9' * 5000}; b").lines == ["a \ufffd b"]


def test_an_end_of_pre_without_its_start_changes_nothing() -> None:
    assert HtmlDocument.of("</pre>one\ntwo").lines == ["one two"]
