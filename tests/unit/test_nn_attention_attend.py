"""Normalise and aggregate, globally and in Luong's windows, by the letter of the paper and one position at a time."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.look.steps import five_steps
from regard.nn.attention import Attend, Dot, Location, Monotonic, Predictive, make_window, masked_softmax
from regard.nn.attention.memory import Memory

D = 4


def random(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make_memory(lengths: list[int], width: int, seed: int = 1) -> Memory:
    """Keys and values with noise, not zeros, on the padding."""
    mask = torch.arange(width) < torch.tensor(lengths).unsqueeze(1)
    keys = random(len(lengths), width, D, seed=seed)
    return Memory(mask, torch.tensor(lengths), (), keys, random(len(lengths), width, 3, seed=seed + 1))


# --- softmax ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.floats(-50, 50), st.booleans()), min_size=1, max_size=6))
def test_masked_softmax_is_the_softmax_of_what_is_allowed(cells: list[tuple[float, bool]]):
    scores = torch.tensor([score for score, _ in cells], dtype=torch.float64)
    mask = torch.tensor([allowed for _, allowed in cells])
    got = masked_softmax(scores, mask)
    total = sum(math.exp(score) for score, allowed in cells if allowed)
    expected = [math.exp(score) / total if allowed else 0.0 for score, allowed in cells]
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12)
    assert torch.equal(got[~mask], torch.zeros_like(got[~mask]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_nothing_allowed_gives_zeros_and_finite_gradients(dtype: torch.dtype):
    scores = torch.tensor([[1.0, 2.0], [3.0, -1e30]], dtype=dtype, requires_grad=True)
    weights = masked_softmax(scores, torch.tensor([[False, False], [True, True]]))
    assert torch.equal(weights[0], torch.zeros(2, dtype=dtype))
    assert weights[1].sum() == 1
    (weights * torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=dtype)).sum().backward()
    assert scores.grad is not None
    assert torch.isfinite(scores.grad).all()
    assert torch.equal(scores.grad[0], torch.zeros(2, dtype=dtype))


def test_masked_scores_may_be_anything():
    scores = torch.tensor([[1.0, torch.inf, torch.nan, 2.0]])
    weights = masked_softmax(scores, torch.tensor([[True, False, False, True]]))
    torch.testing.assert_close(weights, torch.tensor([[0.268941, 0, 0, 0.731059]]))


# --- global ----------------------------------------------------------------------------------------------------------


def test_global_attention_is_the_five_steps():
    memory = make_memory([5, 3], 5)
    query = random(2, 2, D, seed=9)
    attended = Attend(Dot(D, D))(query, memory, [0, 1])
    assert memory.keys is not None
    assert memory.values is not None
    for b, length in enumerate([5, 3]):
        steps = five_steps(query[b].numpy(), memory.keys[b, :length].numpy(), memory.values[b, :length].numpy())
        np.testing.assert_allclose(attended.weights[b, :, :length].numpy(), steps.weights, rtol=1e-12)
        np.testing.assert_allclose(attended.context[b].numpy(), steps.context, rtol=1e-12)
        assert not attended.weights[b, :, length:].any()


def test_textbook_example():
    keys = torch.tensor([[[0, 1, 1], [5, 0, 1], [1, 1, 0], [0, 5, 1]]], dtype=torch.float64)
    memory = Memory(torch.ones(1, 4, dtype=torch.bool), torch.tensor([4]), (), keys, keys)
    attended = Attend(Dot(3, 3))(torch.tensor([[[10, 5, 10]]], dtype=torch.float64), memory, [0])
    assert attended.scores[0, 0].tolist() == [15, 60, 15, 35]
    np.testing.assert_allclose(attended.weights[0, 0].numpy(), [2.86e-20, 1, 2.86e-20, 1.39e-11], rtol=2e-3)
    np.testing.assert_allclose(attended.context[0, 0].numpy(), [5, 6.94e-11, 1], rtol=1e-3)


# --- local -----------------------------------------------------------------------------------------------------------


def local_by_hand(scores: np.ndarray, centre: float, width: int, gaussian: bool) -> np.ndarray:
    """Luong 3.2 for one query: softmax over the s in [p − D, p + D], then the Gaussian; positions run from 1."""
    inside = [s for s in range(1, len(scores) + 1) if centre - width <= s <= centre + width]
    assert inside, "a window is never empty"
    total = sum(math.exp(scores[s - 1]) for s in inside)
    weights = np.zeros(len(scores))
    for s in inside:
        weights[s - 1] = math.exp(scores[s - 1]) / total
        if gaussian:
            sigma = width / 2
            weights[s - 1] *= math.exp(-((s - centre) ** 2) / (2 * sigma**2))
    return weights


@pytest.mark.parametrize("padded", [7, 10])
@pytest.mark.parametrize("width", [1, 2, 20])
def test_local_m_is_the_papers(width: int, padded: int):
    lengths, steps = [7, 4], 9
    memory = make_memory(lengths, padded)
    query = random(2, steps, D, seed=9)
    attended = Attend(Dot(D, D), make_window("local-m", width, D))(query, memory, range(steps))
    assert memory.keys is not None
    for b, length in enumerate(lengths):
        for t in range(steps):
            scores = (memory.keys[b, :length] @ query[b, t]).numpy()
            expected = local_by_hand(scores, min(t + 1, length), width, gaussian=False)
            np.testing.assert_allclose(attended.weights[b, t, :length].numpy(), expected, rtol=1e-11)
            assert not attended.weights[b, t, length:].any()
    torch.testing.assert_close(attended.weights.sum(-1), torch.ones(2, steps).double())


@pytest.mark.parametrize("padded", [7, 10])
@pytest.mark.parametrize("width", [1, 2, 20])
def test_local_p_is_the_papers(width: int, padded: int):
    torch.manual_seed(2)
    lengths, steps = [7, 4], 5
    memory = make_memory(lengths, padded)
    query = 3 * random(2, steps, D, seed=9)
    window = make_window("local-p", width, D)
    assert isinstance(window, Predictive)
    attend = Attend(Dot(D, D), window).double()
    attended = attend(query, memory, range(steps))
    W, v = window.weight.weight.detach().numpy(), window.v.weight[0].detach().numpy()
    assert memory.keys is not None
    centres = set()
    for b, length in enumerate(lengths):
        for t in range(steps):
            p = length / (1 + math.exp(-v @ np.tanh(W @ query[b, t].numpy())))
            scores = (memory.keys[b, :length] @ query[b, t]).numpy()
            expected = local_by_hand(scores, p, width, gaussian=True)
            np.testing.assert_allclose(attended.weights[b, t, :length].detach().numpy(), expected, rtol=1e-11)
            assert not attended.weights[b, t, length:].any()
            assert attended.focus is not None
            assert attended.focus.centre[b, t].item() == pytest.approx(p)
            centres.add(round(p, 3))
    assert len(centres) == 2 * steps, "every query predicts its own centre"
    assert (attended.weights.sum(-1) < 1).all(), "not renormalised after the Gaussian"


@pytest.mark.parametrize("push", [-1e3, 1e3])
def test_local_p_window_is_never_empty(push: float):
    """p = S · sigmoid(…) reaches 0 and S themselves when the sigmoid saturates."""
    window = Predictive(1, D)
    with torch.no_grad():
        window.v.weight.fill_(push)
        window.weight.weight.copy_(torch.eye(D))
    focus = window(torch.ones(1, 1, D), [0], torch.tensor([3]), 5)
    assert (focus.inside & (torch.arange(5) < 3)).any()


@pytest.mark.processor("bfloat16")
def test_windows_keep_exact_positions_in_low_precision():
    """bfloat16 cannot tell 257 from 256; where the window lies must not depend on it."""
    query = torch.zeros(1, 1, D, dtype=torch.bfloat16)
    for step in (300, 301, 302):  # counted from 0
        focus = Monotonic(1)(query, [step], torch.tensor([400]), 400)
        assert focus.inside[0, 0].nonzero().flatten().tolist() == [step - 1, step, step + 1]
        length = 2 * (step + 1)
        predictive = Predictive(1, D).bfloat16()(query, [0], torch.tensor([length]), length)  # sigmoid(0) = 1/2
        assert predictive.inside[0, 0].nonzero().flatten().tolist() == [step - 1, step, step + 1]
    assert predictive.gaussian is not None
    assert predictive.gaussian.dtype == torch.bfloat16


def test_location_gives_no_weight_beyond_its_reach():
    attend = Attend(Location(D, max_positions=3)).double()
    memory = make_memory([5, 2], 5)
    attended = attend(random(2, 1, D, seed=3), memory, [0])
    assert not attended.weights[0, :, 3:].any()
    torch.testing.assert_close(attended.weights.sum(-1), torch.ones(2, 1).double())


@pytest.mark.parametrize("push", [0.0, 50.0])
def test_a_local_window_stays_within_the_reach_of_the_location_score(push: float):
    """In a sentence longer than the score reaches, S counts the positions that it does reach."""
    memory, query, steps = make_memory([9, 2], 9), random(2, 9, D), range(9)
    monotonic = Attend(Location(D, max_positions=3), Monotonic(1)).double()
    weights = monotonic(query, memory, steps).weights
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 9).double())
    assert weights[0, 8].nonzero().flatten().tolist() == [1, 2], "the window around position 3"
    assert weights[0, 0].nonzero().flatten().tolist() == [0, 1]

    predictive = Attend(Location(D, max_positions=3), Predictive(1, D)).double()
    with torch.no_grad():
        predictive.window.v.weight.mul_(push or 1.0)
    attended = predictive(query, memory, steps)
    assert (attended.weights.sum(-1) > 0.01).all()
    assert (attended.focus.centre[0] <= 3).all()
    share = torch.sigmoid(predictive.window.v(torch.tanh(predictive.window.weight(query)))).squeeze(-1)
    torch.testing.assert_close(attended.focus.centre, share * torch.tensor([[3.0], [2.0]]).double())


@pytest.mark.parametrize("name", ["global", "local-m", "local-p"])
def test_padding_changes_nothing(name: str):
    torch.manual_seed(2)
    attend = Attend(Dot(D, D), make_window(name, 2, D)).double()
    query = random(1, 3, D, seed=4)
    memory = make_memory([4], 9)
    assert memory.keys is not None
    assert memory.values is not None
    short = Memory(memory.mask[:, :4], memory.lengths, (), memory.keys[:, :4], memory.values[:, :4])
    long, bare = attend(query, memory, range(3)), attend(query, short, range(3))
    torch.testing.assert_close(long.context, bare.context, rtol=0, atol=1e-14)
    torch.testing.assert_close(long.weights[..., :4], bare.weights, rtol=0, atol=1e-14)
    assert not long.weights[..., 4:].any()


# --- one step, several rows per sentence -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["global", "local-m", "local-p"])
def test_beams_share_the_memory_of_their_sentence(name: str):
    torch.manual_seed(2)
    attend = Attend(Dot(D, D), make_window(name, 1, D)).double()
    memory = make_memory([5, 3], 5)
    query = random(6, D, seed=8)  # 2 sentences of 3 beams each
    context, weights, _ = attend.at_step(query, memory, 2)
    for row in range(6):
        one = memory.select(torch.tensor([row // 3]))
        alone, alone_weights, _ = attend.at_step(query[row : row + 1], one, 2)
        torch.testing.assert_close(context[row : row + 1], alone, rtol=0, atol=1e-14)
        torch.testing.assert_close(weights[row : row + 1], alone_weights, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", ["global", "local-m", "local-p"])
def test_trace_tells_the_arithmetic_that_was_done(name: str):
    torch.manual_seed(2)
    attend = Attend(Dot(D, D), make_window(name, 1, D)).double()
    memory = make_memory([5, 3], 5)
    query = random(4, D, seed=8)
    context, weights, (trace,) = attend.at_step(query, memory, 1, trace=True)
    assert memory.keys is not None
    assert memory.values is not None
    assert torch.equal(trace.query, query)
    assert torch.equal(trace.weights, weights)
    torch.testing.assert_close(trace.weighted_values.sum(1), context)
    torch.testing.assert_close(trace.context, context)
    for row in range(4):
        b = row // 2
        allowed = memory.mask[b] if trace.window is None else memory.mask[b] & trace.window[row]
        assert torch.equal(torch.isfinite(trace.scores[row]), allowed)
        torch.testing.assert_close(trace.scores[row][allowed], (memory.keys[b] @ query[row])[allowed])
        torch.testing.assert_close(
            trace.weighted_values[row], trace.weights[row].unsqueeze(1) * memory.values[b], rtol=0, atol=0
        )
    assert (trace.centre is None) == (name == "global")
