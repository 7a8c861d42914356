"""The interactive view as one file, and in the frame of a notebook: no server, no network."""

import base64
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from page_help import MARKUP, SENTENCE, share
from PIL import Image

from regard.errors import DataError
from regard.look.record import Look
from regard.look.views.html import PAGE, render_html

SCRIPT = "one </script><script>document.title='taken'</script> two"


def opened(browser: Any, path: Path, fragment: str = "") -> tuple[Any, list[str]]:
    """The file in a browser that is offline, and what the browser asked for or complained about."""
    context = browser.new_context(offline=True, locale="en-US")
    page = context.new_page()
    seen: list[str] = []
    page.on("console", lambda said: seen.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: seen.append(str(error)))
    page.on("request", lambda request: seen.append(request.url) if request.url != path.as_uri() else None)
    page.goto(path.as_uri() + fragment)
    return page, seen


def test_one_file_shows_everything_without_a_network(browser: Any, translators: dict[str, Any], tmp_path: Path) -> None:
    look = translators["bahdanau"].look(SENTENCE, tree=True)
    path = tmp_path / "look.html"
    path.write_text(render_html(look), "utf-8")
    page, seen = opened(browser, path, "#step=0&panel=beam")
    assert page.locator(".word.target").all_inner_texts() == look.target.words
    assert page.locator(".panel .candidate").count() == len(look.steps[0].candidates)
    assert page.locator(".leaf").count() == len(look.beam.nodes)
    page.get_by_role("button", name="Next step").click()
    assert "2 / " in page.locator(".at-word").inner_text()
    page.get_by_role("button", name="Matrix").click()
    with page.expect_download() as kept:
        share(page, "Download JSON")
    assert Look.from_dict(json.loads(Path(kept.value.path()).read_text("utf-8"))) == look
    with page.expect_download() as kept:
        share(page, "Download PNG")
    assert Path(kept.value.path()).read_bytes().startswith(b"\x89PNG")
    assert page.locator("textarea, .chip").count() == 0  # nothing that would need a server
    assert [each for each in seen if not each.startswith("blob:")] == []


def test_several_looks_stand_side_by_side_and_markup_stays_text(
    browser: Any, translators: dict[str, Any], tmp_path: Path
) -> None:
    looks = [translators[name].look(SCRIPT) for name in ("bahdanau", MARKUP, "heads")]
    renamed = [look.model_copy(update={"model": look.model.model_copy(update={"name": MARKUP})}) for look in looks]
    path = tmp_path / "looks.html"
    path.write_text(render_html(renamed), "utf-8")
    page, seen = opened(browser, path)
    assert page.locator(".card h3").all_inner_texts() == [MARKUP, f"{MARKUP} (2)", f"{MARKUP} (3)"]
    page.locator(".card").nth(1).locator(".whole").click()
    assert page.locator(".the-vector").is_visible()
    page.locator(".card").nth(2).locator(".whole").click()
    assert page.locator(".thumb").count() == 1 + 2 * 4
    assert page.title() == SCRIPT
    assert page.locator("#page script, #page b").count() == 0
    assert seen == []


def test_training_is_shown_as_it_went_on(browser: Any, translators: dict[str, Any], tmp_path: Path) -> None:
    look = translators["bahdanau"].look(SENTENCE)
    flat = [[1 / len(look.source.pieces)] * len(look.source.pieces) for _ in look.target.pieces]
    moment = {"update": 500, "target": look.target.model_dump(), "alignment": flat}
    grown = Look.from_dict({**look.to_dict(), "over_time": [moment]})
    path = tmp_path / "time.html"
    path.write_text(render_html(grown), "utf-8")
    page, seen = opened(browser, path, "#unit=pieces&overlay=veil")
    page.get_by_label("During training").fill("0")
    assert page.locator(".time-part output").inner_text() == "After 500 updates"
    drawn = page.locator(".matrix .cell .above").evaluate_all(
        "(all) => all.map((each) => +each.getAttribute('fill-opacity'))"
    )
    assert drawn == pytest.approx([flat[0][0]] * len(drawn), abs=1e-3)
    page.get_by_label("During training").fill("1")
    page.get_by_role("button", name="Play the training").click()
    page.get_by_text("After 500 updates").wait_for()
    page.get_by_text("The trained model").wait_for()
    assert seen == []


def test_a_watched_sentence_alone_has_ribbons_matrix_and_pictures(
    browser: Any, translators: dict[str, Any], tmp_path: Path
) -> None:
    look = translators["bahdanau"].look(SENTENCE)
    moment = {"update": 500, "target": look.target.model_dump(), "alignment": look.alignment}
    slim = Look.from_dict({**look.to_dict(), "attention": {}, "steps": [], "over_time": [moment]})
    path = tmp_path / "time.html"
    path.write_text(render_html(slim), "utf-8")
    page, seen = opened(browser, path)
    assert page.locator(".word.target").all_inner_texts() == look.target.words
    assert page.locator("svg.matrix").is_visible()
    assert page.locator(".fixed-part").is_hidden()
    assert page.get_by_role("button", name="Play", exact=True).is_visible()
    with page.expect_download() as kept:
        share(page, "Download PNG")
    assert Path(kept.value.path()).read_bytes().startswith(b"\x89PNG")
    assert [each for each in seen if not each.startswith("blob:")] == []


def test_an_image_is_veiled_where_a_word_did_not_look(
    browser: Any, translators: dict[str, Any], tmp_path: Path
) -> None:
    look = translators["bahdanau"].look(SENTENCE)
    positions = len(look.source.pieces)
    pixels = io.BytesIO()
    Image.new("RGB", (10 * positions, 10), "white").save(pixels, "png")
    png = base64.b64encode(pixels.getvalue()).decode()
    image = {"width": 10 * positions, "height": 10, "rows": 1, "columns": positions, "png": png}
    source = {"text": "", "words": [], "units": [], "pieces": []}
    path = tmp_path / "image.html"
    path.write_text(render_html(Look.from_dict({**look.to_dict(), "image": image, "source": source})), "utf-8")
    page, seen = opened(browser, path, "#unit=pieces&overlay=veil")
    page.emulate_media(reduced_motion="reduce")  # nothing fades, so that what is seen is there at once
    page.locator(".picture .word").first.hover()
    veils = page.locator(".veil").evaluate_all("(all) => all.map((each) => +getComputedStyle(each).fillOpacity)")
    most = max(look.alignment[0])
    assert veils == pytest.approx([0.72 * (1 - weight / most) for weight in look.alignment[0]], abs=1e-3)
    assert page.locator(".attention-table thead th").count() == positions + 1
    assert page.locator(".veil[role=button]").count() == 0  # to forbid a cell needs the model
    assert page.locator(".ribbons, svg.matrix").locator("visible=true").count() == 0
    assert [each for each in seen if not each.startswith("data:")] == []


def test_the_file_names_no_address_and_allows_no_other_script(translators: dict[str, Any]) -> None:
    document = render_html(translators["bahdanau"].look(SENTENCE))
    addresses = set(re.findall(r"https?://[^\s\"'<>)]+", document))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, not a place
    assert "default-src 'none'; script-src 'sha256-" in document
    assert "unsafe" not in document


def test_nothing_to_show_is_said() -> None:
    with pytest.raises(DataError, match="at least one"):
        render_html([])


def test_modules_never_write_markup_and_both_languages_say_everything() -> None:
    modules = {path.relative_to(PAGE).as_posix(): path.read_text("utf-8") for path in PAGE.rglob("*.js")}
    for name, text in modules.items():
        code = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|style:", code), name
        assert len(text.splitlines()) <= 300, name
    english, korean = (
        re.findall(r'^  "?([\w-]+)"?: "', modules[f"language/{name}.js"], re.MULTILINE)
        for name in ("english", "korean")
    )
    assert english == korean
    everything = "\n".join(
        text for name, text in modules.items() if name not in ("language/english.js", "language/korean.js")
    )
    unused = [key for key in english if not re.search(rf'["`\'.]{re.escape(key)}["`\']', everything)]
    assert [
        key
        for key in unused
        if not re.match("stage_|tell_|theme_|example_|panel_|term_|about_|box_|cross-short|(en|de)coder-self", key)
        and key not in ("kept", "pruned", "finished", "best")
    ] == []
