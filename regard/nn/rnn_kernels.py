"""GRU and LSTM layers over whole sentences with a handwritten backward pass: the fast path of `Cell.run`.

The equations are those of `cells.py`. Autograd would record every operation of every step, and compute one small
product per step for the gradient of the weights. Here each weight's gradient is one product over all steps. Padding
needs no packed sequences: after the end of a sentence its state is kept.

Shapes are time first: S positions, B sentences.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

sigmoid_backward = torch.ops.aten.sigmoid_backward
tanh_backward = torch.ops.aten.tanh_backward


class GruSequence(torch.autograd.Function):
    """States (S, B, D) after each step of a GRU layer, from its input product with bias (S, B, 3D)."""

    @staticmethod
    def forward(
        context: Any,
        projected: Tensor,
        weight: Tensor,
        bias: Tensor,
        start: Tensor,
        padding: Tensor | None,
        backwards: bool,
    ) -> Tensor:
        length, rows, size = projected.size(0), start.size(0), start.size(1)
        gates = projected.new_empty(length, rows, 2 * size)  # reset, update
        candidates = projected.new_empty(length, rows, size)
        products = projected.new_empty(length, rows, 3 * size)  # U h + b′
        states = projected.new_empty(length, rows, size)
        ended = _ended(padding, length)
        order = _order(length, backwards)
        transposed = weight.t()
        hidden = start
        for now in order:
            product = torch.addmm(bias, hidden, transposed, out=products[now])
            gate = torch.add(projected[now, :, : 2 * size], product[:, : 2 * size], out=gates[now]).sigmoid_()
            reset, update = gate[:, :size], gate[:, size:]
            candidate = torch.addcmul(
                projected[now, :, 2 * size :], reset, product[:, 2 * size :], out=candidates[now]
            ).tanh_()
            after = torch.lerp(candidate, hidden, update, out=states[now])
            if ended[now]:
                assert padding is not None
                torch.where(padding[now], hidden, after, out=after)
            hidden = after
        context.save_for_backward(weight, start, padding, gates, candidates, products, states)
        context.ended, context.order = ended, order
        return states

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        weight, start, padding, gates, candidates, products, states = context.saved_tensors
        size = start.size(1)
        to_input = torch.empty_like(products)
        to_hidden = torch.empty_like(products)
        before = _before(states, start, context.order)
        hidden_gradient = torch.zeros_like(start)
        for now in reversed(context.order):
            hidden_gradient = hidden_gradient + gradient[now]
            kept = None
            if context.ended[now]:
                kept = hidden_gradient * padding[now]
                hidden_gradient = hidden_gradient - kept
            reset, update = gates[now, :, :size], gates[now, :, size:]
            candidate, previous = candidates[now], before[now]
            through_update = hidden_gradient * update
            candidate_gradient = tanh_backward(hidden_gradient - through_update, candidate)
            both = torch.cat(
                [candidate_gradient * products[now, :, 2 * size :], hidden_gradient * (previous - candidate)], 1
            )
            gate_gradient = sigmoid_backward(both, gates[now])
            to_input[now, :, : 2 * size] = gate_gradient
            to_input[now, :, 2 * size :] = candidate_gradient
            to_hidden[now, :, : 2 * size] = gate_gradient
            torch.mul(candidate_gradient, reset, out=to_hidden[now, :, 2 * size :])
            hidden_gradient = torch.addmm(through_update, to_hidden[now], weight)
            if kept is not None:
                hidden_gradient += kept
        flat = to_hidden.flatten(0, 1)
        return to_input, flat.t() @ before.flatten(0, 1), flat.sum(0), hidden_gradient, None, None


class LstmSequence(torch.autograd.Function):
    """Outputs and cells (S, B, D) after each step of an LSTM layer, from its input product with bias (S, B, 4D)."""

    @staticmethod
    def forward(
        context: Any,
        projected: Tensor,
        weight: Tensor,
        start: Tensor,
        start_cell: Tensor,
        padding: Tensor | None,
        backwards: bool,
    ) -> tuple[Tensor, Tensor]:
        length, rows, size = projected.size(0), start.size(0), start.size(1)
        gates = torch.empty_like(projected)  # input, forget, candidate, output
        states = projected.new_empty(length, rows, size)
        cells = projected.new_empty(length, rows, size)
        shown = projected.new_empty(length, rows, size)  # tanh(c)
        ended = _ended(padding, length)
        order = _order(length, backwards)
        transposed = weight.t()
        hidden, cell = start, start_cell
        for now in order:
            gate = torch.addmm(projected[now], hidden, transposed, out=gates[now])
            gate[:, : 2 * size].sigmoid_()
            gate[:, 2 * size : 3 * size].tanh_()
            gate[:, 3 * size :].sigmoid_()
            after_cell = torch.mul(gate[:, size : 2 * size], cell, out=cells[now])
            after_cell.addcmul_(gate[:, :size], gate[:, 2 * size : 3 * size])
            after = torch.mul(gate[:, 3 * size :], torch.tanh(after_cell, out=shown[now]), out=states[now])
            if ended[now]:
                assert padding is not None
                torch.where(padding[now], cell, after_cell, out=after_cell)
                torch.where(padding[now], hidden, after, out=after)
            hidden, cell = after, after_cell
        context.save_for_backward(weight, start, start_cell, padding, gates, states, cells, shown)
        context.ended, context.order = ended, order
        return states, cells

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor, last_cells: Tensor) -> tuple[Tensor | None, ...]:
        weight, start, start_cell, padding, gates, states, cells, shown = context.saved_tensors
        size = start.size(1)
        to_gates = torch.empty_like(gates)
        before, before_cell = _before(states, start, context.order), _before(cells, start_cell, context.order)
        hidden_gradient, cell_gradient = torch.zeros_like(start), torch.zeros_like(start)
        for now in reversed(context.order):
            hidden_gradient = hidden_gradient + gradient[now]
            cell_gradient = cell_gradient + last_cells[now]
            kept = None
            if context.ended[now]:
                kept = hidden_gradient * padding[now], cell_gradient * padding[now]
                hidden_gradient, cell_gradient = hidden_gradient - kept[0], cell_gradient - kept[1]
            gate, to_gate = gates[now], to_gates[now]
            input_gate, forget_gate = gate[:, :size], gate[:, size : 2 * size]
            candidate, output_gate = gate[:, 2 * size : 3 * size], gate[:, 3 * size :]
            cell_gradient = cell_gradient + tanh_backward(hidden_gradient * output_gate, shown[now])
            torch.mul(cell_gradient, candidate, out=to_gate[:, :size])
            torch.mul(cell_gradient, before_cell[now], out=to_gate[:, size : 2 * size])
            torch.mul(hidden_gradient, shown[now], out=to_gate[:, 3 * size :])
            to_gate[:, : 2 * size] = sigmoid_backward(to_gate[:, : 2 * size], gate[:, : 2 * size])
            to_gate[:, 2 * size : 3 * size] = tanh_backward(cell_gradient * input_gate, candidate)
            to_gate[:, 3 * size :] = sigmoid_backward(to_gate[:, 3 * size :], output_gate)
            cell_gradient = cell_gradient * forget_gate
            hidden_gradient = to_gate @ weight
            if kept is not None:
                hidden_gradient += kept[0]
                cell_gradient += kept[1]
        flat = to_gates.flatten(0, 1)
        return to_gates, flat.t() @ before.flatten(0, 1), hidden_gradient, cell_gradient, None, None


def _order(length: int, backwards: bool) -> list[int]:
    """Positions in reading order."""
    return list(range(length - 1, -1, -1) if backwards else range(length))


def _ended(padding: Tensor | None, length: int) -> list[bool]:
    """Whether each position is padding in some sentence; `padding` is (S, B, 1)."""
    if padding is None:
        return [False] * length
    ended: list[bool] = padding.flatten(1).any(1).tolist()
    return ended


def _before(states: Tensor, start: Tensor, order: list[int]) -> Tensor:
    """The state before each step (S, B, D)."""
    shifted = torch.empty_like(states)
    shifted[order[0]] = start
    if order[0] == 0:
        shifted[1:] = states[:-1]
    else:
        shifted[:-1] = states[1:]
    return shifted
