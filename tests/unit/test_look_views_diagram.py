"""Diagrams: the edges are those of the papers, and the drawing is legible: nothing overlaps, nothing is cut."""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest
from look_help import translator_of

from regard.config.recipes import load_recipe, recipe_names
from regard.config.settings import Recipe
from regard.errors import ConfigError
from regard.look.views.diagram import build_diagram, look_diagram
from regard.look.views.diagram_svg import Drawing, draw_diagram
from regard.look.views.svg import diagram_style, text_width
from regard.models.wiring import Diagram

VARIANTS = {
    "textbook": ("luong", ["model.query=previous"]),
    "textbook-local-p": ("luong", ["model.query=previous", "model.window=local-p"]),
    "textbook-output-alone": (
        "luong",
        ["model.query=previous", "model.context_to=output", "model.input_feeding=false"],
    ),
    "bahdanau-appendix": ("bahdanau", ["model.maxout_state=previous", "model.encoder_reset=before"]),
    "cosine": ("luong", ["model.score=cosine"]),
    "plain-cosine": ("luong", ["model.score=cosine", "model.sharpness=1"]),
    "location-local-m": ("luong", ["model.score=location", "model.window=local-m"]),
    "no-feeding": ("luong", ["model.input_feeding=false"]),
    "local-m": ("luong", ["model.window=local-m"]),
    "bidirectional": ("luong", ["model.bidirectional=true", "model.layers=3"]),
    "deep-textbook": ("luong", ["model.query=previous", "model.layers=4"]),
    "gnmt-to-all": ("gnmt", ["model.context_to=all"]),
    "gnmt-asks-at-once": ("gnmt", ["model.query=current"]),
    "gnmt-two-layers": ("gnmt", ["model.layers=2"]),
    "gnmt-sixteen-layers": ("gnmt", ["model.layers=16"]),
    "transformer-one-layer": ("transformer", ["model.encoder_layers=1", "model.decoder_layers=1", "model.norm=pre"]),
    "one-layer": ("seq2seq", ["model.layers=1"]),
    "not-reversed": ("seq2seq", ["model.reverse_source=false"]),
}
CASES = {name: (name, []) for name in recipe_names() if isinstance(load_recipe(name), Recipe)} | VARIANTS


def graph(case: str, source: str = "the cat sat", target: str | None = None) -> Diagram:
    name, overrides = CASES[case]
    return build_diagram(load_recipe(name, overrides).model, source, target)


def roles(diagram: Diagram) -> set[str]:
    return {edge.role for edge in diagram.edges}


# --- the papers -------------------------------------------------------------------------------------------------------


def test_contexts_of_several_layers_have_the_layer_above() -> None:
    def contexts(case: str) -> set[tuple[str, ...]]:
        drawn = ElementTree.fromstring(draw_diagram(graph(case), case))
        groups = (each for each in drawn.iter() if each.get("id", "").startswith("node.attend."))
        return {tuple(next(each for each in group if each.tag.endswith("text")).itertext()) for group in groups}

    assert {"c13", "c23", "c33"} <= {"".join(text) for text in contexts("transformer-small")}
    assert {"".join(text) for text in contexts("transformer-one-layer")} >= {"c1", "c2"}
    assert {"".join(text) for text in contexts("luong")} >= {"c1", "c2"}
    labels = [text for _, _, text in graph("transformer-small").row_labels]
    assert "layer 3: self-attention" in labels


def test_sutskever_reads_backwards_and_hands_over_every_layers_last_state() -> None:
    diagram = graph("seq2seq")
    columns = [diagram.nodes[f"source.{position}"].column for position in (1, 2, 3, 4)]
    assert columns == [3, 2, 1, 4]  # the end token stays last
    assert ("encoder.1.2", "recurrent") in diagram.into("encoder.1.1")
    assert diagram.into("decoder.2.1") == {("decoder.1.1", "input"), ("encoder.2.4", "start")}
    assert diagram.into("decoder.2.2") == {("decoder.1.2", "input"), ("decoder.2.1", "recurrent")}
    assert not roles(diagram) & {"keys", "query", "context", "feeding", "residual"}


def test_cho_gives_the_one_vector_to_every_step_and_every_output() -> None:
    diagram = graph("seq2seq-cho")
    assert diagram.into("summary") == {("encoder.1.4", "start")}
    assert diagram.into("start") == {("summary", "start")}
    for step in (1, 2, 3):
        before = "start" if step == 1 else f"decoder.1.{step - 1}"
        word, state = f"embed.target.{step}", f"decoder.1.{step}"
        assert diagram.into(state) == {(word, "input"), (before, "recurrent"), ("summary", "context")}
        assert diagram.into(f"maxout.{step}") == {(state, "input"), (word, "word"), ("summary", "context")}


def test_bahdanau_asks_with_the_previous_state() -> None:
    diagram = graph("bahdanau")
    annotations = {(f"annotation.{position}", "keys") for position in (1, 2, 3, 4)}
    assert diagram.into("attend.1") == annotations | {("start", "query")}
    assert diagram.into("attend.2") == annotations | {("decoder.1.1", "query")}
    assert diagram.into("start") == {("encoder.1.backward.1", "start")}  # the backward state of the first word
    assert diagram.into("annotation.2") == {("encoder.1.forward.2", "input"), ("encoder.1.backward.2", "input")}
    assert ("encoder.1.backward.3", "recurrent") in diagram.into("encoder.1.backward.2")
    assert ("encoder.1.forward.1", "recurrent") in diagram.into("encoder.1.forward.2")
    assert diagram.into("decoder.1.2") == {
        ("embed.target.2", "input"),
        ("decoder.1.1", "recurrent"),
        ("attend.2", "context"),
    }
    assert diagram.into("maxout.2") == {
        ("decoder.1.2", "input"),
        ("embed.target.2", "word"),
        ("attend.2", "context"),
    }


def test_luong_asks_with_the_current_state_and_feeds_its_answer_to_the_next_step() -> None:
    diagram = graph("luong")
    top = load_recipe("luong").model.layers  # type: ignore[union-attr]
    assert (f"decoder.{top}.2", "query") in diagram.into("attend.2")
    assert {key for key, role in diagram.into("attend.2") if role == "keys"} == {
        f"encoder.{top}.{position}" for position in (1, 2, 3, 4)
    }
    assert {key for key, role in graph("luong-bi").into("attend.2") if role == "keys"} == {
        f"joined.1.{position}"
        for position in (1, 2, 3, 4)  # it reads both ways
    }
    assert diagram.into("attentional.2") == {(f"decoder.{top}.2", "input"), ("attend.2", "context")}
    assert ("attentional.1", "feeding") in diagram.into("decoder.1.2")
    assert diagram.into("output.2") == {("attentional.2", "input")}
    assert "feeding" not in roles(graph("no-feeding"))


def test_the_textbook_variant_attends_before_the_step() -> None:
    diagram = graph("textbook")
    top = load_recipe("luong").model.layers  # type: ignore[union-attr]
    assert (f"decoder.{top}.1", "query") in diagram.into("attend.2")
    assert ("start", "query") in diagram.into("attend.1")
    assert ("attend.2", "context") in diagram.into("decoder.1.2")
    assert ("attend.2", "context") in diagram.into("attentional.2")


def test_the_textbook_variant_may_keep_the_context_out_of_the_step() -> None:
    diagram = graph("textbook-output-alone")
    assert ("attend.2", "context") in diagram.into("attentional.2")
    assert not any(role in ("context", "feeding") for _, role in diagram.into("decoder.1.2"))
    assert "c_t is used there alone" in diagram.notes[-1]
    assert "c_t joins the input" in graph("textbook").notes[-1]


def test_bahdanaus_appendix_shows_the_previous_state_and_the_papers_encoder() -> None:
    diagram, usual = graph("bahdanau-appendix"), graph("bahdanau")
    assert ("decoder.1.1", "input") in diagram.into("maxout.2")
    assert ("start", "input") in diagram.into("maxout.1")
    assert ("decoder.1.2", "input") in usual.into("maxout.2")
    assert "U s_{i−1}" in diagram.notes[2]
    assert "U (r ∘ h)" in diagram.notes[3]
    assert "r ∘ (U h)" in usual.notes[3]


def test_scores_say_what_the_model_computes() -> None:
    assert "softmax_s β cos(h_t, h̄_s)" in graph("cosine").notes[0]
    assert "β is learned" in graph("cosine").notes[0]
    assert "softmax_s cos(h_t, h̄_s)" in graph("plain-cosine").notes[0]
    assert "only the first 200 positions" in graph("location-local-m").notes[1]


def test_the_recipe_attention_has_one_layer_and_no_feeding() -> None:
    diagram = graph("attention")
    assert ("decoder.1.2", "query") in diagram.into("attend.2")
    assert "decoder.2.1" not in diagram.nodes
    assert "feeding" not in roles(diagram)


def test_only_local_p_predicts_the_centre_of_its_window() -> None:
    top = load_recipe("luong-local-p").model.layers  # type: ignore[union-attr]
    assert graph("luong-local-p").into("centre.2") == {(f"decoder.{top}.2", "query")}
    assert ("centre.2", "centre") in graph("luong-local-p").into("attend.2")
    assert graph("local-m").into("centre.2") == set()
    assert ("centre.2", "centre") in graph("local-m").into("attend.2")
    assert "centre.2" not in graph("luong").nodes


def test_gnmt_asks_with_the_bottom_layer_and_adds_residuals_from_the_third() -> None:
    diagram = graph("gnmt")
    assert "encoder.8.1" in diagram.nodes
    assert "encoder.9.1" not in diagram.nodes
    assert ("decoder.1.1", "query") in diagram.into("attend.2")
    assert ("zero", "query") in diagram.into("attend.1")
    fed = {edge.target for edge in diagram.edges if edge.source == "attend.2" and edge.role == "context"}
    assert fed == {f"decoder.{layer}.2" for layer in range(2, 9)}
    assert diagram.into("sum.decoder.3.2") == {("decoder.3.2", "input"), ("decoder.2.2", "residual")}
    assert diagram.into("sum.encoder.8.2") == {("encoder.8.2", "input"), ("sum.encoder.7.2", "residual")}
    assert "sum.decoder.2.2" not in diagram.nodes
    assert diagram.into("encoder.2.2") >= {("encoder.1.forward.2", "input"), ("encoder.1.backward.2", "input")}
    assert "encoder.2.backward.2" not in diagram.nodes  # only the first layer reads both ways
    assert ("encoder.1.backward.1", "start") in diagram.into("decoder.1.1")
    assert ("sum.encoder.8.3", "keys") in diagram.into("attend.1")


def test_tensorflow_nmt_sends_the_context_to_the_bottom_layer_too() -> None:
    for name, sent in (("gnmt", False), ("gnmt-to-all", True)):
        diagram = graph(name)
        assert (("attend.1", "context") in diagram.into("decoder.1.1")) is sent
        assert (("attend.2", "context") in diagram.into("decoder.1.2")) is sent


def test_gnmt_asks_with_the_bottom_layer_of_the_step_before_or_of_this_one() -> None:
    paper, second = graph("gnmt"), graph("gnmt-asks-at-once")
    assert ("zero", "query") in paper.into("attend.1")
    assert ("decoder.1.1", "query") in paper.into("attend.2")
    assert "zero" not in second.nodes
    for step in (1, 2):
        assert (f"decoder.1.{step}", "query") in second.into(f"attend.{step}")


def test_the_transformer_looks_at_all_source_words_and_never_ahead_in_the_target() -> None:
    diagram = graph("transformer-small")
    everywhere = {(f"encoder.1.{position}", "self") for position in (1, 2, 3, 4)}
    assert diagram.into("encoder.2.3") == everywhere | {("encoder.1.3", "input")}
    before = {("decoder.1.1", "self"), ("decoder.1.2", "self")}
    assert diagram.into("decoder.2.self.2") == before | {("decoder.1.2", "input")}
    keys = {(f"encoder.3.{position}", "keys") for position in (1, 2, 3, 4)}
    for layer in (1, 2, 3):  # every layer looks at the top of the encoder
        assert diagram.into(f"attend.{layer}.2") == keys | {(f"decoder.{layer}.self.2", "query")}
    assert not roles(diagram) & {"recurrent", "start", "feeding"}
    assert any("x + f(norm(x))" in note for note in graph("transformer-one-layer").notes)


def test_every_recipe_has_a_graph_of_its_own() -> None:
    named = ["seq2seq", "seq2seq-cho", "attention", "attention-bi", "bahdanau", "luong", "luong-local-p", "luong-bi"]
    named += ["gnmt", "gnmt-small", "gnmt-v2", "transformer", "transformer-small"]
    shapes = [frozenset(graph(name).edges) for name in named]
    assert len(set(shapes)) == len(named)


@pytest.mark.parametrize("case", CASES)
def test_every_edge_joins_two_nodes_and_everything_leads_to_an_output(case: str) -> None:
    diagram = graph(case)
    assert {name for edge in diagram.edges for name in (edge.source, edge.target)} == set(diagram.nodes)
    leads = {name for name in diagram.nodes if name.startswith("output.")}
    while more := {edge.source for edge in diagram.edges if edge.target in leads} - leads:
        leads |= more
    dead_ends = set(diagram.nodes) - leads
    if case == "bahdanau-appendix":
        dead_ends.remove("decoder.1.3")  # the last state, which no output reads there
    assert not {name for name in dead_ends if not name.startswith("encoder.")}


# --- the drawing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_boxes_do_not_overlap_and_no_line_runs_through_a_box(case: str) -> None:
    diagram = graph(case, target="le chat est là")
    drawing = Drawing(diagram)
    for (one, a), (other, b) in combinations(drawing.boxes.items(), 2):
        apart = a.right <= b.left or b.right <= a.left or a.bottom <= b.top or b.bottom <= a.top
        assert apart, (one, other)
    for edge in diagram.edges:
        if edge.role == "keys":
            continue
        points = drawing.route(edge)
        for (x1, y1), (x2, y2) in pairwise(points):
            assert x1 == x2 or y1 == y2, edge  # lines are orthogonal
            for name, box in drawing.boxes.items():
                if name in (edge.source, edge.target):
                    continue
                beside = max(x1, x2) <= box.left or min(x1, x2) >= box.right
                above_or_below = max(y1, y2) <= box.top or min(y1, y2) >= box.bottom
                assert beside or above_or_below, (edge, name)


@pytest.mark.parametrize("case", CASES)
def test_lines_of_different_roles_never_lie_on_each_other(case: str) -> None:
    diagram = graph(case, target="le chat est là")
    drawing = Drawing(diagram)
    pieces = []
    for edge in diagram.edges:
        if edge.role != "keys":
            points = drawing.route(edge)
            pieces += [(edge, *sorted(pair)) for pair in pairwise(points)]
    for (edge, a, b), (other, c, d) in combinations(pieces, 2):
        if {edge.role, other.role} <= {"query", "centre"} or edge.role == other.role:
            continue
        if a[0] == b[0] == c[0] == d[0]:
            assert min(b[1], d[1]) - max(a[1], c[1]) <= 0, (edge, other)
        if a[1] == b[1] == c[1] == d[1]:
            assert min(b[0], d[0]) - max(a[0], c[0]) <= 0, (edge, other)


@pytest.mark.parametrize("case", CASES)
def test_the_svg_is_well_formed_legible_and_inside_its_page(case: str) -> None:
    svg = draw_diagram(graph(case), case, "a subtitle")
    root = ElementTree.fromstring(svg)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    sizes = [float(size) for size in re.findall(r"font(?:-size)?:(\d+)px", svg)]
    assert min(sizes) >= 11
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        room = text_width("".join(text.itertext()).replace("_", "\\_"), 13)
        x = float(text.attrib["x"])
        left = {"inside": x - room / 2, "small": x - room / 2, "label encoder-label": x - room}
        start = left.get(text.attrib["class"], x)
        assert start >= 0
        assert start + room <= width
        assert 0 < float(text.attrib["y"]) < height
    assert "prefers-color-scheme: dark" in svg
    assert "<script" not in svg
    assert "href" not in svg


def test_a_users_words_are_escaped_cut_and_never_taken_for_subscripts() -> None:
    svg = draw_diagram(graph("bahdanau", "<b>&\"' a_b^c {d} Donaudampfschifffahrt \x07", "\\ 고양이는"), "<t_1>")
    root = ElementTree.fromstring(svg)
    texts = ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"<b>&\"'", "a_b^c", "{d}", "\\", "고양이는", "�", "<t_1>"} <= set(texts)
    assert any(re.fullmatch(r"Donau\w*…", text) for text in texts)


@pytest.mark.parametrize("sentence", ["", "   ", "a b c d e f g h i"])
def test_a_sentence_that_cannot_be_drawn_is_refused(sentence: str) -> None:
    with pytest.raises(ConfigError, match=r"words: a diagram is legible with 1 to 8.*--source"):
        graph("luong", sentence)


@pytest.mark.parametrize("case", CASES)
def test_every_node_and_edge_has_an_id_of_its_own(case: str) -> None:
    diagram = graph(case)
    root = ElementTree.fromstring(draw_diagram(diagram, case, prefix="x."))
    ids = [each.attrib["id"] for each in root.iter() if "id" in each.attrib]
    assert len(ids) == len(set(ids))
    assert {f"x.node.{name}" for name in diagram.nodes} <= set(ids)
    for edge in diagram.edges:
        if edge.role == "keys":
            assert {f"x.keys.{edge.source}", f"x.tap.{edge.target}"} <= set(ids)
        else:
            assert f"x.edge.{edge.source}.{edge.target}.{edge.role}" in ids
    used = {each.attrib["marker-end"][5:-1] for each in root.iter() if "marker-end" in each.attrib}
    assert used <= set(ids)


def test_a_look_is_drawn_with_its_own_words_and_without_the_style_of_a_page() -> None:
    translator = translator_of({"kind": "bahdanau"})
    look = translator.look("the cat saw a small dog.", reference="a green tree stands here and there and never moves.")
    svg = look_diagram(translator.recipe.model, look, styled=False)
    assert "<style>" not in svg
    assert ">saw<" in svg
    assert ">moves<" not in svg
    assert 'id="node.output.8"' in svg
    for line in diagram_style().splitlines():
        assert line.startswith((".diagram", "@media"))
