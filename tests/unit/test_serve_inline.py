"""Inline tags in translations: the sentence is translated once without them, and links of words place them."""

from __future__ import annotations

import html as html_library
import random
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.toy import toy_corpus
from regard.serve.markup import HtmlDocument
from regard.serve.sentences import Document, Links, joined

TAG = re.compile(r"<[^>]*>")


def placed(html: str, translation: str, links: str) -> str:
    """The HTML of a translation whose words are linked as in "0-0 1-2"."""
    document = HtmlDocument.of(html)
    pairs = {(int(source), int(target)) for source, target in (pair.split("-") for pair in links.split())}
    assert document.accept([[translation]], [[pairs]]) == []
    return document.text()


def shouted(html: str) -> str:
    document = HtmlDocument.of(html)
    links: list[list[Links]] = [[{(place, place) for place in range(len(line.split()))}] for line in document.lines]
    document.accept_parts([[line.upper()] for line in document.accept([[x.upper()] for x in document.lines], links)])
    return document.text()


@pytest.mark.parametrize(
    ("html", "translation", "links", "expected"),
    [
        ("on the <i>island</i>.", "sur l'île.", "0-0 1-1 2-1", "sur <i>l'île</i>."),
        ("a <b>red</b> car", "une voiture rouge", "0-0 2-1 1-2", "une voiture <b>rouge</b>"),
        (
            "a <a href='x>y'>old man</a> is.",
            "un vieil homme est.",
            "0-0 1-1 2-2 3-3",
            "un <a href='x>y'>vieil homme</a> est.",
        ),
        ("I see <b>it</b>.", "je le vois.", "0-0 1-2 2-1", "je <b>le</b> vois."),
        ("see the <b>cat</b>!", "la voir, chat!", "0-1 1-0 2-2", "la voir, <b>chat</b>!"),
        ("see the <b>cat!</b>", "voir chat!", "0-0 2-1", "voir <b>chat!</b>"),
        ("see <b>{cat}</b>, you", "toi, vois {cat}, ah", "0-1 1-2 2-0", "toi, vois <b>{cat}</b>, ah"),
        ("<b>all of it</b>", "le tout & plus!", "", "<b>le tout &amp; plus!</b>"),
        ("<b>all</b>.", "tout.", "", "<b>tout</b>."),
        ("<b>a <i>red</i></b> car", "voiture une rouge", "0-1 1-2 2-0", "voiture <b>une <i>rouge</i></b>"),
        ("<b>a <i>red</i></b> car", "rouge une voiture", "0-1 1-0 2-2", "<b><i>rouge</i> une</b> voiture"),
        ("<i><b>red</b></i> car", "voiture rouge", "0-1 1-0", "voiture <i><b>rouge</b></i>"),
        ("<b>red</b><i> car</i>", "voiture rouge", "0-1 1-0", "<i>voiture</i> <b>rouge</b>"),
        ("  a\n<b> red </b>\ncar ", "voiture rouge", "0-0 1-1 2-0", "  voiture <b>rouge</b> "),
        ("a <b>1 &lt; 2</b> c", "x 1 < 2 y", "0-0 1-1 2-2 3-3 4-4", "x <b>1 &lt; 2</b> y"),
    ],
)
def test_elements_go_around_the_words_that_are_linked_to_theirs(
    html: str, translation: str, links: str, expected: str
) -> None:
    assert placed(html, translation, links) == expected


@pytest.mark.parametrize(
    ("html", "translation", "links", "expected"),
    [
        ("a <b>red</b> car", "une voiture", "0-0 2-1", "une voiture"),  # no word is linked to "red": dropped
        ("a <b>red car</b> here", "rouge ici voiture", "1-0 3-1 2-2", "<b>rouge ici voiture</b>"),  # widened
        ("un<b>believ</b>able it is", "incroyable est", "0-0", "<b>incroyable</b> est"),  # to the whole word
        ("no<b>!</b> not it", "non! pas", "0-0 1-1", "<b>non!</b> pas"),
        ("<b>a</b> <i>red car</i> x", "r une c b", "1-0 0-1 2-2 3-3", "<i>r</i> <b>une</b> c b"),  # the narrower first
        ("<b>a</b> <i>red</i> car", "un x", "0-0 1-0 2-1", "<b>un</b> x"),  # nothing is left for the second
        ("<b>one <i>two</b> three</i> x", "1 2 3 x", "0-0 1-1 2-2 3-3", "<b>1 2</b> 3 x"),  # overlapping
    ],
)
def test_elements_are_widened_or_dropped_where_words_do_not_fit(
    html: str, translation: str, links: str, expected: str
) -> None:
    assert placed(html, translation, links) == expected


@pytest.mark.parametrize(
    ("html", "translation", "links", "expected"),
    [
        (
            "use <code>ls -l</code> to list",
            "pour lister utilisez",
            "0-2 1-0 2-1",
            "pour lister utilisez <code>ls -l</code>",
        ),
        ("see <code>x()</code>.", "voir .", "0-0 1-1", "voir <code>x()</code>."),
        ("an <img src=a> image", "une image", "0-0 1-1", "une <img src=a> image"),
        ("<a href=x><img></a> here", "ici", "0-0", "<a href=x><img></a> ici"),
        ("a<wbr>b <!-- c -->c", "ab c", "0-0 1-1", "ab<wbr><!-- c --> c"),
        ("one <b>two", "un deux", "0-0 1-1", "un <b>deux"),
        ("one</b> two", "deux un", "0-1 1-0", "deux un</b>"),
        ("a <b></b> c", "c a", "0-1 1-0", "c a<b></b>"),
        ("one <span translate=no>two</span> three", "eins drei", "", "eins <span translate=no>two</span> drei"),
    ],
)
def test_markup_without_words_stays_beside_its_word(html: str, translation: str, links: str, expected: str) -> None:
    assert placed(html, translation, links) == expected


def test_blocks_separate_sentences_and_inline_tags_do_not() -> None:
    html = "<div>One <b>two</b><p>three <i>four</i></p></div><ul><li>five</ul>six<br>seven"
    assert HtmlDocument.of(html).lines == ["One two", "three four", "five", "six", "seven"]
    assert shouted('<p class="green">Hello!</p>') == '<p class="green">HELLO!</p>'  # LibreTranslate's own example
    assert shouted("<b>one<br>two</b> three") == "<b>ONE<br>TWO</b> THREE"
    assert shouted("<b>One. Two</b> three. Four.") == "<b>ONE. TWO</b> THREE. FOUR."
    assert shouted("<pre>one <b>two\n  three</b></pre>") == "<pre>ONE <b>TWO\n  THREE</b></pre>"


def test_placeholders_survive_beside_inline_elements() -> None:
    assert shouted("hello <b>{name}</b>, <i>you</i>") == "HELLO <b>{name}</b>, <i>YOU</i>"


def test_pieces_are_linked_to_their_translations() -> None:
    found = joined([("see", "vois"), (" ", " "), ("{a}", "{a}"), (",", ","), (" ", " "), ("my cat", "mon beau chat")])
    assert found.text == "vois {a}, mon beau chat"
    assert found.links == {(0, 0), (1, 1), (2, 2), (2, 4), (3, 2), (3, 4)}


# --- generated ----------------------------------------------------------------------------------------------------


def marked(words: list[str], choose: random.Random, depth: int = 0) -> str:
    """The words with random inline tags around and within them."""
    if not words or depth > 3:
        return " ".join(words)
    cut = sorted(choose.randrange(len(words) + 1) for _ in range(2))
    inside = marked(words[cut[0] : cut[1]], choose, depth + 1)
    name = choose.choice(["b", "i", "a href='x'", "span class=y"])
    if inside and choose.random() < 0.8:
        inside = f"<{name}>{inside}</{name.split()[0]}>"
    behind = words[cut[1] :]
    rest = marked(behind, choose, depth + 1) if choose.random() < 0.5 else " ".join(behind)
    return " ".join(filter(None, [" ".join(words[: cut[0]]), inside, rest]))


def generated(count: int) -> Iterator[tuple[str, str, str, Links]]:
    choose = random.Random(5)
    for languages in ("en-fr", "en-de", "en-ko"):
        for pair in toy_corpus("phrases", languages).generate("valid", count, seed=3):
            yield marked(pair.source.split(), choose), pair.source, pair.target, frozenset(pair.possible)


def check_nesting(html: str) -> None:
    """Every tag is closed, in its parent, at the border of a word, and holds something."""
    opened: list[str] = []
    for tag in TAG.findall(html):
        if tag.startswith("</"):
            assert opened.pop() == tag[2:-1]
        else:
            opened.append(tag[1:-1].split()[0])
    assert not opened
    assert not re.search(r"\w(?:<[^>]*>)+\w", html), html
    assert not re.search(r"<(\w+)[^>]*>\s*</\1>", html), html


def test_a_generated_sentence_is_translated_whole_and_comes_back_whole() -> None:
    kept = written = 0
    for html, source, target, links in generated(150):
        document = HtmlDocument.of(html)
        assert "".join(document.lines) == "".join(Document.of(source).lines) or len(document.lines) > 1
        if document.lines != [source]:  # several sentences
            continue
        document.accept([[target]], [[links]])
        found = document.text()
        assert html_library.unescape(TAG.sub("", found)) == target
        check_nesting(found)
        left = TAG.findall(html)
        for tag in TAG.findall(found):
            left.remove(tag)
        written += html.count("</")
        kept += found.count("</")
    assert written > 300
    assert kept > 0.9 * written


def test_the_words_inside_are_those_of_the_gold_links() -> None:
    exact = tried = 0
    for _, source, target, links in generated(100):
        words, others = source.split(), target.split()
        for place in range(len(words)):
            own = sorted(b for a, b in links if a == place and any(map(str.isalnum, others[b])))
            if not own or own != list(range(own[0], own[-1] + 1)) or not any(map(str.isalnum, words[place])):
                continue
            html = " ".join([*words[:place], f"<b>{words[place]}</b>", *words[place + 1 :]])
            document = HtmlDocument.of(html)
            if document.lines != [source]:
                continue
            document.accept([[target]], [[links]])
            inside = re.search("<b>(.*)</b>", document.text())
            tried += 1
            exact += inside is not None and re.findall(r"\w+", inside[1]) == re.findall(
                r"\w+", " ".join(others[own[0] : own[-1] + 1])
            )
    assert tried > 300
    assert exact == tried


PIECES = ["<b>", "</b>", "<i>", "</i>", "<u>", "</u>", "<wbr>", "<p>", "a", "b. ", "C", " ", "!", "&amp;", "{x}"]


@given(st.lists(st.sampled_from(PIECES)).map("".join), st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6))))
def test_whatever_the_tags_the_text_is_the_translation(html: str, links: Links) -> None:
    document, bare = HtmlDocument.of(html), HtmlDocument.of(html)
    for _, run in bare.runs.values():
        run.root.children.clear()
    for each in (document, bare):
        further = each.accept([[f"x, {line.upper()} y"] for line in each.lines], [[links] for _ in each.lines])
        each.accept_parts([[line.upper()] for line in further])
    assert TAG.sub("", document.text()) == TAG.sub("", bare.text())
