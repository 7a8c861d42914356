"""The batch-normalised LSTM against a loop written from the paper; running averages; inference."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.config.models import LuongSettings, Seq2SeqSettings
from regard.nn import batch_norm
from regard.nn.batch_norm import MOMENTUM, BatchNorm, BatchNormLstm

B, S, X, D = 4, 6, 3, 2
LENGTHS = [6, 4, 2, 4]


def random(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def build() -> BatchNormLstm:
    torch.manual_seed(2)
    cell = BatchNormLstm(X, D).double()
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return cell


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def by_hand(cell: BatchNormLstm, inputs: np.ndarray, backwards: bool) -> np.ndarray:
    """Equations 6 to 8, one position after the other, over the sentences that have a word there."""
    p = {name: value.detach().numpy() for name, value in cell.named_parameters()}

    known: dict[str, dict[int, tuple[np.ndarray, np.ndarray]]] = {"of_input": {}, "of_hidden": {}, "of_cell": {}}

    def norm(name: str, t: int, rows: np.ndarray) -> np.ndarray:
        mean = sum(rows) / len(rows)
        variance = sum((row - mean) ** 2 for row in rows) / len(rows)
        if len(rows) > 1:
            known[name][t] = mean, variance
        else:  # the averages of the last position that has some
            mean, variance = known[name][max(known[name])] if known[name] else (0.0, 1.0)
        return p[f"{name}.scale"] * (rows - mean) / np.sqrt(variance + 1e-5) + p.get(f"{name}.shift", 0)

    h, c = np.zeros((B, D)), np.zeros((B, D))
    outputs = np.zeros((B, S, D))
    there = [[row for row in range(B) if t < LENGTHS[row]] for t in range(S)]
    products = [norm("of_input", t, inputs[there[t], t] @ p["weight_input"].T) for t in range(S)]
    for t in reversed(range(S)) if backwards else range(S):
        now = there[t]
        from_hidden = norm("of_hidden", t, np.stack([p["weight_hidden"] @ h[row] for row in now]))
        i, f, g, o = np.split(products[t] + from_hidden + p["bias"], 4, axis=1)
        c[now] = sigmoid(f) * c[now] + sigmoid(i) * np.tanh(g)
        h[now] = sigmoid(o) * np.tanh(norm("of_cell", t, c[now]))
        outputs[now, t] = h[now]
    return outputs


@pytest.mark.parametrize("backwards", [False, True])
def test_training_is_the_papers_equations(backwards: bool) -> None:
    cell, inputs = build(), random(B, S, X)
    expected = by_hand(cell, inputs.numpy(), backwards)
    outputs, final = cell.run(inputs, None, torch.tensor(LENGTHS), backwards=backwards)
    np.testing.assert_allclose(outputs.detach().numpy(), expected, rtol=0, atol=1e-12)
    last = [0] * B if backwards else [length - 1 for length in LENGTHS]
    np.testing.assert_allclose(final[0].detach().numpy(), expected[range(B), last], rtol=0, atol=1e-12)


def test_inference_depends_on_no_other_sentence_and_single_steps_are_the_run() -> None:
    cell, inputs, lengths = build(), random(B, S, X), torch.tensor(LENGTHS)
    trained, _ = cell.run(inputs, None, lengths)
    cell.eval()
    outputs, _ = cell.run(inputs, None, lengths)
    alone, _ = cell.run(inputs[1:2, :4], None, torch.tensor([4]))
    torch.testing.assert_close(outputs[1:2, :4], alone, rtol=0, atol=1e-12)
    state = cell.initial_state(B, inputs)
    for position in range(4):
        state = cell.at_step(cell.project(inputs[:, position]), state, batch_norm.PRODUCTS, position)
        if position == 1:
            torch.testing.assert_close(outputs[:, 1], state[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(outputs[1, 3], state[0][1], rtol=0, atol=1e-12)
    # the first batch counts full, so the averages are its statistics
    torch.testing.assert_close(outputs[:, 0], trained[:, 0], rtol=0, atol=1e-12)


def test_averages_are_by_position_and_later_positions_have_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_norm, "POSITIONS", 3)
    norm = BatchNorm(D, shift=False).double()
    first, second = random(2, B, D), random(2, B, D, seed=2)
    norm(first, 0, None)
    torch.testing.assert_close(norm.mean[:2], first.mean(1), rtol=0, atol=1e-12)
    for _ in range(20):
        norm(first, 0, None)
    norm(second, 0, None)
    expected = (1 - MOMENTUM) * first.var(1, correction=0) + MOMENTUM * second.var(1, correction=0)
    torch.testing.assert_close(norm.variance[:2], expected, rtol=0, atol=1e-12)
    norm.eval()
    beyond = norm(first[:1], 7, None)  # training has reached position 1
    torch.testing.assert_close(beyond, norm(first[:1], 1, None), rtol=0, atol=0)
    assert norm.batches.tolist() == [22, 22, 0]


@pytest.mark.parametrize(
    ("settings", "change", "line"),
    [
        (Seq2SeqSettings, {"cell": "gru"}, 'needs cell = "lstm"'),
        (Seq2SeqSettings, {"layer_norm": True}, "layer_norm = false"),
        (LuongSettings, {}, "input_feeding = false"),
        (LuongSettings, {"input_feeding": False, "query": "previous"}, "whole sentences"),
    ],
)
def test_what_batch_normalisation_needs(settings: type, change: dict[str, object], line: str) -> None:
    with pytest.raises(ValueError, match=line):
        settings(batch_norm=True, **change)


def test_mixed_precision_keeps_statistics_in_float32() -> None:
    cell, inputs, lengths = build().float(), random(B, S, X).float(), torch.tensor(LENGTHS)
    expected, _ = build().float().run(inputs, None, lengths)
    with torch.autocast("cpu", torch.bfloat16):
        outputs, _ = cell.run(inputs, None, lengths)
    outputs.sum().backward()
    torch.testing.assert_close(outputs.float(), expected, rtol=0, atol=0.05)
    assert all(value.dtype == torch.float32 for name, value in cell.named_buffers() if "batches" not in name)
    assert all(parameter.grad is not None for parameter in cell.parameters())
