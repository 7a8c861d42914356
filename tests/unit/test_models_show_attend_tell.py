"""Show, Attend and Tell against a slow loop written from the paper, its contract, its penalty its hard attention."""

import numpy as np
import pytest
import torch

from regard.config.captioning import CaptionerSettings, CaptionRecipe
from regard.config.settings import SearchSettings
from regard.decoding.search import search
from regard.errors import ConfigError
from regard.models.check import check_contract
from regard.models.contract import Batch
from regard.models.show_attend_tell import OneCell, ShowAttendTell
from regard.nn.attention.intervention import Edit, Intervention

E, D, A, C, V = 4, 6, 5, 8, 9
TARGETS = [[2, 4, 8, 5, 5], [2, 7, 4, 6, 3]]


def settings(**changes) -> CaptionerSettings:
    sizes = {"image_size": 8, "channels": (8, C), "embedding_size": E, "hidden_size": D, "attention_size": A}
    return CaptionerSettings(**{**sizes, **changes})


def build(**changes) -> ShowAttendTell:
    torch.manual_seed(5)
    model = ShowAttendTell(settings(**changes), V).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # zeros and ones would hide a bias, a scale or a gate
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def batch(lengths: tuple[int, int] = (5, 5)) -> Batch:
    images = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    target = torch.tensor(TARGETS)
    mask = torch.arange(5) < torch.tensor(lengths).unsqueeze(1)
    return Batch(images, None, target, target, mask)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def loop(parameters: dict[str, np.ndarray], cells: np.ndarray, words: list[int], hard: bool):
    """Logits (T, V) and weights (T, L) of one image, from its annotations (L, C), by the paper's equations."""
    p = parameters
    mean = cells.mean(0)
    h = np.tanh(p["initial_state.weight"] @ mean + p["initial_state.bias"])
    c = np.tanh(p["initial_cell.weight"] @ mean + p["initial_cell.bias"])
    logits, weights = [], []
    for word in words:
        scores = np.array(
            [
                p["attend.score.v"]
                @ np.tanh(p["attend.score.query.weight"] @ h + p["attend.score.key.weight"] @ annotation)
                for annotation in cells
            ]
        )
        alpha = np.exp(scores - scores.max())
        alpha /= alpha.sum()
        if hard:
            alpha = np.eye(len(alpha))[alpha.argmax()]
        beta = sigmoid(p["gate.weight"] @ h + p["gate.bias"])
        z = beta * sum(weight * annotation for weight, annotation in zip(alpha, cells, strict=True))
        embedded = p["words.weight"][word]
        gates = p["lstm.weight_input"] @ np.concatenate([embedded, z]) + p["lstm.weight_hidden"] @ h + p["lstm.bias"]
        i, f, g, o = np.split(gates, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        deep = embedded + p["output_state.weight"] @ h + p["output_state.bias"] + p["output_context.weight"] @ z
        logits.append(p["output.weight"] @ deep + p["output.bias"])
        weights.append(alpha)
    return np.array(logits), np.array(weights)


@pytest.mark.parametrize("attention", ["soft", "hard"])
def test_the_equations_are_those_of_the_paper(attention):
    model, given = build(attention=attention), batch()
    parameters = {name: value.detach().numpy() for name, value in model.named_parameters()}
    with torch.no_grad():
        output = model(given, attention=True)
        logits = model.project(output.hidden).numpy()
        memory = model.encode(given.source)
    assert memory.grid == (2, 2)
    for row, words in enumerate(TARGETS):
        expected, weights = loop(parameters, memory.values[row].numpy(), words, attention == "hard")
        np.testing.assert_allclose(logits[row], expected, rtol=0, atol=1e-10)
        np.testing.assert_allclose(output.attention["cross"][row, 0, 0].numpy(), weights, rtol=0, atol=1e-10)


@pytest.mark.parametrize("changes", [{}, {"attention": "hard"}, {"coordinates": False}, {"image_channels": 1}])
def test_it_keeps_the_contract(changes):
    channels = changes.get("image_channels", 3)
    check_contract(build(doubly_stochastic=0.5, **changes), image=(channels, 8, 8))


def test_bytes_are_read_as_numbers_from_0_to_1():
    model = build()
    given = torch.randint(0, 256, (1, 3, 8, 8), dtype=torch.uint8)
    same = model.encode(given).values, model.encode(given.double() / 255).values
    torch.testing.assert_close(*same)


def test_coordinates_tell_cells_of_a_plain_image_apart():
    plain = torch.full((1, 3, 32, 32), 0.5, dtype=torch.float64)
    inner = []
    for told in (True, False):
        values = build(image_size=32, coordinates=told).encode(plain).values.view(8, 8, -1)
        inner.append((values[3, 3] - values[4, 4]).abs().max().item())  # the border is out of their sight
    assert inner[0] > 1e-3
    assert inner[1] < 1e-12


def test_the_doubly_stochastic_penalty_is_that_of_the_paper_and_leaves_padding_out():
    given = batch(lengths=(5, 3))
    output = build(doubly_stochastic=0.7)(given, attention=True)
    expected = 0.0
    for row, length in enumerate((5, 3)):
        alpha = output.attention["cross"][row, 0, 0]
        for cell in range(4):
            expected += 0.7 * (1 - sum(float(alpha[step, cell].detach()) for step in range(length))) ** 2
    assert float(output.extra_loss.detach()) == pytest.approx(expected / 8)  # per word, of which there are 8
    assert build()(given).extra_loss is None


def test_the_gradient_reaches_every_parameter():
    for attention in ("soft", "hard"):
        model = build(attention=attention, doubly_stochastic=0.1).train()
        output = model(batch())
        (model.project(output.hidden).square().sum() + output.extra_loss).backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.abs().max() > 0, name


# --- hard attention ---------------------------------------------------------------------------------------------------


def test_draws_follow_the_weights_and_evaluation_takes_the_likeliest():
    weights = torch.tensor([[0.2, 0.5, 0.3]]).repeat(20_000, 1)
    torch.manual_seed(0)
    drawn = OneCell().train()(weights)
    assert set(drawn.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(drawn.sum(-1), torch.ones(20_000))
    torch.testing.assert_close(drawn.mean(0), weights[0], rtol=0, atol=0.015)
    assert OneCell().eval()(weights[:2]).tolist() == [[0, 1, 0], [0, 1, 0]]


def test_nothing_is_drawn_where_nothing_may_be_looked_at():
    for module in (OneCell().train(), OneCell().eval()):
        assert module(torch.zeros(2, 3, 4)).tolist() == torch.zeros(2, 3, 4).tolist()


def test_the_estimator_is_exact_for_a_linear_loss():
    """E[loss] over the draws, by enumeration, has the gradient that a single draw gives."""
    scores = torch.tensor([0.3, -0.2, 0.9, 0.1], dtype=torch.float64, requires_grad=True)
    values = torch.tensor([[1.0, 2.0], [-1.0, 0.5], [0.3, -0.7], [2.0, 0.1]], dtype=torch.float64)
    taste = torch.tensor([0.4, -1.3], dtype=torch.float64)
    losses = values @ taste
    expected = torch.autograd.grad((scores.softmax(0) * losses).sum(), scores)[0]
    for seed in range(5):
        torch.manual_seed(seed)
        drawn = OneCell().train()(scores.softmax(0).unsqueeze(0))
        loss = (drawn @ values @ taste).sum()
        assert float(loss.detach()) in [pytest.approx(float(each)) for each in losses]
        torch.testing.assert_close(torch.autograd.grad(loss, scores)[0], expected)


def test_interventions_come_after_the_choice():
    model, given = build(attention="hard"), batch()
    edited = model(given, attention=True, intervention=Intervention(edits=(Edit(step=1, position=2, replace=0.25),)))
    assert torch.equal(edited.attention["cross"][:, 0, 0, 1, 2], torch.full((2,), 0.25, dtype=torch.float64))
    banned = model(given, attention=True, intervention=Intervention(ban=(0, 1, 3)))
    assert torch.equal(banned.attention["cross"][..., 2], torch.ones(2, 1, 1, 5, dtype=torch.float64))


# --- options ----------------------------------------------------------------------------------------------------------


def test_word_dropout_hides_words_while_training_alone():
    model, given = build(word_dropout=0.5, dropout=0.0), batch()
    assert torch.equal(model(given).hidden, model(given).hidden)
    model.train()
    torch.manual_seed(0)
    hidden = model._read(torch.full((4000,), 4)).abs().sum(-1) == 0
    assert 0.45 < hidden.double().mean() < 0.55


def test_search_works_with_images():
    model = build().float()
    images = batch().source.float()
    greedy = search(model, images, None, SearchSettings(beam=1, max_length_ratio=1.0), attention=True)
    beam = search(model, images, None, SearchSettings(beam=3, n_best=2, max_length_ratio=1.0), attention=True)
    assert [len(found) for found in beam] == [2, 2]
    assert beam[0][0].score >= greedy[0][0].score - 1e-5
    assert beam[1][0].alignment.shape == (len(beam[1][0].ids), 4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_size": 60}, "image_size = 60 cannot be halved 3 times"),
        ({"image_size": 8}, "into 2 x 2 cells or more"),
        ({"channels": (16, 0)}, r"model.channels.1 = 0"),
    ],
)
def test_sizes_that_do_not_fit_are_told(changes, message):
    from regard.config.recipes import check_as

    model = {key: list(value) if isinstance(value, tuple) else value for key, value in changes.items()}
    with pytest.raises(ConfigError, match=message):
        check_as(CaptionRecipe, {"model": {"kind": "captioner", **model}, "training": {"updates": 1}}, "r.toml")
