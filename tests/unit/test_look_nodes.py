"""The numbers of the diagram's boxes: gates against loops over the weights, residuals, positions, all boxes."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from look_help import translator_of

from regard.config.vocabulary import BOS
from regard.errors import ConfigError
from regard.inference.translator import Translator
from regard.look.nodes import NodeGroup, node_numbers
from regard.look.record import Look
from regard.look.views.diagram import build_diagram

Array = npt.NDArray[np.float64]
SENTENCE, REFERENCE = "the cat saw a tree", "작은 고양이 here"
WITHOUT_NUMBERS = {"source", "target", "output", "attend", "summary", "zero"}  # words, the steps' panel, constants
KINDS: dict[str, dict[str, Any]] = {
    "seq2seq": {"kind": "seq2seq"},
    "cho": {"kind": "seq2seq", "context": "every_step", "cell": "gru", "layers": 1},
    "rnn": {"kind": "luong", "cell": "rnn"},
    "bahdanau": {"kind": "bahdanau"},
    "bahdanau-norm": {"kind": "bahdanau", "layer_norm": True, "encoder_reset": "before"},
    "luong": {"kind": "luong", "reverse_source": True},
    "luong-bi": {"kind": "luong", "bidirectional": True, "reverse_source": True, "cell": "gru"},
    "textbook": {"kind": "luong", "query": "previous", "window": "local-p"},
    "gnmt": {"kind": "gnmt", "layers": 4},
    "transformer": {
        **{"kind": "transformer", "encoder_layers": 2, "decoder_layers": 2, "heads": 2, "feedforward_size": 16}
    },
    "pre-norm": {
        **{"kind": "transformer", "encoder_layers": 1, "decoder_layers": 1, "heads": 2, "feedforward_size": 16},
        **{"norm": "pre", "start_token": "pad"},
    },
}


def looked(name: str) -> tuple[Translator, Look]:
    translator = translator_of(KINDS[name])
    return translator, translator.look(SENTENCE, reference=REFERENCE)


def group_at(translator: Translator, look: Look, node: str, place: int) -> NodeGroup:
    (group,) = node_numbers(translator.model, look, node, place).groups
    return group


def vectors(group: NodeGroup) -> dict[str, Array]:
    return {vector.name: np.array(vector.values) for vector in group.vectors}


def sigmoid(values: Array) -> Array:
    return 1 / (1 + np.exp(-values))


def weights(module: torch.nn.Module) -> dict[str, Array]:
    return {name: tensor.detach().double().numpy() for name, tensor in module.named_parameters()}


@pytest.mark.parametrize("name", KINDS)
def test_every_box_of_the_diagram_has_numbers_that_agree(name: str) -> None:
    translator, look = looked(name)
    diagram = build_diagram(translator.recipe.model, "a b c", "x y")
    boxes = {re.sub(r"\.\d+$", "", node) for node in diagram.nodes}
    asked = {box for box in boxes if box.partition(".")[0] not in WITHOUT_NUMBERS}
    assert asked
    before = {id(module): len(module._forward_hooks) for module in translator.model.modules()}
    for node in asked:
        for group in node_numbers(translator.model, look, node, 1).groups:
            for vector in group.vectors:
                assert vector.size == len(vector.values)
                assert vector.mean == pytest.approx(np.mean(vector.values), abs=1e-4)
                assert vector.norm == pytest.approx(np.linalg.norm(vector.values), rel=1e-4, abs=1e-5)
                if vector.gate:
                    assert all(0 <= value <= 1 for value in vector.values)
    # the model itself is as it was
    assert before == {id(module): len(module._forward_hooks) for module in translator.model.modules()}
    assert not any("kernel" in vars(module) for module in translator.model.modules())
    assert translator.look(SENTENCE, reference=REFERENCE) == look


def test_the_gates_of_bahdanaus_decoder_are_those_of_the_paper() -> None:
    """z, r = σ(W x + U s), s̃ = tanh(W x + U′ (r ∘ s)), s = (1 − z) ∘ s + z ∘ s̃, over all steps."""
    translator, look = looked("bahdanau")
    cell, table = weights(translator.model.cell), translator.model.embeddings.target.weight.detach().double().numpy()
    memory = translator.model.encode(torch.tensor([[piece.id for piece in look.source.pieces]]))
    values = memory.values[0].detach().double().numpy()
    state = translator.model.start(memory).tensors[0][0].detach().double().numpy()
    size = len(state)
    read = [BOS, *(step.id for step in look.steps[:-1])]
    for place, (token, step) in enumerate(zip(read, look.steps, strict=True)):
        context = np.array(step.attention[0].weights) @ values
        product = cell["weight_input"] @ np.concatenate([table[token], context]) + cell["bias"]
        gates = sigmoid(product[: 2 * size] + cell["weight_hidden"] @ state)
        reset, update = gates[:size], gates[size:]
        candidate = np.tanh(product[2 * size :] + cell["weight_candidate"] @ (reset * state))
        shown = vectors(group_at(translator, look, "decoder.1", place))
        np.testing.assert_allclose(shown["reset r"], reset, atol=2e-4)
        np.testing.assert_allclose(shown["update z"], update, atol=2e-4)
        np.testing.assert_allclose(shown["candidate s̃"], candidate, atol=5e-4)
        np.testing.assert_allclose(shown["h₋₁"], state, atol=5e-4)
        state = (1 - update) * state + update * candidate
        np.testing.assert_allclose(shown["h"], state, atol=5e-4)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_the_gates_of_a_bidirectional_gru_over_a_reversed_source(direction: str) -> None:
    translator, look = looked("luong-bi")
    encoder = translator.model.encoder
    cell = weights((encoder.layers if direction == "forward" else encoder.backward_layers)[0])
    ids = [piece.id for piece in look.source.pieces]
    order = [*reversed(range(len(ids) - 1)), len(ids) - 1]  # EOS stays last
    words = translator.model.embeddings.read_source(torch.tensor(ids)).detach().double().numpy()
    state = np.zeros(len(cell["bias"]) // 3)
    for place in order if direction == "forward" else reversed(order):
        from_input = np.split(cell["weight_input"] @ words[place] + cell["bias"], 3)
        from_state = np.split(cell["weight_hidden"] @ state + cell["bias_hidden"], 3)
        reset, update = (sigmoid(from_input[gate] + from_state[gate]) for gate in (0, 1))
        candidate = np.tanh(from_input[2] + reset * from_state[2])
        state = (1 - update) * candidate + update * state
        shown = vectors(group_at(translator, look, f"encoder.1.{direction}", place))
        np.testing.assert_allclose(shown["reset r"], reset, atol=1e-4)
        np.testing.assert_allclose(shown["update z"], update, atol=1e-4)
        np.testing.assert_allclose(shown["h"], state, atol=1e-4)


def test_the_gates_of_an_lstm() -> None:
    translator, look = looked("luong")
    cell = weights(translator.model.encoder.layers[0])
    ids = [piece.id for piece in look.source.pieces]
    words = translator.model.embeddings.read_source(torch.tensor(ids)).detach().double().numpy()
    hidden = memory = np.zeros(len(cell["bias"]) // 4)
    for place in [*reversed(range(len(ids) - 1)), len(ids) - 1]:
        total = cell["weight_input"] @ words[place] + cell["weight_hidden"] @ hidden + cell["bias"]
        i, f, g, o = np.split(total, 4)
        memory = sigmoid(f) * memory + sigmoid(i) * np.tanh(g)
        hidden = sigmoid(o) * np.tanh(memory)
        group = group_at(translator, look, "encoder.1", place)
        shown = vectors(group)
        for name, values in {"input i": i, "forget f": f, "output o": o}.items():
            np.testing.assert_allclose(shown[name], sigmoid(values), atol=1e-4)
        np.testing.assert_allclose(shown["c"], memory, atol=1e-4)
        np.testing.assert_allclose(shown["h"], hidden, atol=1e-4)
        assert [vector.name for vector in group.vectors if vector.gate] == ["input i", "forget f", "output o"]


def test_a_residual_sum_of_gnmt_is_the_layer_and_its_input() -> None:
    translator, look = looked("gnmt")
    third = vectors(group_at(translator, look, "sum.decoder.3", 2))
    np.testing.assert_allclose(third["f(x)"], vectors(group_at(translator, look, "decoder.3", 2))["h"])
    np.testing.assert_allclose(third["x"], vectors(group_at(translator, look, "decoder.2", 2))["h"])
    fourth = vectors(group_at(translator, look, "sum.decoder.4", 2))
    np.testing.assert_allclose(fourth["x"], third["x + f(x)"], atol=1e-5)
    np.testing.assert_allclose(fourth["x + f(x)"], fourth["x"] + fourth["f(x)"], atol=1e-5)


def test_the_layers_of_a_transformer_follow_each_other() -> None:
    """Embedding + position → layer 1 → layer 2; the feed-forward network against its weights."""
    translator, look = looked("transformer")
    model, place = translator.model, 3
    embedding = vectors(group_at(translator, look, "embed.source", place))
    size = model.settings.hidden_size
    rates = [10000 ** (-2 * (i // 2) / size) for i in range(size)]
    expected = [(math.sin if i % 2 == 0 else math.cos)(place * rate) for i, rate in enumerate(rates)]
    np.testing.assert_allclose(embedding["PE"], expected, atol=1e-5)
    np.testing.assert_allclose(embedding["√d E + PE"], embedding["√d E"] + embedding["PE"], atol=1e-4)
    attends, feeds = node_numbers(model, look, "encoder.1", place).groups
    np.testing.assert_allclose(vectors(attends)["x"], embedding["√d E + PE"], atol=1e-4)
    x = vectors(feeds)["x"]
    np.testing.assert_allclose(x, vectors(attends)["norm(x + f(x))"])
    network = weights(model.encoder[0].feedforward)
    units = network["inner.weight"] @ x + network["inner.bias"]
    assert feeds.active == pytest.approx(np.mean(units > 0), abs=1e-6)
    outputs = network["outer.weight"] @ np.maximum(units, 0) + network["outer.bias"]
    np.testing.assert_allclose(vectors(feeds)["f"], outputs, rtol=1e-3, atol=1e-3)
    norm, total = weights(model.encoder[0].feedforward_norm), x + outputs
    normal = (total - total.mean()) / np.sqrt(total.var() + 1e-5) * norm["weight"] + norm["bias"]
    np.testing.assert_allclose(vectors(feeds)["norm(x + f(x))"], normal, rtol=1e-3, atol=1e-3)
    above, _ = node_numbers(model, look, "encoder.2", place).groups
    np.testing.assert_allclose(vectors(above)["x"], vectors(feeds)["norm(x + f(x))"])
    # the decoder writes the hidden state that the output layer reads
    last = vectors(group_at(translator, look, "decoder.2", 1))["norm(x + f(x))"]
    chosen = model.project(torch.tensor(last, dtype=torch.float32)).softmax(-1)[look.steps[1].id]
    assert float(chosen.detach()) == pytest.approx(look.steps[1].probability, rel=1e-2, abs=1e-6)


def test_a_predicted_centre_is_that_of_the_record() -> None:
    translator, look = looked("textbook")
    assert group_at(translator, look, "centre", 1).centre == look.steps[1].attention[0].centre


def test_what_has_no_numbers_is_refused() -> None:
    translator, look = looked("bahdanau")
    with pytest.raises(ConfigError, match=r"decoder.2: no box with numbers has that name: did you mean 'decoder.1'"):
        node_numbers(translator.model, look, "decoder.2", 0)
    with pytest.raises(ConfigError, match="its positions are 0 to"):
        node_numbers(translator.model, look, "decoder.1", 99)
    with pytest.raises(ConfigError, match="no local attention"):
        node_numbers(translator.model, look, "centre", 0)
    ensemble = Translator.ensemble([translator, translator])
    with pytest.raises(ConfigError, match="does not say"):
        node_numbers(ensemble.model, look, "decoder.1", 0)
