"""Images on the live page, in a real browser before a real server."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from image_help import image_models, picture
from page_help import SENTENCE, serving, share, visiting
from PIL import Image
from playwright.sync_api import expect
from serve_help import tiny
from test_page_alive import serious

from regard.nn.attention.intervention import Intervention

Open = Callable[..., Any]
expect.set_options(timeout=20_000)

# Numbers that a browser could read in its own way lie in the pixels, so PNG: what is sent is what was chosen.
CHOSEN = picture((24, 12), seed=5)


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    return {model.name: model for model in image_models()}


@pytest.fixture(scope="module")
def address(browser: Any, models: dict[str, Any]) -> Iterator[str]:
    with serving({"words": tiny(shouting=False)}, models.values()) as found:
        yield found


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Open]:
    """Open the page with a fragment, without fading; whatever the browser complains about fails the test."""
    with visiting(browser, address, reduced_motion="reduce") as opening:
        yield opening


def choose(page: Any, content: bytes, name: str = "mine.png", kind: str = "image/png") -> None:
    page.locator("input[type=file]").set_input_files({"name": name, "mimeType": kind, "buffer": content})


def pixels(content: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(content)) as opened:
        return np.asarray(opened.convert("RGB"))


def veils(page: Any) -> list[float]:
    found: list[float] = page.locator(".veil:visible").evaluate_all(
        "(all) => all.map((each) => +getComputedStyle(each).fillOpacity)"
    )
    return found


def test_an_image_is_chosen_and_each_word_shows_where_it_looked(visit: Open, models: dict[str, Any]) -> None:
    page = visit("model=scenes&overlay=veil")
    page.get_by_role("button", name="Image", exact=True).click()
    choose(page, CHOSEN)
    look = models["scenes"].captioner.look(pixels(CHOSEN))
    expect(page.locator('.card[data-model="scenes"] .translation')).to_have_text(look.target.text)
    words = page.locator(".picture .word")
    assert words.all_inner_texts() == look.target.words
    expect(page.locator(".veil").first).to_be_visible()
    assert max(veils(page)) == 0  # nothing is veiled before a word is pointed at
    for number in (1, 0):
        words.nth(number).hover()
        expect(words.nth(number)).to_have_attribute("aria-current", "true")
        weights = np.array(look.alignment[number])
        assert veils(page) == pytest.approx(0.72 * (1 - weights / weights.max()), abs=2e-3)
    best = int(weights.argmax())
    assert f"row {best // 4 + 1}, column {best % 4 + 1}" in words.first.get_attribute("aria-label")
    words.first.focus()
    page.keyboard.press("Tab")
    expect(words.nth(1)).to_have_attribute("aria-current", "true")
    names = page.locator(".panel .candidate .name bdi").all_inner_texts()
    assert names == [each.piece for each in look.steps[1].candidates]
    assert "4 × 4 cells" in page.locator(".picture-part").inner_text()
    assert page.locator(".attention-table").is_visible()
    assert page.locator(".tree-part, svg.matrix, .ribbons").locator("visible=true").count() == 0


def interpolated(weights: np.ndarray, x: float, y: float) -> float:
    """Between the middles of four cells; around the image there are zeros. x and y count cells."""
    around = np.pad(weights, 1)
    column, row = int(np.floor(x + 0.5)), int(np.floor(y + 0.5))
    right, down = x + 0.5 - column, y + 0.5 - row
    (a, b), (c, d) = around[row : row + 2, column : column + 2]
    return (a * (1 - right) + b * right) * (1 - down) + (c * (1 - right) + d * right) * down


def test_contours_run_where_the_attention_is_half_its_maximum(visit: Open, models: dict[str, Any]) -> None:
    page = visit("model=scenes&image=")
    choose(page, CHOSEN)
    look = models["scenes"].captioner.look(pixels(CHOSEN))
    words = page.locator(".picture .word")
    expect(words).to_have_count(len(look.target.words))
    assert page.locator(".picture .word .small-cells .contour").count() == 3 * len(look.target.words)  # at rest
    assert page.locator("svg.cells .contours").count() == 0
    words.nth(1).hover()
    line = page.locator("svg.cells .contour-2")
    expect(line).to_have_count(1)
    assert max(veils(page)) == 0
    weights = np.array(look.alignment[1]).reshape(4, 4)
    width, height = (float(page.locator("svg.cells").get_attribute(name)) for name in ("width", "height"))
    points = re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", line.get_attribute("d"))
    assert len(points) > 10
    for x, y in points[::7]:
        value = interpolated(weights, float(x) * 4 / width, float(y) * 4 / height)
        assert value == pytest.approx(weights.max() / 2, rel=0.05)
    page.get_by_role("button", name="Veil").click()
    expect(page.locator(".contour")).to_have_count(0)
    assert max(veils(page)) > 0
    assert page.locator(".word .small-veil").count() == 16 * len(look.target.words)
    page.get_by_role("button", name="Contours").press("Enter")
    expect(line).to_have_count(1)


@pytest.mark.parametrize("model", ["scenes", "bam"])
def test_axe_finds_no_serious_fault_in_images(visit: Open, model: str) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    page = visit(f"image=scenes.3&model={model}&look={model}", color_scheme="dark", locale="ko-KR", **phone)
    chosen = page.locator(".picture .word, button.map").first
    chosen.tap()
    expect(page.locator("svg.cells .contour").first).to_be_attached()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert serious(page) == []


def test_the_words_are_played_one_after_another(visit: Open, models: dict[str, Any]) -> None:
    page = visit("image=scenes.3&model=scenes&look=scenes")
    words = page.locator(".picture .word")
    page.get_by_role("button", name="Play").click()
    for number in (0, 1, 2):
        expect(words.nth(number)).to_have_attribute("aria-current", "true")
    page.get_by_role("button", name="Pause").click()
    assert page.get_by_role("button", name="Play").is_visible()


def test_a_cell_is_forbidden_by_click_and_by_key_and_allowed_again(visit: Open, models: dict[str, Any]) -> None:
    page = visit("model=scenes&image=")
    choose(page, CHOSEN)
    page.get_by_role("button", name="Mask “row 2, column 2”").click()
    expect(page.locator(".changes .chip")).to_have_count(1)
    page.locator(".veil").nth(5).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator(".changes .chip")).to_have_count(2)
    expected = models["scenes"].captioner.look(pixels(CHOSEN), intervention=Intervention((5, 6)))
    with page.expect_download() as kept:
        share(page, "Download JSON")
    record = json.loads(Path(kept.value.path()).read_text("utf-8"))
    assert record["target"]["text"] == expected.target.text
    assert all(row[5] == row[6] == 0 for row in record["alignment"])
    assert page.locator(".veil.banned").count() == 2
    page.get_by_role("button", name="Unmask “row 2, column 2”").click()
    expect(page.locator(".veil.banned")).to_have_count(1)
    page.get_by_role("button", name="Reset").click()
    expect(page.locator(".changes")).to_be_hidden()


def test_a_brush_masks_several_cells_at_once(visit: Open, models: dict[str, Any]) -> None:
    page = visit("model=scenes&image=")
    choose(page, CHOSEN)
    page.locator(".veil").nth(6).scroll_into_view_if_needed()
    first, last = (page.locator(".veil").nth(cell).bounding_box() for cell in (4, 6))
    page.mouse.move(first["x"] + first["width"] / 2, first["y"] + first["height"] / 2)
    page.mouse.down()
    page.mouse.move(last["x"] + last["width"] / 2, last["y"] + last["height"] / 2, steps=12)
    expect(page.locator(".veil.banned")).to_have_count(3)  # while the brush is down
    page.mouse.up()
    expect(page.locator(".change-bar strong")).to_have_text("1 change")
    expected = models["scenes"].captioner.look(pixels(CHOSEN), intervention=Intervention((4, 5, 6)))
    expect(page.locator(".card.here .translation")).to_have_text(expected.target.text)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".veil.banned")).to_have_count(0)


def test_another_word_is_said_instead(visit: Open, models: dict[str, Any]) -> None:
    page = visit("model=scenes&image=")
    choose(page, CHOSEN)
    look = models["scenes"].captioner.look(pixels(CHOSEN))
    page.locator(".picture .word").first.hover()
    other = next(each for each in look.steps[0].candidates if each.id != look.steps[0].id and each.piece != "</s>")
    page.get_by_role("button", name=f"Continue with “{other.piece}”,").click()
    expect(page.locator(".changes .chip")).to_have_count(1)
    expected = models["scenes"].captioner.look(pixels(CHOSEN), prefix=[other.id])
    expect(page.locator(".card.here .translation")).to_have_text(expected.target.text)


def test_a_classifier_shows_its_classes_and_maps(visit: Open, models: dict[str, Any]) -> None:
    page = visit("model=bam&look=bam&image=&overlay=veil")
    choose(page, CHOSEN)
    page.locator(".seen-part .map").first.wait_for()
    with page.expect_download() as kept:
        share(page, "Download JSON")
    record = json.loads(Path(kept.value.path()).read_text("utf-8"))
    assert page.locator(".card .translation").inner_text() == record["label"]
    shown = page.locator(".seen-part .bars .name").all_inner_texts()
    assert shown == sorted(record["probabilities"], key=lambda name: -record["probabilities"][name])
    assert page.locator(".seen-part b").count() == 0  # a class called <b>cat</b> stays text
    titles = page.locator(".seen-part .map span").all_inner_texts()
    assert titles == ["Before", "Channel branch M_c", "Spatial branch M_s", "σ(M_c + M_s)", "After"]
    assert page.locator(".seen-part .operator").all_inner_texts() == ["→", "+", "→", "→"]
    page.locator(".map", has_text="After").focus()
    after = np.array(record["modules"][0]["after"])
    assert veils(page) == pytest.approx(0.72 * (1 - after.ravel() / after.max()), abs=2e-3)
    page.locator(".map", has_text="σ(").click()
    weights = np.array(record["modules"][0]["weights"])
    spread = (weights - weights.min()) / (weights.max() - weights.min())
    page.mouse.move(0, 0)
    assert veils(page) == pytest.approx(0.72 * (1 - spread.ravel()), abs=2e-3)
    branches = record["modules"][0]["branches"]
    page.locator(".map", has_text="Spatial").focus()
    spatial = np.array(branches["spatial"]).ravel()
    spread = (spatial - spatial.min()) / (spatial.max() - spatial.min())
    assert veils(page) == pytest.approx(0.72 * (1 - spread), abs=2e-3)
    bars = page.locator(".map.still rect:not(.cell-base)")
    assert bars.count() == len(branches["channel"])
    with page.expect_download() as kept:
        share(page, "Download PNG")
    assert Path(kept.value.path()).read_bytes().startswith(b"\x89PNG")


def test_heads_light_the_image_and_cells_tell_what_they_look_at(visit: Open, models: dict[str, Any]) -> None:
    page = visit("model=vit&model=cells&model=plain&look=vit&image=scenes.3&overlay=veil")
    page.locator(".seen-part .map").first.wait_for()
    assert page.locator(".seen-part .map").count() == 4
    page.get_by_role("group", name="Layer 2").locator(".map").nth(1).hover()
    assert "Layer 2, Head 2" in page.locator(".stays .pair").inner_text()
    assert min(veils(page)) == 0 < max(veils(page))
    page.locator('.card[data-model="cells"]').get_by_role("button").click()
    page.locator(".seen-part .map").first.click()
    page.get_by_role("button", name="Attention of row 1, column 2").click()
    assert page.locator(".veil.asking").count() == 1
    assert "Attention of row 1, column 2: largest" in page.locator(".stays .pair").inner_text()
    page.locator('.card[data-model="plain"]').get_by_role("button").click()
    assert "has no attention" in page.locator(".seen-part .hint").first.inner_text()


def test_images_are_dropped_pasted_and_made_smaller(visit: Open) -> None:
    page = visit()
    give = """([name, kind]) => {
        const canvas = Object.assign(document.createElement("canvas"), { width: 3000, height: 1500 });
        canvas.getContext("2d").fillRect(0, 0, 700, 700);
        return new Promise((done) => canvas.toBlob((blob) => {
            const bag = new DataTransfer();
            bag.items.add(new File([blob], "x", { type: blob.type }));
            const more = { bubbles: true, cancelable: true };
            document.body.dispatchEvent(name === "drop" ? new DragEvent("drop", { dataTransfer: bag, ...more })
                : new ClipboardEvent("paste", { clipboardData: bag, ...more }));
            done();
        }, kind));
    }"""
    page.get_by_role("button", name="Image", exact=True).wait_for()
    for name, kind in (("drop", "image/webp"), ("paste", "image/jpeg")):
        with page.expect_response(lambda answer: "look-image?model=scenes" in answer.url) as found:
            page.evaluate(give, [name, kind])
        image = found.value.json()["image"]
        assert (image["width"], image["height"]) == (1024, 512)
        taken = "image/jpeg" if kind == "image/jpeg" else "image/png"
        assert found.value.request.headers["content-type"] == taken
        assert page.locator(".drop img").is_visible()
    choose(page, b"no image at all", "words.png")
    expect(page.locator(".notice")).to_have_text("Your browser cannot read this image.")


def test_a_sample_is_in_the_link_and_an_image_is_not(visit: Open) -> None:
    page = visit("model=scenes&image=", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Draw me a scene").click()
    page.get_by_role("button", name="Mask “row 1, column 1”").click()
    expect(page.locator(".changes .chip")).to_have_count(1)
    share(page, "Copy link")
    expect(page.locator(".notice")).to_have_text("The link is copied.")
    again = visit(page.evaluate("navigator.clipboard.readText()").partition("#")[2])
    expect(again.locator(".changes .chip")).to_have_count(1)
    assert again.locator(".card.here .translation").inner_text() == page.locator(".card.here .translation").inner_text()
    choose(page, CHOSEN)
    expect(page.locator(".changes")).to_be_hidden()
    share(page, "Copy link")
    expect(page.locator(".notice")).to_contain_text("without the image")


def test_sentences_and_images_stand_beside_each_other(visit: Open) -> None:
    page = visit()
    page.get_by_label("Sentence").fill(SENTENCE)
    page.get_by_label("Sentence").press("Enter")
    expect(page.locator(".card[data-model=words] .translation")).to_be_visible()
    assert page.locator(".models").locator("visible=true").count() == 0  # one model: nothing to choose
    page.get_by_role("button", name="Image", exact=True).click()
    expect(page.locator(".card .translation")).to_have_count(3)  # it begins with a sample image
    choose(page, CHOSEN)
    expect(page.locator(".card .translation")).to_have_count(3)
    page.get_by_role("button", name="Text", exact=True).click()
    expect(page.locator(".card")).to_have_count(1)
    assert page.locator("svg.matrix").is_visible()
    assert page.locator(".picture-part, .seen-part, .drop").locator("visible=true").count() == 0


@pytest.mark.parametrize("fragment", ["image=scenes.3&model=scenes&look=scenes", "image=scenes.3&model=bam&look=bam"])
def test_it_fits_a_phone_and_speaks_korean(visit: Open, fragment: str) -> None:
    page = visit(fragment, locale="ko-KR", color_scheme="dark", viewport={"width": 390, "height": 800})
    page.locator(".cells:visible").wait_for()
    assert page.get_by_text("이미지 고르기").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    unnamed = """[...document.querySelectorAll("button, input, select, textarea, [role=button]")].filter((each) =>
        !each.closest("[hidden]") && !each.textContent?.trim() && !each.ariaLabel && !each.labels?.length).length"""
    assert page.evaluate(unnamed) == 0


def test_a_server_of_images_alone_begins_with_them(browser: Any, visit: Open, models: dict[str, Any]) -> None:
    with serving({}, [models["bam"]]) as alone:
        page = visit("", at=f"{alone}/")
        page.get_by_text("Choose an image").wait_for()
        assert page.locator(".modes, textarea").locator("visible=true").count() == 0
        assert page.get_by_role("button", name="Draw me").count() == 0  # none that this model could know
        choose(page, CHOSEN)
        expect(page.locator(".card .translation")).to_have_count(1)


def test_a_server_of_translators_shows_nothing_of_images(browser: Any, visit: Open) -> None:
    with serving({"words": tiny(shouting=False)}) as alone:
        page = visit("image=scenes.3", at=f"{alone}/")
        page.locator(".card .translation").wait_for()
        assert page.locator(".modes, .drop, .picture").locator("visible=true").count() == 0
        assert page.get_by_label("Sentence").is_visible()
