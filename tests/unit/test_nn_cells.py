"""Recurrent cells against torch's own and against loops; layer normalisation by hand; runs over padded sentences."""

import numpy as np
import pytest
import torch
from torch import nn

from regard.models.seq2seq import ChoCell
from regard.nn.cells import CELLS, Cell, Gru, Lstm, PaperGru, Rnn, maxout, reorder, reversal
from regard.nn.stack import Stack

N, X, D = 3, 4, 5  # rows, input size, hidden size
THEIRS = {Rnn: nn.RNNCell, Gru: nn.GRUCell, Lstm: nn.LSTMCell}


def random(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def build(kind: type[Cell], layer_norm: bool = False) -> Cell:
    torch.manual_seed(2)
    cell = kind(X, D, layer_norm).double()
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return cell


def states(cell: Cell, rows: int = N) -> tuple[torch.Tensor, ...]:
    return tuple(random(rows, D, seed=7 + number) for number in range(cell.state_tensors))


@pytest.mark.parametrize("kind", [Rnn, Gru, Lstm])
def test_cell_is_torchs(kind: type[Cell]):
    cell = build(kind)
    theirs = THEIRS[kind](X, D).double()
    with torch.no_grad():
        theirs.weight_ih.copy_(cell.weight_input)
        theirs.weight_hh.copy_(cell.weight_hidden)
        theirs.bias_ih.copy_(cell.bias)
        theirs.bias_hh.copy_(cell.bias_hidden if isinstance(cell, Gru) else torch.zeros_like(cell.bias))
    inputs, state = random(N, X), states(cell)
    got = cell(cell.project(inputs), state)
    expected = theirs(inputs, state if kind is Lstm else state[0])
    expected = expected if kind is Lstm else (expected,)
    for ours, their in zip(got, expected, strict=True):
        torch.testing.assert_close(ours, their, rtol=0, atol=1e-13)


def layer_norm(x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Ba et al. 2016, eq. 4, over the summed inputs of one sentence."""
    mean = sum(x) / len(x)
    variance = sum((value - mean) ** 2 for value in x) / len(x)
    return scale * (x - mean) / np.sqrt(variance + 1e-5) + shift


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def by_hand(kind: type[Cell], p: dict[str, np.ndarray], x: np.ndarray, state: list[np.ndarray]) -> list[np.ndarray]:
    """One layer-normalised step of one row."""

    def norm(name: str, product: np.ndarray) -> np.ndarray:
        if f"{name}.gates.weight" not in p:
            return layer_norm(product, p[f"{name}.weight"], p[f"{name}.bias"])
        # Ba et al. 2016, appendix: z and r share one normalisation over 2D, the candidate has its own over D.
        parts = {"gates": product[: 2 * D], "candidate": product[2 * D :]}
        return np.concatenate([norm(f"{name}.{part}", numbers) for part, numbers in parts.items()])

    h = state[0]
    from_input = norm("norm_input", p["weight_input"] @ x) + p["bias"]
    from_hidden = norm("norm_hidden", p["weight_hidden"] @ h)
    if kind is Rnn:
        return [np.tanh(from_input + from_hidden)]
    if kind is Gru:
        xr, xz, xn = np.split(from_input, 3)
        hr, hz, hn = np.split(from_hidden + p["bias_hidden"], 3)
        z = sigmoid(xz + hz)
        return [(1 - z) * np.tanh(xn + sigmoid(xr + hr) * hn) + z * h]
    if kind is ChoCell:
        xz, xr, xn = np.split(from_input, 3)
        hz, hr, hn = np.split(from_hidden + state[1], 3)
        z = sigmoid(xz + hz)
        return [(1 - z) * np.tanh(xn + sigmoid(xr + hr) * hn) + z * h, state[1]]
    if kind is PaperGru:
        xr, xz, xn = np.split(from_input, 3)
        hr, hz = np.split(from_hidden, 2)
        r, z = sigmoid(xr + hr), sigmoid(xz + hz)
        return [(1 - z) * h + z * np.tanh(xn + norm("norm_candidate", p["weight_candidate"] @ (r * h)))]
    i, f, g, o = np.split(from_input + from_hidden, 4)
    c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
    return [sigmoid(o) * np.tanh(norm("norm_cell", c)), c]


@pytest.mark.parametrize("kind", [Rnn, Gru, PaperGru, ChoCell, Lstm])
def test_layer_normalised_cell_by_hand(kind: type[Cell]):
    cell = build(kind, layer_norm=True)
    parameters = {name: value.detach().numpy() for name, value in cell.named_parameters()}
    inputs, state = random(N, X), states(cell)
    if kind is ChoCell:
        state = (*state, random(N, 3 * D, seed=9))  # C c
    got = cell(cell.project(inputs), state)
    for row in range(N):
        expected = by_hand(kind, parameters, inputs[row].numpy(), [part[row].numpy() for part in state])
        for ours, hand in zip(got, expected, strict=True):
            np.testing.assert_allclose(ours[row].detach().numpy(), hand, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [Gru, PaperGru, ChoCell])
def test_a_layer_normalised_grus_gates_do_not_see_the_size_of_its_candidate(kind: type[Cell]):
    cell = build(kind, layer_norm=True)
    product = random(N, 3 * D)
    louder = torch.cat([product[:, : 2 * D], 100 * product[:, 2 * D :]], 1)
    assert cell.norm_input is not None
    torch.testing.assert_close(cell.norm_input(product)[:, : 2 * D], cell.norm_input(louder)[:, : 2 * D])


def test_the_papers_gru_resets_before_its_matrix_and_torchs_after():
    """Where every unit is reset alike the two are one; else they differ."""
    paper, torchs = build(PaperGru), build(Gru)
    assert isinstance(paper, PaperGru)
    assert isinstance(torchs, Gru)
    with torch.no_grad():
        torchs.weight_input.copy_(paper.weight_input)
        torchs.weight_hidden.copy_(torch.cat([paper.weight_hidden, paper.weight_candidate]))
        torchs.bias.copy_(paper.bias)
        torchs.bias_hidden.zero_()
        for cell in (paper, torchs):  # z has the opposite sense in the two papers: 1 − σ(x) = σ(−x)
            if cell is torchs:
                cell.weight_input[D : 2 * D] *= -1
                cell.weight_hidden[D : 2 * D] *= -1
                cell.bias[D : 2 * D] *= -1
        inputs, state = random(N, X), states(paper)
        differ = (paper(paper.project(inputs), state)[0] - torchs(torchs.project(inputs), state)[0]).abs().max()
        assert differ > 1e-3
        for cell in (paper, torchs):
            cell.bias[:D] = 1e3  # every reset gate fully open
        ours, theirs = paper(paper.project(inputs), state)[0], torchs(torchs.project(inputs), state)[0]
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-13)


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("kind", [*CELLS.values(), PaperGru])
@pytest.mark.parametrize("backwards", [False, True])
def test_run_is_single_steps_over_each_sentence(kind: type[Cell], layer_norm: bool, backwards: bool):
    """Kernel or loop, packed or not: each sentence alone, word by word, and 0 on padding."""
    cell, lengths, width = build(kind, layer_norm), [3, 5, 1], 6
    inputs, start = random(3, width, X), states(cell)
    outputs, final = cell.run(inputs, start, torch.tensor(lengths), backwards=backwards)
    for row, length in enumerate(lengths):
        state = tuple(part[row : row + 1] for part in start)
        order = range(length - 1, -1, -1) if backwards else range(length)
        for position in order:
            state = cell(cell.project(inputs[row : row + 1, position]), state)
            torch.testing.assert_close(outputs[row, position], state[0][0], rtol=0, atol=1e-12)
        for ours, hand in zip(final, state, strict=True):
            torch.testing.assert_close(ours[row], hand[0], rtol=0, atol=1e-12)
        assert not outputs[row, length:].any()


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("kind", [*CELLS.values(), PaperGru])
def test_run_without_lengths_starts_from_zeros(kind: type[Cell], layer_norm: bool):
    cell, inputs = build(kind, layer_norm), random(2, 4, X)
    outputs, final = cell.run(inputs)
    zeros = tuple(torch.zeros(2, D, dtype=torch.float64) for _ in range(cell.state_tensors))
    again, after = cell.run(inputs, zeros, torch.tensor([4, 4]))
    torch.testing.assert_close(outputs, again, rtol=0, atol=1e-13)
    torch.testing.assert_close(final, after, rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind", [*CELLS.values(), PaperGru, ChoCell])
def test_input_product_can_be_made_of_parts(kind: type[Cell]):
    cell, inputs = build(kind), random(N, X)
    parts = cell.project(inputs[:, :1], 0, 1) + cell.project(inputs[:, 1:3], 1, 3) + cell.project(inputs[:, 3:], 3)
    torch.testing.assert_close(parts, cell.project(inputs), rtol=0, atol=1e-13)


def test_lstm_starts_with_an_open_forget_gate():
    bias = Lstm(X, D).bias
    assert (bias[D : 2 * D] == 1).all()
    assert not bias[:D].any()
    assert not bias[2 * D :].any()


@pytest.mark.parametrize("cell", list(CELLS))
def test_bidirectional_stack_joins_both_directions(cell: str):
    torch.manual_seed(2)
    stack = Stack(cell, 1, X, 6, dropout=0.0, layer_norm=False, bidirectional=True).double()
    inputs, lengths = random(2, 4, X), torch.tensor([4, 2])
    outputs, final = stack.run(inputs, None, lengths)
    ahead, ahead_final = stack.layers[0].run(inputs, None, lengths)
    back, back_final = stack.backward_layers[0].run(inputs, None, lengths, backwards=True)
    assert torch.equal(outputs, torch.cat([ahead, back], -1))
    for ours, *pair in zip(final, ahead_final, back_final, strict=True):
        assert torch.equal(ours, torch.cat(pair, -1))


def test_reversal_is_its_own_inverse_and_leaves_padding():
    lengths = torch.tensor([4, 1, 3])
    assert reversal(lengths, 5).tolist() == [[3, 2, 1, 0, 4], [0, 1, 2, 3, 4], [2, 1, 0, 3, 4]]
    keep = reversal(lengths, 5, keep_last=True)
    assert keep.tolist() == [[2, 1, 0, 3, 4], [0, 1, 2, 3, 4], [1, 0, 2, 3, 4]]
    inputs = random(3, 5, 2)
    assert torch.equal(reorder(reorder(inputs, keep), keep), inputs)


def test_maxout_takes_the_larger_of_neighbours():
    assert maxout(torch.tensor([[1.0, 5, 4, 2], [-3, -2, 0, 0]])).tolist() == [[5, 4], [-2, 0]]
