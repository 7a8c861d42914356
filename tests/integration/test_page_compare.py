"""Two models over one source line, several heads at once, and the fixed vector under change, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from page_help import MARKUP, SENTENCE, serving, visiting
from playwright.sync_api import expect
from test_page_alive import DESKTOP, PHONE, serious

import regard
from regard.look.record import Gold
from regard.look.views.html import render_html

Open = Callable[..., Any]
expect.set_options(timeout=20_000)
THREE = f"text={quote(SENTENCE)}&model=bahdanau&model=heads&model={quote(MARKUP)}&look=bahdanau"


@pytest.fixture(scope="module")
def address(browser: Any, translators: dict[str, regard.Translator]) -> Iterator[str]:
    with serving({name: translators[name] for name in ("bahdanau", "heads", MARKUP)}) as found:
        yield found


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Open]:
    """Open the page without fading; whatever the browser complains about fails the test."""
    with visiting(browser, address, **DESKTOP, reduced_motion="reduce") as opening:
        yield opening


def strongest(look: Any) -> list[int]:
    """The source word of the largest weight, for each target word; words and units are the same here."""
    words = [[piece.word for piece in side.pieces] for side in (look.source, look.target)]
    found = []
    for target in range(len(look.target.words)):
        rows = [row for row, word in zip(look.alignment, words[1], strict=True) if word == target]
        sums: dict[int | None, float] = {}
        for row in rows:
            for weight, word in zip(row, words[0], strict=True):
                sums[word] = sums.get(word, 0) + weight
        best = max(sums, key=lambda word: sums[word])
        found.append(len(look.source.words) if best is None else best)
    return found


def test_two_models_share_a_source_line_and_light_together(visit: Open, translators: dict[str, Any]) -> None:
    page = visit(THREE)
    page.locator('[data-model="heads"] .compare-with').click()
    one, two = (translators[name].look(SENTENCE) for name in ("bahdanau", "heads"))
    first, second = page.locator(".compare .first .word"), page.locator(".compare .second .word")
    expect(first).to_have_count(len(one.target.words))
    assert first.all_inner_texts() == one.target.words
    assert second.all_inner_texts() == two.target.words
    assert page.locator(".compare .source .word:not(.special)").all_inner_texts() == one.source.words
    assert page.locator(".ribbons-part").is_hidden()
    rest = page.locator(".compare .ribbon.rest")
    expect(rest).to_have_count(len(one.target.words) + len(two.target.words))  # the strongest of each word
    heights = [page.locator(f".compare .{key}").bounding_box()["y"] for key in ("first", "source", "second")]
    assert heights == sorted(heights)
    # a source word lights both bands
    column = strongest(one)[0]
    page.locator(".compare .source .word").nth(column).hover()
    expect(rest).to_have_count(0)
    assert page.locator(".compare .ribbon.chosen").count() >= 1
    # a word of the second translation lights what belongs to it in the first
    second.nth(0).focus()
    expect(second.nth(0)).to_have_class(re.compile(r"\bhere\b"))
    ours, theirs = strongest(one), strongest(two)
    belong = [word for word, place in zip(one.target.words, ours, strict=True) if place == theirs[0]]
    if not set(one.target.words) & set(two.target.words):
        assert page.locator(".compare .first .here").all_inner_texts() == belong
    # a word of the first translation is in view in the matrix too
    first.nth(1).hover()
    expect(page.locator("svg.matrix .label.in-row")).to_have_text(one.target.words[1])
    page.keyboard.press("Escape")
    expect(rest).not_to_have_count(0)
    assert "beside=heads" in (page.wait_for_timeout(400), page.url)[1]
    # the two change places
    page.locator('[data-model="heads"] .whole').click()
    assert first.all_inner_texts() == two.target.words
    page.get_by_role("button", name="Close the comparison").click()
    assert page.locator(".compare").is_hidden()
    assert page.locator(".ribbons-part").is_visible()


def test_differing_words_are_marked_and_a_model_without_attention_says_so(
    visit: Open, translators: dict[str, Any]
) -> None:
    page = visit(f"{THREE}&beside={quote(MARKUP)}")
    page.locator(".compare .second .word").first.wait_for()
    assert (
        f"one vector of {translators[MARKUP].look(SENTENCE).dimensions.summary} numbers"
        in page.locator(".band-note").inner_text()
    )
    one, two = (translators[name].look(SENTENCE).target.words for name in ("bahdanau", MARKUP))
    marked = page.locator(".compare .first .differs").count()
    equal = set(one) & set(two)
    assert marked == 0 if not equal else marked >= sum(word not in two for word in one)


@pytest.mark.parametrize("settings", [{"color_scheme": "dark"}, {**PHONE, "color_scheme": "dark", "locale": "ko-KR"}])
def test_the_comparison_fits_the_screen_and_axe_finds_nothing(visit: Open, settings: dict[str, Any]) -> None:
    page = visit(f"{THREE}&beside=heads", **settings)
    word = page.locator(".compare .first .word").nth(1)
    word.wait_for()
    if "has_touch" in settings:
        assert page.locator(".compare").get_attribute("data-layout") == "columns"
        word.tap()
    else:
        word.hover()
    expect(word).to_have_class(re.compile(r"\bhere\b"))
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert serious(page) == []


def test_gold_links_are_drawn_where_the_corpus_has_them(
    visit: Open, translators: dict[str, Any], tmp_path: Path
) -> None:
    one, two = (translators[name].look(SENTENCE) for name in ("bahdanau", "heads"))
    places = strongest(one)
    right = [(column, row) for row, column in enumerate(places)]
    right[0] = ((places[0] + 1) % len(one.source.words), 0)  # one that the model misses
    gold = Gold(target=one.target.text, sure=right, possible=right)
    path = tmp_path / "two.html"
    path.write_text(render_html([one.model_copy(update={"gold": gold}), two]), "utf-8")
    page = (
        visit(f"beside={two.model.name}", at=path.as_uri())
        if one.model.name != two.model.name
        else visit(at=path.as_uri())
    )
    if not page.locator(".compare").is_visible():
        page.locator(".compare-with").click()
    lines = page.locator(".compare .ribbon-lines .gold-link")
    expect(lines).to_have_count(len(right))
    words = len(one.target.words)
    assert f"{words - 1} of {words} words" in page.locator(".band-name").first.inner_text()
    page.get_by_label("Gold links").uncheck()
    expect(lines).to_have_count(0)


def test_the_fixed_vector_moves_with_a_word(visit: Open, translators: dict[str, Any]) -> None:
    page = visit(f"text={quote(SENTENCE)}&model={quote(MARKUP)}&look={quote(MARKUP)}")
    translator, words = translators[MARKUP], SENTENCE.split()
    buttons = page.locator(".swap button")
    expect(buttons).to_have_count(len(words))
    without = [" ".join(words[:j] + words[j + 1 :]) for j in range(len(words))]
    for j, move in enumerate(translator.vector_moves(SENTENCE, without)):
        expect(page.locator(".swap .bar").nth(j)).to_have_css("--share", str(min(move.distance, 1)))
    changed = SENTENCE.replace("two", "seven")
    (move,) = translator.vector_moves(SENTENCE, [changed])
    buttons.nth(1).focus()
    page.keyboard.press("Enter")
    page.keyboard.type("seven")
    page.keyboard.press("Enter")
    told = page.locator(".moved")
    expect(told).to_contain_text(f"cosine {move.cosine:.3f}")
    share = f"{move.distance * 100:.{1 if move.distance < 0.1 else 0}f}%"
    assert f"“two” → “seven”: the vector moves by {share}" in told.inner_text()
    assert translator.look(changed).target.text in told.inner_text()
    expect(buttons.nth(1)).to_be_focused()
    assert serious(page) == []
    page.get_by_role("button", name="Put the word back").click()
    assert page.locator(".moved").count() == 0
    assert buttons.all_inner_texts() == words


@pytest.mark.parametrize("screen", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_vector_is_as_narrow_as_its_neck(visit: Open, screen: dict[str, Any]) -> None:
    page = visit(f"text={quote(SENTENCE)}&model={quote(MARKUP)}&look={quote(MARKUP)}", **screen)
    page.locator(".the-vector svg").wait_for()
    neck = page.locator(".funnel").first.evaluate(
        "(one) => parseFloat(getComputedStyle(one).getPropertyValue('--neck'))"
    )
    vector, sentence = (page.locator(part).first.bounding_box()["width"] for part in (".the-vector", ".funnel"))
    assert vector == pytest.approx(neck, abs=1)
    assert vector < sentence / 2  # a bottleneck


def colours(page: Any, selector: str) -> set[str]:
    found: list[str] = page.locator(selector).evaluate_all(
        "(all) => all.map((each) => getComputedStyle(each)[each.matches('.stripe') ? 'fill' : 'stroke'])"
    )
    return set(found)


def test_several_heads_are_shown_at_once_each_in_its_colour(visit: Open, translators: dict[str, Any]) -> None:
    page = visit(f"text={quote(SENTENCE)}&model=heads&look=heads")
    head = lambda layer, number: page.get_by_role("button", name=f"Layer {layer}, head {number}", exact=True)  # noqa: E731
    head(1, 1).click()
    head(2, 3).click(modifiers=["Shift"])
    head(1, 4).click(modifiers=["Control"])
    look = translators["heads"].look(SENTENCE)
    chips = page.locator(".legend li")
    expect(chips).to_have_count(3)
    words = len(look.target.words)
    expect(page.locator(".ribbon.rest")).to_have_count(3 * words)  # the strongest of each word and head
    assert len(colours(page, ".ribbon")) == 3
    assert colours(page, ".ribbon") == colours(page, ".stripe")
    cell = page.locator("svg.matrix .cell").first
    stripes = cell.locator(".stripe").evaluate_all("(all) => all.map((each) => +each.getAttribute('fill-opacity'))")
    cross = look.attention["cross"]
    assert stripes == pytest.approx([cross[0][0][0][0], cross[1][2][0][0], cross[0][3][0][0]], abs=1e-3)
    assert "Layer 2, head 3" in cell.get_attribute("aria-label")
    assert page.locator(".head-table tbody tr").count() == 3
    assert page.locator(".grip, .knob").count() == 0  # nothing to pull: whose weight would it be?
    page.wait_for_timeout(400)
    again = visit(page.url.partition("#")[2])
    expect(again.locator(".legend li")).to_have_count(3)
    head(1, 4).click(modifiers=["Shift"])  # off again
    expect(chips).to_have_count(2)
    page.get_by_role("button", name="Remove: Layer 1, head 1").press("Enter")
    expect(page.locator(".legend")).to_be_hidden()  # one map again
    assert head(2, 3).get_attribute("aria-pressed") == "true"
    assert page.locator(".stripe").count() == 0


def test_a_finger_chooses_several_heads(visit: Open) -> None:
    fragment = f"text={quote(SENTENCE)}&model=heads&look=heads"
    page = visit(fragment, **PHONE, color_scheme="dark", locale="ko-KR")
    page.get_by_label("여러 헤드").tap()
    for number in (1, 3, 6):
        page.locator(".thumb").nth(number).tap()
    expect(page.locator(".legend li")).to_have_count(3)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert serious(page) == []
    page.locator(".legend .alone-head").nth(1).tap()
    expect(page.locator(".legend")).to_be_hidden()


def test_long_sentences_paint_several_heads_too(visit: Open) -> None:
    text = " ".join(["one two three four five six seven"] * 5)
    page = visit(f"text={quote(text)}&model=heads&look=heads&heads=0.0,1.1")
    expect(page.locator(".legend li")).to_have_count(2)  # once the maps have come
    painted = page.locator("canvas.matrix").evaluate(
        """(canvas) => {
          const pen = canvas.getContext("2d"), { data } = pen.getImageData(0, 0, canvas.width, canvas.height);
          let [blue, orange] = [0, 0];
          for (let k = 0; k < data.length; k += 4) {
            if (data[k + 2] > data[k] + 9) blue++;
            if (data[k] > data[k + 2] + 1) orange++;
          }
          return [blue, orange];
        }"""
    )
    assert min(painted) > 20
