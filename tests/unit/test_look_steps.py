"""The five steps of attention: the textbook's numbers, formulas by hand, what holds for all vectors."""

import json
import math
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from regard.errors import ConfigError
from regard.look.steps import EXAMPLES, FORMULAS, Local, five_steps, multi_head, next_word, self_attention
from regard.look.views.steps_text import render, render_json
from regard.nn.attention.local import Predictive

sizes = st.integers(1, 5)
numbers = st.floats(-30, 30, allow_subnormal=False)


def matrices(rows: int, columns: int) -> st.SearchStrategy[np.ndarray]:
    return arrays(np.float64, (rows, columns), elements=numbers)


def test_textbook_example_has_its_published_numbers():
    textbook = EXAMPLES["textbook"]
    steps = five_steps(textbook.query, textbook.keys)
    rest = 1 + 2 * math.exp(-45) + math.exp(-25)
    weights = np.array([math.exp(-45), 1, math.exp(-45), math.exp(-25)]) / rest
    assert steps.scores.tolist() == [[15, 60, 15, 35]]
    np.testing.assert_allclose(steps.weights[0], weights, rtol=1e-14)
    np.testing.assert_allclose(steps.weights[0], [2.86e-20, 1, 2.86e-20, 1.39e-11], rtol=2e-3)
    np.testing.assert_allclose(steps.weighted_values[0, 3], [0, 5 * weights[3], weights[3]], rtol=1e-14)
    np.testing.assert_allclose(steps.context[0], [5, 6.94e-11, 1], rtol=1e-3)
    np.testing.assert_array_equal(steps.output[0], [*steps.context[0], 10, 5, 10])


def test_the_first_example_has_weights_worth_looking_at():
    small = EXAMPLES["small"]
    steps = next_word(five_steps(small.query, small.keys), small.combine, small.project)
    e = np.exp([1.5, 3, 1.5, 2])
    np.testing.assert_allclose(steps.weights[0], e / e.sum(), rtol=1e-14)
    assert 0.1 < steps.weights.min() < steps.weights.max() < 0.6
    context, query = steps.context[0], np.array(small.query[0])
    np.testing.assert_allclose(steps.attentional[0], np.tanh((context + query) / 2), rtol=1e-14)
    a, b, c = steps.attentional[0]
    p = np.exp([2 * b, 2 * a + c, a + b, c])
    np.testing.assert_allclose(steps.probabilities[0], p / p.sum(), rtol=1e-14)
    text = render(steps)
    assert "6. attentional vector: tanh(Wc [context; query])" in text
    assert "7. probability of each next word" in text
    assert json.loads(render_json(steps))["probabilities"] == steps.probabilities.tolist()


def test_scaled_dot_stands_beside_dot():
    text = render(five_steps([1, 0, 0, 0], [[2, 0, 0, 0], [0, 0, 0, 0]]))
    assert "scores / √4, would give" in text
    assert f"{math.e / (math.e + 1):.3g}" in text
    assert "would give" not in render(five_steps([1, 0], [[2, 0]], score="scaled_dot"))


def test_shapes_of_several_queries():
    steps = five_steps(np.ones((2, 3)), np.ones((4, 3)), np.ones((4, 5)))
    assert steps.scores.shape == steps.weights.shape == (2, 4)
    assert steps.weighted_values.shape == (2, 4, 5)
    assert steps.context.shape == (2, 5)
    assert steps.output.shape == (2, 8)


@pytest.mark.parametrize(
    ("score", "weight", "expected"),
    [
        ("dot", [], [4, -3]),
        ("scaled_dot", [], [4 / math.sqrt(2), -3 / math.sqrt(2)]),
        ("cosine", [], [4 / (5 * 1), -3 / (5 * 1)]),
        ("general", [[[1, 2], [3, 4]]], [(3 * 2 + 4 * 4), -(3 * 1 + 4 * 3)]),
        (
            "additive",
            [[[1, 0], [0, 1]], [[0, 1], [1, 0]], [2, -1]],
            [2 * math.tanh(3 + 1) - math.tanh(4), 2 * math.tanh(3) - math.tanh(4 - 1)],
        ),
        ("location", [[[1, 1], [1, -1]]], [7, -1]),
        (
            "concat",
            [[[1, 0, 0, 1], [0, 1, 1, 0]], [2, -1]],
            [2 * math.tanh(3 + 1) - math.tanh(4), 2 * math.tanh(3) - math.tanh(4 - 1)],
        ),
    ],
)
def test_each_score_by_hand(score, weight, expected):
    steps = five_steps([3, 4], [[0, 1], [-1, 0]], score=score, weight=weight)
    np.testing.assert_allclose(steps.scores[0], expected, rtol=1e-14)


def test_every_formula_is_tested_by_hand():
    tested = {mark.args[1][row][0] for mark in test_each_score_by_hand.pytestmark for row in range(7)}
    assert tested == set(FORMULAS)


def test_cosine_may_be_sharpened():
    plain = five_steps([3, 4], [[0, 1], [-1, 0]], score="cosine")
    sharp = five_steps([3, 4], [[0, 1], [-1, 0]], score="cosine", sharpness=5)
    np.testing.assert_allclose(sharp.scores, 5 * plain.scores, rtol=1e-15)
    assert "β qᵀk / (|q| |k|)    with β = 1\n" in render(plain)
    assert "β qᵀk / (|q| |k|)    with β = 5\n" in render(sharp)
    assert json.loads(render_json(sharp))["sharpness"] == 5
    with pytest.raises(ConfigError, match="score dot, qᵀk, has no sharpness"):
        five_steps([3, 4], [[0, 1]], sharpness=5)
    with pytest.raises(ConfigError, match="sharpness -1: β must be a number above 0"):
        five_steps([3, 4], [[0, 1]], score="cosine", sharpness=-1)


def test_concat_is_additive_with_w_and_u_side_by_side():
    concat = five_steps([0.1, 0.2], [[0.3, 0.4]], score="concat", weight=[[[1, 2, 3, 4]], [5]])
    additive = five_steps([0.1, 0.2], [[0.3, 0.4]], score="additive", weight=[[[1, 2]], [[3, 4]], [5]])
    np.testing.assert_allclose(concat.scores, additive.scores, rtol=1e-14)
    assert "vᵀ tanh(W [q; k])" in render(concat)


@pytest.mark.parametrize("gaussian", [False, True])
def test_the_local_window_is_that_of_the_models(gaussian):
    """Predictive gives the window and the Gaussian of p, whatever its weights."""
    torch.manual_seed(0)
    model = Predictive(2, 3).double()
    query = torch.randn(1, 1, 3, dtype=torch.float64)
    with torch.inference_mode():
        focus = model(query, [0], torch.tensor([6]), 6)
    keys = np.random.default_rng(0).normal(size=(6, 3))
    steps = five_steps(query[0].numpy(), keys, local=Local(float(focus.centre), 2, gaussian))
    np.testing.assert_array_equal(steps.mask[0], focus.inside[0, 0].numpy())
    e = np.where(steps.mask[0], np.exp(steps.scores[0]), 0)
    factor = focus.gaussian[0, 0].numpy() if gaussian else 1.0
    np.testing.assert_allclose(steps.weights[0], e / e.sum() * factor, rtol=1e-10)


@pytest.mark.parametrize("causal", [False, True])
def test_several_heads_equal_torch(causal):
    torch.manual_seed(1)
    layer = torch.nn.MultiheadAttention(6, 3, bias=False, batch_first=True, dtype=torch.float64)
    rows = torch.randn(4, 6, dtype=torch.float64)
    wq, wk, wv = (weight.T.numpy() for weight in layer.in_proj_weight.detach().chunk(3))
    mask = np.tril(np.ones((4, 4))) if causal else None
    steps = multi_head(
        rows.numpy() @ wq,
        rows.numpy() @ wk,
        rows.numpy() @ wv,
        3,
        mask=mask,
        output_weight=layer.out_proj.weight.detach().T.numpy(),
    )
    hidden = None if mask is None else torch.from_numpy(mask) == 0
    expected, weights = layer(rows[None], rows[None], rows[None], attn_mask=hidden, average_attn_weights=False)
    np.testing.assert_allclose(steps.output, expected[0].detach().numpy(), rtol=1e-10)
    for head, each in enumerate(steps.heads):
        np.testing.assert_allclose(each.weights, weights[0, head].detach().numpy(), rtol=1e-10)
    assert render(steps).count("head ") >= 3
    assert max(map(len, render(steps).splitlines())) <= 80
    assert len(json.loads(render_json(steps))["heads"]) == 3


def test_positions_beyond_the_location_score_get_no_weight():
    steps = five_steps([1], [[1], [1], [1]], score="location", weight=[[[2], [2]]])
    np.testing.assert_array_equal(steps.weights, [[0.5, 0.5, 0]])


@given(st.data())
def test_weights_are_a_distribution_and_the_context_lies_among_the_values(data):
    t, s, d, dv = (data.draw(sizes) for _ in range(4))
    values = data.draw(matrices(s, dv))
    steps = five_steps(data.draw(matrices(t, d)), data.draw(matrices(s, d)), values)
    assert (steps.weights >= 0).all()
    np.testing.assert_allclose(steps.weights.sum(axis=1), 1, rtol=1e-12)
    tolerance = 1e-9
    assert (steps.context <= values.max(axis=0) + tolerance).all()
    assert (steps.context >= values.min(axis=0) - tolerance).all()


@given(st.data())
def test_masked_keys_get_nothing_and_change_nothing(data):
    d, s = data.draw(sizes), data.draw(sizes)
    query, keys, extra = data.draw(matrices(2, d)), data.draw(matrices(s, d)), data.draw(matrices(3, d))
    alone = five_steps(query, keys)
    mask = np.array([[True] * s + [False] * 3] * 2)
    padded = five_steps(query, np.vstack([keys, extra]), mask=mask)
    assert (padded.weights[:, s:] == 0).all()
    np.testing.assert_allclose(padded.context, alone.context, rtol=1e-12, atol=1e-12)


def test_a_row_that_may_see_nothing_gives_zeros():
    steps = five_steps([[1.0, 2.0]], [[3.0, 4.0]], mask=[[False]])
    assert steps.weights.tolist() == [[0]]
    assert steps.context.tolist() == [[0, 0]]


@pytest.mark.parametrize("causal", [False, True])
def test_self_attention_equals_torch(causal):
    random = np.random.default_rng(0)
    rows, wq, wk, wv = random.normal(size=(5, 4)), *random.normal(size=(3, 4, 3))
    steps = self_attention(rows, wq, wk, wv, causal=causal)
    query, key, value = (torch.from_numpy(rows @ weight) for weight in (wq, wk, wv))
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
    np.testing.assert_allclose(steps.context, expected.numpy(), rtol=1e-10)
    np.testing.assert_array_equal(steps.output, steps.context)


@given(st.data())
def test_text_is_at_most_80_columns_for_any_shape(data):
    t, s, d = data.draw(st.integers(1, 15)), data.draw(st.integers(1, 30)), data.draw(st.integers(1, 30))
    random = np.random.default_rng(data.draw(st.integers(0, 100)))
    scale = 10.0 ** data.draw(st.integers(-120, 120))
    steps = five_steps(random.normal(size=(t, d)) * scale, random.normal(size=(s, d)) * scale)
    assert max(len(line) for line in render(steps).splitlines()) <= 80


def test_text_says_the_shape_of_every_step():
    text = render(five_steps(np.ones((2, 3)), np.ones((4, 3)), np.ones((4, 5))))
    shapes = re.findall(r"\(\d+(?:, \d+)+\)", text)
    assert shapes == ["(2, 3)", "(4, 3)", "(4, 5)", "(2, 4)", "(2, 4)", "(2, 4)", "(2, 4, 5)", "(2, 5)", "(2, 8)"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: five_steps([1, 2], [[1, 2, 3]]), "a query has 2 numbers but a key has 3"),
        (lambda: five_steps([1], [[1], [2]], [[1]]), "2 keys but 1 values"),
        (lambda: five_steps([1], [[1]], score="dott"), "did you mean 'dot'?"),
        (lambda: five_steps([1], [[1]], score="general"), "0 weight matrices given, it needs 1 (W)"),
        (lambda: five_steps([1], [[1]], score="additive", weight=[[1]]), "it needs 3 (W, U, v)"),
        (lambda: five_steps([1], [[1]], score="dot", weight=[[1]]), "it needs none"),
        (lambda: five_steps([1, 2], [[1]], score="general", weight=[[[1]]]), "it must be (2, 1)"),
        (lambda: five_steps([1], [[1]], score="additive", weight=[[1], [1], [1, 2]]), "v has 2 numbers"),
        (lambda: five_steps([math.nan], [[1]]), "query: it holds a number that is not finite"),
        (lambda: five_steps([], [[1]]), "query: it is empty"),
        (lambda: five_steps([[1, 2], [3]], [[1]]), "rows of equal length"),
        (lambda: five_steps([1e200], [[1e200]]), "too large"),
        (lambda: five_steps([1], [[1]], mask=[[True, False]]), "queries by keys"),
        (lambda: five_steps([1], [[1]], mask=[2]), "mask: it holds other numbers than 0 and 1"),
        (lambda: five_steps([1], [[1]], score="concat", weight=[[[1]], [1]]), "it must be (1, 2)"),
        (lambda: five_steps([1], [[1]], local=Local(3, 1)), "centre 3: it is a position from 0 to 1"),
        (lambda: five_steps([1], [[1]], local=Local(1, 0)), "window 0"),
        (lambda: next_word(five_steps([1], [[1]]), [[1]]), "[context; query] has 2 numbers"),
        (lambda: next_word(five_steps([1], [[1]]), [[1, 1]], [[1, 1]]), "the attentional vector has 1 numbers"),
        (lambda: multi_head([1, 2, 3], [[1, 2, 3]]), "cannot be split into 2 heads"),
        (lambda: multi_head([1, 2], [[1, 2]], score="general"), "a matrix of its own for each head"),
        (lambda: self_attention([[1, 2]], query_weight=[[1]]), "wq is (1, 1) but a row of the input has 2"),
    ],
)
def test_impossible_input_is_one_clear_line(call, message):
    with pytest.raises(ConfigError) as error:
        call()
    assert message in str(error.value)
    assert "\n" not in str(error.value)
