"""A new visitor on the live page: it opens with a sentence, it moves, a ribbon is pulled, the sentence changes."""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from page_help import SENTENCE, serving, visiting
from playwright.sync_api import expect

import regard

Open = Callable[..., Any]
expect.set_options(timeout=20_000)

DESKTOP = {"viewport": {"width": 1440, "height": 900}}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest.fixture(scope="module")
def address(browser: Any, translators: dict[str, regard.Translator]) -> Iterator[str]:
    names = ("bahdanau", "heads")
    with serving({name: translators[name] for name in names}, samples=(SENTENCE, "five six seven")) as found:
        yield found


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Open]:
    """Open the page; whatever the browser complains about fails the test."""
    with visiting(browser, address, **DESKTOP) as opening:
        yield opening


def middle(place: Any) -> tuple[float, float]:
    box = place.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def knob(page: Any, row: int) -> Any:
    """The strongest ribbon's end of a target word, lit by a click on the word."""
    page.locator(".word.target").nth(row).click()
    found = page.locator(f'.knob[data-row="{row}"]').first
    found.wait_for()
    return found


def pull(page: Any, grip: Any, word: Any, release: bool = True) -> None:
    """Pull a ribbon by its end to a source word."""
    page.mouse.move(*middle(grip))
    page.mouse.down()
    page.mouse.move(*middle(word), steps=8)
    if release:
        page.mouse.up()


def serious(page: Any) -> list[tuple[str, str]]:
    """What axe-core calls serious or critical, with where it is."""
    found = Axe().run(page).response["violations"]
    return [
        (fault["id"], node["html"][:200])
        for fault in found
        if fault["impact"] in ("serious", "critical")
        for node in fault["nodes"]
    ]


def walk(page: Any, translators: dict[str, Any]) -> None:
    """Open → it moves → drag → the sentence changes → undo."""
    translator = translators["bahdanau"]
    look = translator.look(SENTENCE)
    words = page.locator(".word.target")
    expect(words).to_have_count(len(look.target.units))
    expect(page.locator(".word.coming")).to_have_count(0)
    assert words.all_inner_texts() == look.target.words
    assert page.locator(".ribbon.rest").count() == len(look.target.words)  # the strongest of each word
    row = 1
    grip = knob(page, row)
    column = int(grip.get_attribute("data-column"))
    other = (column + 2) % len(look.source.words)
    pull(page, grip, page.locator(".source .word").nth(other), release=False)
    expect(page.locator(".source .word").nth(other)).to_have_class("word glow")
    expect(words.nth(row)).not_to_have_text(look.target.words[row])  # while the ribbon is still in hand
    assert page.locator(".change-bar").is_hidden()
    page.mouse.up()
    expect(page.locator(".change-bar")).to_be_visible()
    assert page.locator(".word.changed s").first.inner_text() == look.target.words[row]
    assert page.locator(".ribbon.edited").count() > 0
    assert page.locator(".ribbon.ghost").count() > 0
    page.locator(".change-bar button").first.click()
    expect(page.locator(".change-bar")).to_be_hidden()
    assert words.all_inner_texts() == look.target.words


@pytest.mark.parametrize(
    "settings",
    [DESKTOP, {**PHONE, "color_scheme": "dark", "locale": "ko-KR"}],
    ids=["desktop", "phone"],
)
def test_a_visitor_pulls_a_ribbon(visit: Open, translators: dict[str, Any], settings: dict[str, Any]) -> None:
    walk(visit(**settings), translators)


@pytest.mark.slow
@pytest.mark.parametrize("screen", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("locale", ["en-US", "ko-KR"])
def test_on_every_screen(
    visit: Open, translators: dict[str, Any], screen: dict[str, Any], colours: str, locale: str
) -> None:
    page = visit(**screen, color_scheme=colours, locale=locale)
    walk(page, translators)
    assert page.evaluate("document.documentElement.scrollWidth") <= screen["viewport"]["width"]
    assert serious(page) == []


def test_it_moves_by_itself_word_by_word(visit: Open) -> None:
    page = visit()
    seen = set()
    for _ in range(200):
        seen.add(page.locator(".word.target:not(.coming)").count())
        if len(seen) > 3:
            break
        page.wait_for_timeout(20)
    assert len(seen) > 3
    expect(page.locator(".word.coming")).to_have_count(0)


def test_the_invitation_keeps_its_word(visit: Open, translators: dict[str, Any]) -> None:
    page = visit(reduced_motion="reduce")
    line = page.locator(".invitation strong")
    line.first.wait_for()
    word, other = line.all_inner_texts()
    before = page.locator(".word.target").all_inner_texts()
    page.get_by_role("button", name="Show me").click()
    expect(page.locator(".change-bar")).to_be_visible()
    after = page.locator(".word.target bdi").all_inner_texts()
    changed = [place for place, (was, now) in enumerate(zip(before, after, strict=True)) if was != now]
    assert [before[place] for place in changed] == [word]
    assert other in SENTENCE.split()
    assert page.locator(".invitation").is_hidden()


def test_the_overview_comes_back(visit: Open) -> None:
    page = visit(reduced_motion="reduce")
    overview = page.locator(".ribbon.rest")
    expect(overview).not_to_have_count(0)
    count = overview.count()
    page.locator(".word.target").nth(1).hover()
    expect(overview).to_have_count(0)
    page.locator("h1").hover()  # leaving
    expect(overview).to_have_count(count)
    for release in ("Escape", "click beside"):
        page.locator(".word.target").nth(1).click()
        page.locator("h1").hover()
        expect(overview).to_have_count(0)  # it was clicked, so it stays
        page.locator(".source .word").first.hover()  # who attends to it, always
        chosen = page.locator(".ribbon.chosen").evaluate_all("(all) => all.map((each) => each.dataset.link)")
        assert chosen
        assert page.locator(".source .word.here").count() == 1
        page.locator("h1").hover()
        if release == "Escape":
            page.keyboard.press("Escape")
        else:
            page.locator(".ribbons .gap").click(position={"x": 3, "y": 3})
        expect(overview).to_have_count(count)


def test_one_screen_holds_it_all(visit: Open) -> None:
    page = visit(reduced_motion="reduce")
    page.locator(".invitation").wait_for()
    for part in ("textarea", ".cards", ".ribbons", ".player", ".invitation", "svg.matrix", ".side .bars"):
        box = page.locator(part).first.bounding_box()
        assert box["y"] + box["height"] <= 900, part
    page.locator('.card[data-model="heads"] .whole').click()
    thumb = page.get_by_role("button", name="Layer 2, head 3")
    assert thumb.bounding_box()["y"] + 30 <= 900  # a click on a head changes what is on screen
    thumb.click()
    assert thumb.get_attribute("aria-pressed") == "true"


def test_long_sentences_stand_in_columns_and_nothing_crosses_a_letter(visit: Open) -> None:
    text = " ".join(["one two three four five six seven"] * 5)
    page = visit(f"text={quote(text)}&model=heads&look=heads")
    page.locator('.ribbons[data-layout="columns"]').wait_for()
    assert page.locator("canvas.matrix").is_visible()  # more than 30 words: painted
    page.locator(".ribbon").first.wait_for(state="attached")
    crossing = page.evaluate(
        """() => {
          const words = [...document.querySelectorAll(".ribbons .word bdi")].map((one) => one.getBoundingClientRect());
          const over = (x, y) => words.some((box) => x > box.left && x < box.right && y > box.top && y < box.bottom);
          return [...document.querySelectorAll("path.ribbon")].filter((path) => {
            const length = path.getTotalLength(), svg = path.ownerSVGElement.getBoundingClientRect();
            const points = Array.from({ length: 30 }, (_, k) => path.getPointAtLength((length * k) / 29));
            return points.some(({ x, y }) => over(x + svg.x, y + svg.y));
          }).length;
        }"""
    )
    assert crossing == 0
    page.locator(".thumb").nth(8).wait_for()  # the heads come after the first picture
    page.get_by_role("button", name="Step by step").click()
    page.locator(".attention-table").wait_for()  # and the numbers when they are asked for
    assert page.locator(".attention-table thead th").count() <= 15


@pytest.mark.parametrize("screen", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_of_64_words_the_lit_one_and_its_partner_are_in_sight(visit: Open, screen: dict[str, Any]) -> None:
    text = " ".join(["one two three four five six seven"] * 10).split()[:64]
    page = visit(f"text={quote(' '.join(text))}&model=heads&look=heads", **screen, reduced_motion="reduce")
    stage, words = page.locator(".ribbons"), page.locator(".ribbons .word.target")
    expect(stage).to_have_attribute("data-layout", "columns")
    expect(words.nth(60)).to_be_visible()
    for number in (2, 30, 60):
        # at once, since steps that arrive draw the words again; the focus stays
        page.evaluate("(number) => document.querySelectorAll('.ribbons .word.target')[number].focus()", number)
        expect(words.nth(number)).to_have_attribute("aria-current", "true")
        page.wait_for_timeout(100)
        outside = page.evaluate(
            """() => {
              const weight = (word) => +getComputedStyle(word).getPropertyValue("--weight");
              const words = [...document.querySelectorAll(".ribbons .source .word")];
              const best = words.reduce((one, other) => (weight(other) > weight(one) ? other : one));
              const frame = document.querySelector(".ribbons").getBoundingClientRect();
              return [best, document.querySelector(".ribbons [aria-current]")].filter((word) => {
                const box = word.getBoundingClientRect();
                return box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
              }).length;
            }"""
        )
        assert outside == 0, number
    overview = page.locator(".overview")
    assert overview.is_visible()
    overview.scroll_into_view_if_needed()
    box = overview.bounding_box()
    page.mouse.click(box["x"] + 10, box["y"] + 3)
    assert stage.evaluate("(one) => one.scrollTop") == 0
    page.mouse.click(box["x"] + 10, box["y"] + box["height"] - 3)
    assert stage.evaluate("(one) => one.scrollTop + one.clientHeight > one.scrollHeight - 5")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_hidden_end_of_sentence_is_shown_where_it_matters(visit: Open, translators: dict[str, Any]) -> None:
    page = visit("text=one%20two%20three%20four&model=heads&look=heads", reduced_motion="reduce")
    look = translators["heads"].look(SENTENCE)
    page.locator("svg.matrix").wait_for()
    matters = any(max(row) == row[-1] for row in look.alignment[: len(look.target.words)])
    assert (page.locator(".source .word.special").count() == 1) == matters


def test_terms_are_explained_in_place_and_the_tour_has_four_steps(visit: Open) -> None:
    page = visit(reduced_motion="reduce")
    page.get_by_role("button", name="What is this: Entropy?").click()
    assert "in bits" in page.locator(".explanation:popover-open").inner_text()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Tour").click()
    for _ in range(3):
        expect(page.locator(".toured")).to_have_count(1)
        page.get_by_role("button", name="Next", exact=True).click()
    page.get_by_role("button", name="Done").click()
    assert page.locator(".tour, .toured").count() == 0
    page.get_by_role("button", name="Tour").click()
    page.get_by_role("button", name="Skip").click()
    assert page.locator(".tour, .toured").count() == 0


@pytest.mark.parametrize("panel", ["matrix", "steps", "map", "beam"])
def test_axe_finds_no_serious_fault(visit: Open, panel: str) -> None:
    page = visit(f"text=one%20two%20three&model=heads&model=bahdanau&look=heads&panel={panel}", reduced_motion="reduce")
    page.locator(".word.target").first.wait_for()
    if panel in ("map", "beam"):
        page.locator("svg.tree, .diagram svg").first.wait_for()
    assert serious(page) == []
