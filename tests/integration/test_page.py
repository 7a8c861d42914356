"""The live page in a real browser, before a real server: the six things that a person can do on it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import pytest
from page_help import MARKUP, SENTENCE, serving, share, visiting
from playwright.sync_api import expect

import regard
from regard.look.nodes import node_numbers
from regard.nn.attention.intervention import Edit, Intervention

Open = Callable[..., Any]
expect.set_options(timeout=20_000)  # a busy machine is not a failure


@pytest.fixture(scope="module")
def address(browser: Any, translators: dict[str, regard.Translator]) -> Iterator[str]:
    with serving(translators) as found:
        yield found


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Open]:
    """Open the page with a fragment; whatever the browser complains about fails the test."""
    with visiting(browser, address, viewport={"width": 1280, "height": 900}, reduced_motion="reduce") as opening:
        yield opening


def looking(model: str, text: str = SENTENCE, **more: Any) -> str:
    """The fragment of a look into one model."""
    pairs = {"text": text, "model": model, "look": model, **more}
    return "&".join(f"{name}={quote(str(value))}" for name, value in pairs.items())


def record_of(page: Any) -> dict[str, Any]:
    """The record that is on screen, as the page hands it out."""
    with page.expect_download() as kept:
        share(page, "Download JSON")
    found: dict[str, Any] = json.loads(Path(kept.value.path()).read_text("utf-8"))
    return found


def cell(page: Any, row: int, column: int) -> Any:
    return page.locator(f'.cell[data-row="{row}"][data-column="{column}"]')


def drag(page: Any, row: int, column: int, up: float = 0, aside: float = 0) -> None:
    """Drag a cell upwards by pixels, or aside by cells."""
    cell(page, row, column).evaluate("(each) => each.scrollIntoView({ block: 'center' })")
    cell(page, row, column).hover()  # which waits until it stands still
    box = cell(page, row, column).bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + aside * box["width"], y - up, steps=4)
    page.mouse.up()


def now(page: Any) -> str:
    """The translation on the card of the model that is looked into."""
    return str(page.locator(".card.here .translation").inner_text())


def test_translations_stand_side_by_side_and_names_stay_text(visit: Open, translators: dict[str, Any]) -> None:
    page = visit()
    page.locator(".card.here .translation").wait_for()
    for box in page.locator(".model input").all():
        box.set_checked(True, force=True)
    page.get_by_label("Sentence", exact=True).fill(SENTENCE)
    page.get_by_label("Sentence", exact=True).press("Enter")
    expect(page.locator(".card .translation")).to_have_count(4)
    expect(page.locator('.card[data-model="bahdanau"] .translation')).to_have_text(
        translators["bahdanau"].translate(SENTENCE).text
    )
    for name, translator in translators.items():
        shown = page.locator(f'.card[data-model="{name}"] .translation').inner_text()
        assert shown == (translator.translate(SENTENCE).text or "∅")
    assert page.locator(".card h3", has_text=MARKUP).count() == 1
    assert page.locator(".card b, .model b").count() == 0
    page.locator(".card", has_text=MARKUP).locator(".whole").click()
    assert page.locator(".the-vector .cell-base").count() == len(translators[MARKUP].look(SENTENCE).fixed_vector)
    assert page.locator("svg.matrix").is_hidden()


def test_a_word_shows_where_it_looked_by_pointing_and_by_tab(visit: Open, translators: dict[str, Any]) -> None:
    page = visit(looking("bahdanau"))
    look = translators["bahdanau"].look(SENTENCE)
    words = page.locator(".word.target")
    words.first.hover()
    assert words.first.get_attribute("aria-current") == "true"
    assert page.locator(".label.in-row").text_content() == look.target.words[0]
    assert page.locator(".ribbon.chosen").count() > 0
    pieces = [place for place, piece in enumerate(look.target.pieces) if piece.word == 0]
    weight = sum(look.alignment[piece][0] for piece in pieces) / len(pieces)
    said = cell(page, 0, 0).get_attribute("aria-label")
    assert said.endswith("<.01" if 0 < weight < 0.005 else f"{weight:.2f}")
    words.first.focus()
    page.keyboard.press("Tab")
    assert words.nth(1).get_attribute("aria-current") == "true"
    step = look.steps[len(pieces)]
    names = page.locator(".panel .candidate .name bdi").all_inner_texts()
    assert names == [each.piece for each in step.candidates]
    page.get_by_role("button", name="Subwords", exact=True).click()
    assert page.locator(".word.target").all_inner_texts() == [piece.text for piece in look.target.pieces[:-1]]
    page.get_by_label("Show </s>").check()
    assert page.locator(".word.target").last.inner_text() == "</s>"


def test_heads_and_kinds_are_chosen_by_their_maps(visit: Open, translators: dict[str, Any]) -> None:
    page = visit(looking("heads", unit="pieces", specials=1))
    look = translators["heads"].look(SENTENCE)
    page.get_by_role("button", name="Layer 2, head 3").click()
    for row, weights in enumerate(look.attention["cross"][1][2]):
        value = float(cell(page, row, 1).locator(".above").get_attribute("fill-opacity"))
        assert value == pytest.approx(weights[1], abs=1e-3)
    page.get_by_role("button", name="Encoder self-attention").click()
    page.get_by_role("button", name="Layer 1, head 4").click()
    assert page.locator('.cell[data-column="0"]').count() == len(look.source.pieces)
    value = float(cell(page, 1, 2).locator(".above").get_attribute("fill-opacity"))
    assert value == pytest.approx(look.attention["encoder-self"][0][3][1][2], abs=1e-3)
    assert page.locator("button.thumb[aria-pressed=true]").get_attribute("aria-label") == "Layer 1, head 4"


def test_a_head_is_measured_and_switched_off(visit: Open, translators: dict[str, Any]) -> None:
    page = visit(looking("heads", layer=1, head=2))
    look = translators["heads"].look(SENTENCE)
    page.locator(".head-facts").wait_for()
    weights = look.attention["cross"][1][2]
    same = sum(row[t] if t < len(row) else 0 for t, row in enumerate(weights)) / len(weights)
    assert page.locator(".head-facts dd").first.inner_text() == f"{same:.2f}"
    page.get_by_role("button", name="Switch this head off").click()
    page.locator(".changes .chip", has_text="Layer 2, head 3 off").wait_for()
    record = record_of(page)
    expected = translators["heads"].look(
        SENTENCE, intervention=Intervention((), (Edit(layer=1, head=2, multiply=0.0),))
    )
    assert record["target"]["text"] == expected.target.text
    assert all(weight == 0 for row in record["attention"]["cross"][1][2] for weight in row)
    assert page.locator(".head-facts button").count() == 0


def test_the_architecture_stands_over_the_words_and_is_lit(visit: Open, translators: dict[str, Any]) -> None:
    page = visit(looking("bahdanau", panel="map"))
    page.locator(".diagram svg").wait_for()
    words = page.locator('.diagram [data-kind="word"]').all_text_contents()
    assert set(SENTENCE.split()) <= set(words)
    page.locator(".word.target").nth(1).click()
    lit = page.locator('.diagram.lit .node.on[data-part="decoder"]')
    assert set(lit.evaluate_all("(all) => all.map((each) => each.dataset.place)")) == {"2"}
    page.locator('.diagram [data-kind="attend"][data-place="3"] text').first.click()
    assert "Attention scores" in page.locator(".stages [aria-current=step]").inner_text()
    third = next(at for at, piece in enumerate(translators["bahdanau"].look(SENTENCE).target.pieces) if piece.unit == 2)
    assert f"{third + 1} / " in page.locator(".at-word").inner_text()


def test_a_box_of_the_architecture_opens_its_numbers(visit: Open, translators: dict[str, Any]) -> None:
    page = visit(looking("bahdanau", panel="map"))
    page.locator(".diagram svg").wait_for()
    look = translators["bahdanau"].look(SENTENCE)

    def shown(node: str, place: int) -> None:
        vectors = node_numbers(translators["bahdanau"].model, look, node, place).groups[0].vectors
        rows = page.locator(".node-numbers tr")
        expect(rows.locator("th")).to_have_text([vector.name for vector in vectors])
        told = [f"mean {vector.mean:.2f}" if vector.gate else f"norm {vector.norm:.2f}" for vector in vectors]
        assert rows.locator("td.number:not(.under)").all_inner_texts() == told

    third = next(at for at, piece in enumerate(look.target.pieces) if piece.unit == 2)
    page.locator('.diagram [data-node="decoder.1"][data-place="3"] text').first.click()
    shown("decoder.1", third)
    page.locator(".node-numbers canvas.strip").nth(1).hover(position={"x": 3, "y": 3})
    first = node_numbers(translators["bahdanau"].model, look, "decoder.1", third).groups[0].vectors[1].values[0]
    assert page.locator(".node-numbers .under").nth(1).inner_text() == f"1: {first:.4f}"
    second = next(at for at, piece in enumerate(look.source.pieces) if piece.unit == 1)
    box = page.locator('.diagram [data-node="encoder.1.backward"][data-place="2"]')
    box.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".node-numbers h3")).to_contain_text(look.source.pieces[second].text)
    shown("encoder.1.backward", second)
    page.keyboard.press("ArrowRight")
    assert box.evaluate("(each) => each !== document.activeElement && document.activeElement.dataset.place === '3'")
    page.locator(".node-numbers").get_by_role("button", name="Close").click()
    assert page.locator(".node-numbers tr").count() == 0


@pytest.mark.parametrize("unit", ["words", "pieces"])
def test_entropy_and_coverage_are_those_of_the_record(visit: Open, translators: dict[str, Any], unit: str) -> None:
    page = visit(looking("bahdanau", unit=unit))
    page.locator("svg.matrix rect.measure").first.wait_for(state="attached")
    entropy, coverage = getattr(translators["bahdanau"].look(SENTENCE).measures["alignment"], unit)
    shown = page.locator("svg.matrix rect.measure + title").all_text_contents()
    told = [f"{value:.2f}" for value in (*entropy, *coverage)]
    numbers = [each.split(": ")[1] for each in shown]
    assert len(numbers) >= 4
    assert set(numbers) <= set(told)


def test_local_attention_shows_its_window_centre_and_gaussian(visit: Open, translators: dict[str, Any]) -> None:
    page = visit(looking("local", unit="pieces", specials=1))
    look = translators["local"].look(SENTENCE)
    page.locator(".word.target").first.click()
    trace = look.steps[0].attention[0]
    assert page.locator(".matrix .window").count() == len(look.target.pieces)
    assert f"{trace.centre:.2f}" in page.locator(".matrix .centre title").first.text_content()
    first, last = trace.window
    assert page.locator(".word.in-window").count() == last - first + 1
    points = [
        list(map(float, each.split(","))) for each in page.locator(".bell.in-row").get_attribute("points").split()
    ]
    assert len(points) > 2 * (last - first + 1)  # a curve, not a line from cell to cell
    peak = min(points, key=lambda point: point[1])[0]
    centre = float(page.locator(".matrix .centre").first.get_attribute("x1"))
    width = float(page.locator(".cell .cell-base").first.get_attribute("width"))
    assert abs(peak - centre) < width / 2 or not first <= trace.centre - 1 <= last
    page.get_by_role("button", name="Step by step").click()
    page.locator("button[data-stage='1']").click()
    assert page.locator(".attention-table th", has_text="Gaussian").is_visible()


def test_the_player_walks_through_the_numbers(visit: Open, translators: dict[str, Any]) -> None:
    page = visit(looking("bahdanau", step=0, panel="steps"))
    look = translators["bahdanau"].look(SENTENCE)
    trace = look.steps[0].attention[0]
    expect(page.locator(".attention-table thead th")).to_have_count(len(look.source.pieces) + 1)

    def numbers(row: str) -> list[float]:
        texts = page.locator(f".attention-table tr.{row} .measured .number").all_inner_texts()
        return [float(text.replace("−", "-")) for text in texts]

    assert "Attention scores" in page.locator(".stages [aria-current=step]").inner_text()  # it opens on the first
    assert numbers("scores") == pytest.approx(trace.scores, abs=0.0051)
    (keys,) = look.keys
    page.locator(".attention-table .asks").nth(1).hover()  # its score is written out
    assert "tanh(W q + U k)" in page.locator(".score-sum caption").inner_text()
    sums = [row.locator("td.number").all_inner_texts() for row in page.locator(".score-sum tbody tr").all()]
    asked, key, factor, terms = [[float(text.replace("−", "-")) for text in row] for row in sums]
    assert asked == pytest.approx(trace.asked, abs=0.0051)
    assert key == pytest.approx(keys.keys[1], abs=0.0051)
    assert factor == pytest.approx(keys.factor, abs=0.0051)
    assert terms[-1] == pytest.approx(trace.scores[1], abs=0.0051)
    assert sum(terms[:-1]) == pytest.approx(terms[-1], abs=0.006 * len(terms))
    strip = page.locator(".attention-table .key-row .vector").nth(1).get_attribute("aria-label").split(", ")
    assert [float(text.replace("−", "-")) for text in strip] == pytest.approx(keys.keys[1], abs=0.0051)
    next_step = page.get_by_role("button", name="Next step")
    next_step.click()
    assert page.locator(".score-sum").is_hidden()
    assert numbers("weights") == pytest.approx(trace.weights, abs=0.00051)
    context = page.locator(".context-cells").get_attribute("aria-label").split(", ")
    assert [float(text.replace("−", "-")) for text in context] == pytest.approx(trace.context, abs=0.0051)
    assert page.locator(".weighted .sum.later").count() == 1
    assert "Softmax" in page.locator(".stages [aria-current=step]").inner_text()
    for stage in ("Weighted values", "Context", "Next word"):
        next_step.click()
        assert stage in page.locator(".stages [aria-current=step]").inner_text()
    assert page.locator(".step-body .later").count() == 0
    page.keyboard.press("ArrowRight")
    assert "2 / " in page.locator(".at-word").inner_text()
    page.keyboard.press("Shift+ArrowRight")
    assert "3 / " in page.locator(".at-word").inner_text()
    page.get_by_label("Speed").select_option("4")
    page.get_by_role("button", name="Play").click()
    expect(page.locator(".at-word")).to_contain_text("4 / ")
    page.get_by_role("button", name="Pause").click()
    assert page.get_by_role("button", name="Play").is_visible()


def test_the_player_plays_what_is_selected(visit: Open, translators: dict[str, Any]) -> None:
    page = visit(looking("heads", panel="steps"))
    look = translators["heads"].look(SENTENCE)
    heads = set()
    for _ in look.steps[:-1]:
        heads.add(page.locator(".query .hint").last.inner_text())
        page.locator("body").press("Shift+ArrowRight")
    assert len(heads) == 1  # one head for the whole sentence, whichever is closest to the alignment
    page.get_by_role("button", name="Matrix").click()
    page.get_by_role("button", name="Layer 2, head 3").click()
    page.get_by_role("button", name="Step by step").click()
    assert page.locator(".query .hint").last.inner_text() == "Layer 2, head 3"
    page.get_by_role("button", name="Encoder self-attention").click()
    assert page.locator(".attention-table").count() == 0
    assert "cross-attention only" in page.locator(".telling").inner_text()
    page.get_by_label("Speed").select_option("4")
    page.locator("h1").click()
    page.keyboard.press(" ")  # Space plays everywhere: the rows of the selected map, in view
    expect(page.locator(".at-word")).to_contain_text(f"{len(look.source.words)} / {len(look.source.words)}")
    assert page.locator(".word.target").all_inner_texts() == look.source.words


def test_a_weight_is_changed_undone_and_reset(visit: Open, translators: dict[str, Any]) -> None:
    page = visit(looking("bahdanau", unit="pieces"))
    translator = translators["bahdanau"]
    before = translator.look(SENTENCE)
    step = 1
    place = max(range(len(before.source.pieces) - 1), key=lambda each: before.alignment[step][each])
    cell(page, step, place).click()
    page.get_by_role("button", name="Set to 0").click()
    page.locator(".changes .chip").wait_for()
    edits = (Edit(layer=None, head=None, step=step, position=place, replace=0.0),)
    prefix = [each.id for each in before.steps[:step]]
    after = translator.look(SENTENCE, prefix=prefix, intervention=Intervention((), edits))
    assert after.steps[step].probability != before.steps[step].probability
    record = record_of(page)
    assert record["target"]["text"] == after.target.text == now(page)
    assert record["steps"][step]["probability"] == pytest.approx(after.steps[step].probability)
    assert record["steps"][step]["attention"][0]["weights"][place] == 0
    versions = page.locator(".versions dd").all_inner_texts()
    assert before.target.text in versions[0]
    assert after.target.text in versions[1]
    assert "edited" in cell(page, step, place).get_attribute("class")
    cell(page, 0, 0).focus()
    page.keyboard.press("+")
    expect(page.locator(".changes .chip")).to_have_count(2)
    assert page.locator(".change-bar strong").inner_text() == "2 changes"
    page.get_by_role("button", name="Undo").click()
    assert page.locator(".changes .chip").count() == 1
    page.get_by_role("button", name="Hold to see the original").hover()
    page.mouse.down()
    assert now(page) == before.target.text
    page.mouse.up()
    assert now(page) == after.target.text
    page.get_by_role("button", name="Reset").click()
    assert page.locator(".changes, .change-bar").locator("visible=true").count() == 0
    assert now(page) == before.target.text


def test_dragging_raises_a_weight_or_moves_it(visit: Open) -> None:
    page = visit(looking("bahdanau", unit="pieces"))
    drag(page, 0, 0, up=70)
    page.locator(".changes .chip").wait_for()
    edit = record_of(page)["intervention"]["edits"][0]
    assert (edit["step"], edit["position"]) == (0, 0)
    assert 0.4 < edit["replace"] <= 1
    drag(page, 0, 0, aside=2)
    expect(page.locator(".changes .chip")).to_have_count(2)
    moved = {each["position"]: each["replace"] for each in record_of(page)["intervention"]["edits"]}
    assert moved[0] == 0
    assert moved[2] >= edit["replace"] - 0.01


def test_a_source_word_is_forbidden_and_allowed_again(visit: Open, translators: dict[str, Any]) -> None:
    page = visit(looking("bahdanau"))
    word = page.get_by_role("button", name="Mask “two”").first
    word.click()
    page.locator(".changes .chip", has_text="two").wait_for()
    record = record_of(page)
    banned = [place for place, piece in enumerate(record["source"]["pieces"]) if piece["word"] == 1]
    expected = translators["bahdanau"].look(SENTENCE, intervention=Intervention(tuple(banned)))
    assert record["target"]["text"] == expected.target.text
    assert all(row[place] == 0 for row in record["alignment"] for place in banned)
    page.get_by_role("button", name="Unmask “two”").first.click()
    page.locator(".changes").wait_for(state="hidden")


def test_another_candidate_is_said_instead(visit: Open, translators: dict[str, Any]) -> None:
    page = visit(looking("bahdanau", unit="pieces"))
    before = translators["bahdanau"].look(SENTENCE)
    page.locator(".word.target").first.hover()
    said = before.steps[0].id
    other = next(each for each in before.steps[0].candidates if each.id != said and each.piece != "</s>")
    page.get_by_role("button", name=f"Continue with “{other.piece}”,").click()
    page.locator(".changes .chip").wait_for()
    expected = translators["bahdanau"].look(SENTENCE, prefix=[other.id])
    record = record_of(page)
    assert record["steps"][0]["id"] == other.id
    assert record["target"]["text"] == expected.target.text


def test_the_beam_is_a_tree(visit: Open, translators: dict[str, Any]) -> None:
    page = visit(looking("bahdanau", beam=3))
    page.get_by_role("button", name="Beam search").click()
    page.locator("svg.tree").wait_for()
    nodes = translators["bahdanau"].look(SENTENCE, tree=True, beam=3).beam.nodes
    for state in ("best", "kept", "pruned", "finished"):
        assert page.locator(f".leaf.{state}").count() == sum(node.state == state for node in nodes)
    assert page.locator(".tree .branch").count() == sum(node.parent is not None for node in nodes)
    pruned = next(node for node in nodes if node.state == "pruned" and node.parent is not None)
    path, node = [], pruned
    while node is not None:
        path.insert(0, node.token)
        node = next((each for each in nodes if each.id == node.parent), None)
    page.locator(".leaf").nth(nodes.index(pruned)).click()  # decoding continues from a pruned hypothesis
    page.locator(".changes .chip").wait_for()
    assert [each["id"] for each in record_of(page)["steps"][: len(path)]] == path


def test_a_link_brings_back_what_was_on_screen(visit: Open) -> None:
    page = visit(looking("bahdanau", unit="pieces"), permissions=["clipboard-read", "clipboard-write"])
    cell(page, 1, 1).click()
    page.get_by_role("button", name="Move all here").click()
    page.locator(".changes .chip").first.wait_for()
    share(page, "Copy link")
    expect(page.locator(".notice")).to_have_text("The link is copied.")
    link = page.evaluate("navigator.clipboard.readText()")
    again = visit(link.partition("#")[2])
    again.locator(".changes .chip").first.wait_for()
    assert now(again) == now(page)
    assert again.locator(".chip").all_inner_texts() == page.locator(".chip").all_inner_texts()
    assert "here" in cell(again, 1, 1).get_attribute("class")


def test_pictures_are_kept(visit: Open) -> None:
    page = visit(looking("bahdanau"))
    with page.expect_download() as kept:
        share(page, "Download PNG")
    assert Path(kept.value.path()).read_bytes().startswith(b"\x89PNG")
    assert kept.value.suggested_filename == "bahdanau-attention.png"
    with page.expect_download() as kept:
        share(page, "Download SVG")
    drawing = ElementTree.parse(kept.value.path())
    words = {element.text for element in drawing.iter("{http://www.w3.org/2000/svg}text")}
    assert set(SENTENCE.split()) <= words
    fills = {element.get("fill") for element in drawing.iter("{http://www.w3.org/2000/svg}rect")}
    assert len(fills) > 1  # colours are written into it


@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_a_phone_and_speaks_korean(visit: Open, width: int) -> None:
    page = visit(looking("bahdanau"), locale="ko-KR", color_scheme="dark", viewport={"width": width, "height": 800})
    page.get_by_role("heading", name="어텐션 행렬").wait_for()
    assert page.evaluate("document.documentElement.lang") == "ko"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(17, 22, 27)"
    page.get_by_label("색").select_option("light")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(252, 252, 251)"
    unnamed = """[...document.querySelectorAll("button, input, select, textarea")].filter((each) =>
        !each.closest("[hidden]") && !each.innerText?.trim() && !each.ariaLabel && !each.labels?.length).length"""
    assert page.evaluate(unnamed) == 0


def test_a_script_as_a_sentence_is_only_a_sentence(visit: Open) -> None:
    text = "<script>document.title='taken'</script> <img src=x onerror=alert(1)>"
    page = visit(looking("bahdanau", text=text))
    page.locator(".word", has_text="<script>").first.wait_for()
    assert page.title() == "Regard"
    assert page.locator("main script, main img").count() == 0


def test_a_refusal_is_told_on_the_card(browser: Any, address: str) -> None:
    page = browser.new_page()
    page.goto(f"{address}/#{looking('bahdanau', text='one ' * 300)}")
    page.locator(".card .trouble").wait_for()
    said = page.locator(".card .trouble").inner_text()
    assert said == "the sentence has 1,200 characters: the limit is 400; shorten it"
    page.close()
