"""Texts to sentences and back, with everything between them kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.serve.markup import HtmlDocument
from regard.serve.sentences import (
    LONGEST_SENTENCE,
    Document,
    around_placeholders,
    keeps_placeholders,
    split_text,
)


def sentences(text: str) -> list[str]:
    return [part.text for part in split_text(text) if part.translate]


def shouted(document: Document) -> str:
    links = [[{(place, place) for place in range(len(line.split()))}] for line in document.lines]
    further = document.accept([[line.upper()] for line in document.lines], links)
    document.accept_parts([[line.upper()] for line in further])
    return document.text()


@given(st.text(alphabet=st.sampled_from("ab Zé가.!?。…,\n\r\t\u2028\"'{}%s<>&;1 "), max_size=200))
def test_the_parts_are_the_text(text: str) -> None:
    assert "".join(part.text for part in split_text(text)) == text
    assert all(part.text == part.text.strip() for part in split_text(text) if part.translate)


@given(st.text(max_size=100))
def test_a_translation_that_changes_nothing_gives_the_text_back(text: str) -> None:
    document = Document.of(text)
    assert document.accept([[line] for line in document.lines]) == []
    assert document.text() == text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It rains. The cat sleeps!", ["It rains.", "The cat sleeps!"]),
        ("Dr. Smith met J. Doe. They spoke.", ["Dr. Smith met J. Doe.", "They spoke."]),
        ("Am 3. Oktober, z.B. in Berlin, ca. 5 km.", ["Am 3. Oktober, z.B. in Berlin, ca. 5 km."]),
        ("He asked: \u201cWhy?\u201d Then he left.", ["He asked: \u201cWhy?\u201d", "Then he left."]),
        ("It costs 3.50 euros. Really?! Yes.", ["It costs 3.50 euros.", "Really?!", "Yes."]),
        ("今天下雨。我在家！", ["今天下雨。", "我在家！"]),
        ("비가 온다. 고양이가 잔다.", ["비가 온다.", "고양이가 잔다."]),
        ("the cat sleeps . the dog runs .", ["the cat sleeps .", "the dog runs ."]),  # tokenised text
        ("one\n\n  two\r\n\tthree", ["one", "two", "three"]),
        ("--- * ---\n🎉\n...", []),
        ("", []),
    ],
)
def test_sentences_are_found(text: str, found: list[str]) -> None:
    assert sentences(text) == found


def test_line_breaks_and_spaces_are_kept() -> None:
    assert shouted(Document.of("  one. Two.\r\n\r\n\tthree   \n")) == "  ONE. TWO.\r\n\r\n\tTHREE   \n"


@pytest.mark.parametrize("text", ["word " * 1000, "x" * 5000, "a clause, " * 500, "漢" * 3000])
def test_no_sentence_is_longer_than_its_bound(text: str) -> None:
    parts = split_text(text)
    assert "".join(part.text for part in parts) == text
    assert max(len(part.text) for part in parts) <= LONGEST_SENTENCE


def test_a_long_sentence_is_cut_at_a_comma() -> None:
    first = sentences("this is a clause of a sentence, " * 40)[0]
    assert first.endswith("sentence,")


@pytest.mark.parametrize(
    "placeholder",
    [
        *("{name}", "{{ user.name }}", "${cost}", "%s", "%(count)d", "%1$s", "https://example.org/a?b=c"),
        *("me@example.org", "<b>", "</0>", "&nbsp;", "__NAME__"),
    ],
)
def test_placeholders_survive_a_model_that_spoils_them(placeholder: str) -> None:
    assert shouted(Document.of(f"hello {placeholder}, how are you?")) == f"HELLO {placeholder}, HOW ARE YOU?"


def test_a_model_that_keeps_placeholders_is_left_alone() -> None:
    document = Document.of("hello {name}, you")
    assert document.accept([["du, {name}, hallo"]]) == []
    assert document.text() == "du, {name}, hallo"


def test_percentages_are_no_placeholders() -> None:
    assert keeps_placeholders("50% discount and 3 %", "nothing")
    assert [part.text for part in around_placeholders("100% sure")] == ["100% sure"]


def test_alternatives_differ_and_stop_when_there_are_no_more() -> None:
    document = Document.of("one. Two.")
    document.accept([["a.", "b.", "a."], ["c."]])
    document.accept_parts([])
    assert document.text() == "a. c."
    assert document.alternatives(5) == ["b. c."]


# --- HTML ---------------------------------------------------------------------------------------------------------


def test_tags_stay_and_text_is_translated() -> None:
    html = '<p class="a>b">the cat &amp; dog. The end.</p>\n<!-- no --><br><img alt="the cat">end'
    assert shouted(HtmlDocument.of(html)) == (
        '<p class="a>b">THE CAT &amp; DOG. THE END.</p>\n<!-- no --><br><img alt="the cat">END'
    )


@pytest.mark.parametrize(
    "kept",
    [
        "<script>let cat = 1 < 2;</script>",
        "<code>the <code>cat</code> is</code>",
        '<span translate="no">the cat</span>',
        '<span class="x notranslate">the cat</span>',
        "<style>p { color: red }</style>",
    ],
)
def test_what_must_not_be_translated_is_kept(kept: str) -> None:
    assert shouted(HtmlDocument.of(f"a {kept} b")) == f"A {kept} B"


def test_what_the_model_says_cannot_become_a_tag() -> None:
    document = HtmlDocument.of("<p>hello</p>")
    document.accept([["<script>alert(1)</script> & more"]])
    document.accept_parts([])
    assert document.text() == "<p>&lt;script&gt;alert(1)&lt;/script&gt; &amp; more</p>"


def test_escaped_text_stays_escaped() -> None:
    assert shouted(HtmlDocument.of("&lt;script&gt; a &lt; b")) == "&lt;script&gt; A &lt; B"


def test_line_breaks_count_in_pre_alone() -> None:
    assert HtmlDocument.of("<p>one\ntwo</p>").lines == ["one two"]
    assert HtmlDocument.of("<pre>one\ntwo</pre>").lines == ["one", "two"]
    assert shouted(HtmlDocument.of("<pre>one\n  two</pre>")) == "<pre>ONE\n  TWO</pre>"


@given(st.text(alphabet=st.sampled_from("ab<>/!-'\"=& ;\nps"), max_size=100))
def test_any_markup_passes(text: str) -> None:
    shouted(HtmlDocument.of(text))
