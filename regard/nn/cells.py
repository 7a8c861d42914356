"""Recurrent cells, one step at a time or over a whole sentence; `stack.py` stacks them.

A cell's state is a tuple of (N, D) tensors; the first is its output. The input product W x does not depend on the state
and is computed once for all steps (`project`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from regard.config.models import CellName
from regard.nn.products import PRODUCTS, Products, step_products
from regard.nn.rnn_kernels import GruSequence, LstmSequence

STACKED_INPUT_SCALE = 3.0  # initial scale of input weights above the first layer

CellState = tuple[Tensor, ...]


class Cell(nn.Module, ABC):
    """A recurrent cell; its weight matrices have `gates` blocks of D rows."""

    gates: int
    state_tensors: int = 1
    kernel: bool = False  # whether `rnn_kernels` has a fast path
    equation: str  # of the state, with the names of `gate_values`

    def __init__(self, input_size: int, hidden_size: int, layer_norm: bool = False) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        width = self.gates * hidden_size
        self.weight_input = nn.Parameter(torch.empty(width, input_size))
        self.weight_hidden = nn.Parameter(torch.empty(width, hidden_size))
        self.bias = nn.Parameter(torch.zeros(width))
        # Ba et al. 2016: W x and U h are normalised separately, before their sum.
        self.norm_input = self.make_norm() if layer_norm else None
        self.norm_hidden = self.make_norm() if layer_norm else None
        for block in self.weight_input.data.chunk(self.gates):
            nn.init.xavier_uniform_(block)
        for block in self.weight_hidden.data.chunk(self.gates):
            nn.init.orthogonal_(block)

    def make_norm(self) -> nn.Module:
        """Layer normalisation of a product (..., gates·D)."""
        return nn.LayerNorm(self.gates * self.hidden_size)

    def project(self, inputs: Tensor, start: int = 0, end: int | None = None, products: Products = PRODUCTS) -> Tensor:
        """W x (..., gates·D) of inputs (..., end − start), the columns `start` to `end` of the whole input."""
        return products(inputs, self.weight_input, start, end)

    def initial_state(self, rows: int, like: Tensor) -> CellState:
        """The zero state."""
        return tuple(like.new_zeros(rows, self.hidden_size) for _ in range(self.state_tensors))

    @property
    def is_fast(self) -> bool:
        """Whether `run` uses the kernel; it does not support layer normalisation."""
        return self.kernel and self.norm_input is None

    @abstractmethod
    def forward(self, projected: Tensor, state: CellState, products: Products = PRODUCTS) -> CellState:
        """The next state, from the input product (N, gates·D) and the current state."""

    def at_step(self, projected: Tensor, state: CellState, products: Products, position: int) -> CellState:
        """The same at a position of the sentence, counted from 0; only batch normalisation depends on it."""
        after: CellState = self(projected, state, products)
        return after

    def gate_values(self, projected: Tensor, state: CellState, products: Products = PRODUCTS) -> dict[str, Tensor]:
        """The gates (N, D) by name, from the input of `forward`; none for a plain RNN."""
        return {}

    def run(
        self,
        inputs: Tensor,
        state: CellState | None = None,
        lengths: Tensor | None = None,
        backwards: bool = False,
    ) -> tuple[Tensor, CellState]:
        """Outputs (B, S, D), 0 at padding, and the final state of every sentence, for inputs (B, S, input).

        With `backwards`, the sentence is read from last to first word; outputs keep the order of the sentence.
        """
        if state is None:
            state = self.initial_state(inputs.size(0), inputs)
        real = None
        if lengths is not None:
            positions = torch.arange(inputs.size(1), device=inputs.device)
            real = (positions.unsqueeze(1) < lengths).unsqueeze(2)  # (S, B, 1)
        projected = self.project(inputs.transpose(0, 1))  # (S, B, gates·D)
        outputs, state = self._sequence(projected, state, real, backwards)
        return (outputs if real is None else outputs * real).transpose(0, 1), state

    def _sequence(
        self, projected: Tensor, state: CellState, real: Tensor | None, backwards: bool
    ) -> tuple[Tensor, CellState]:
        """Outputs (S, B, D) and the final state, step by step; padding (`real` False) keeps the state."""
        outputs: list[Tensor] = []
        products = step_products()
        order = range(projected.size(0))
        for position in reversed(order) if backwards else order:
            after = self(projected[position], state, products)
            if real is None:
                state = after
            else:
                state = tuple(torch.where(real[position], new, old) for new, old in zip(after, state, strict=True))
            outputs.append(state[0])
        return torch.stack(outputs[::-1] if backwards else outputs), state

    def _input_product(self, projected: Tensor) -> Tensor:
        return projected if self.norm_input is None else self.norm_input(projected)

    def _hidden_product(self, hidden: Tensor, products: Products) -> Tensor:
        product = products(hidden, self.weight_hidden)
        return product if self.norm_hidden is None else self.norm_hidden(product)


class GruNorm(nn.Module):
    """Layer normalisation of a GRU's product (..., 3D): one over both gates (2D), one over the candidate (D).

    Ba et al. 2016, appendix: z, r = σ(LN(W x) + LN(U h)) with one LN over both gates, and
    h̃ = tanh(LN(W x) + r ∘ LN(U h)) with another.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.gates = nn.LayerNorm(2 * size)
        self.candidate = nn.LayerNorm(size)

    def forward(self, product: Tensor) -> Tensor:
        size = product.size(-1) // 3
        gates, candidate = product.tensor_split([2 * size], -1)
        return torch.cat([self.gates(gates), self.candidate(candidate)], -1)


class Rnn(Cell):
    """h = tanh(W x + U h + b) (Elman 1990).

    With layer normalisation: tanh(LN(W x) + LN(U h) + b), like the other cells; Ba et al. normalise the sum (eq. 4).
    """

    gates = 1
    equation = "h = tanh(W x + U h₋₁ + b)"

    def forward(self, projected: Tensor, state: CellState, products: Products = PRODUCTS) -> CellState:
        return (torch.tanh(self._input_product(projected) + self._hidden_product(state[0], products) + self.bias),)


class Gru(Cell):
    """r, z = σ(…); n = tanh(W x + b + r ∘ (U h + b′)); h = (1 − z) ∘ n + z ∘ h.

    As in cuDNN and torch, the reset gate is applied after the matrix; see `PaperGru` for the other form.
    """

    gates = 3
    kernel = True
    equation = "h = (1 − z) ∘ n + z ∘ h₋₁"

    def __init__(self, input_size: int, hidden_size: int, layer_norm: bool = False) -> None:
        super().__init__(input_size, hidden_size, layer_norm)
        self.bias_hidden = nn.Parameter(torch.zeros(self.gates * hidden_size))

    def make_norm(self) -> nn.Module:
        return GruNorm(self.hidden_size)

    def forward(self, projected: Tensor, state: CellState, products: Products = PRODUCTS) -> CellState:
        _, update, candidate = self._gates(projected, state, products)
        return (interpolate(candidate, state[0], update),)

    def gate_values(self, projected: Tensor, state: CellState, products: Products = PRODUCTS) -> dict[str, Tensor]:
        reset, update, candidate = self._gates(projected, state, products)
        return {"reset r": reset, "update z": update, "candidate n": candidate}

    def _gates(self, projected: Tensor, state: CellState, products: Products) -> tuple[Tensor, Tensor, Tensor]:
        from_input = (self._input_product(projected) + self.bias).chunk(3, -1)
        from_hidden = (self._hidden_product(state[0], products) + self.bias_hidden).chunk(3, -1)
        reset = torch.sigmoid(from_input[0] + from_hidden[0])
        update = torch.sigmoid(from_input[1] + from_hidden[1])
        return reset, update, torch.tanh(from_input[2] + reset * from_hidden[2])

    def _sequence(
        self, projected: Tensor, state: CellState, real: Tensor | None, backwards: bool
    ) -> tuple[Tensor, CellState]:
        if not self.is_fast:
            return super()._sequence(projected, state, real, backwards)
        padding = None if real is None else ~real
        outputs = GruSequence.apply(  # type: ignore[no-untyped-call]
            projected + self.bias, self.weight_hidden, self.bias_hidden, state[0], padding, backwards
        )
        return outputs, (outputs[0 if backwards else -1],)


class PaperGru(Cell):
    """r, z = σ(W x + U h); s̃ = tanh(W x + U′ (r ∘ h)); h = (1 − z) ∘ h + z ∘ s̃ (Bahdanau 2015, A.1.1).

    The reset gate is applied before the matrix, as in the equations of Cho and Bahdanau. With layer normalisation,
    U′ (r ∘ h) has its own.
    """

    gates = 3
    equation = "h = (1 − z) ∘ h₋₁ + z ∘ s̃"

    def __init__(self, input_size: int, hidden_size: int, layer_norm: bool = False) -> None:
        super().__init__(input_size, hidden_size, layer_norm)
        # The candidate needs the reset gate first, so its matrix is separate from that of the gates.
        gates, candidate = self.weight_hidden.data.tensor_split([2 * hidden_size])
        self.weight_hidden = nn.Parameter(gates.clone())
        self.weight_candidate = nn.Parameter(candidate.clone())
        self.norm_hidden = nn.LayerNorm(2 * hidden_size) if layer_norm else None
        self.norm_candidate = nn.LayerNorm(hidden_size) if layer_norm else None

    def make_norm(self) -> nn.Module:
        return GruNorm(self.hidden_size)

    def forward(self, projected: Tensor, state: CellState, products: Products = PRODUCTS) -> CellState:
        _, update, candidate = self._gates(projected, state, products)
        return (interpolate(state[0], candidate, update),)

    def gate_values(self, projected: Tensor, state: CellState, products: Products = PRODUCTS) -> dict[str, Tensor]:
        reset, update, candidate = self._gates(projected, state, products)
        return {"reset r": reset, "update z": update, "candidate s̃": candidate}

    def _gates(self, projected: Tensor, state: CellState, products: Products) -> tuple[Tensor, Tensor, Tensor]:
        (hidden,) = state
        size = self.hidden_size
        from_input = self._input_product(projected) + self.bias
        gates = torch.sigmoid(from_input[:, : 2 * size] + self._hidden_product(hidden, products))
        reset, update = gates.chunk(2, -1)
        product = products(reset * hidden, self.weight_candidate)
        if self.norm_candidate is not None:
            product = self.norm_candidate(product)
        return reset, update, torch.tanh(from_input[:, 2 * size :] + product)


class Lstm(Cell):
    """i, f, g, o from W x + U h + b; c = σ(f) ∘ c + σ(i) ∘ tanh(g); h = σ(o) ∘ tanh(c); forget bias 1."""

    gates = 4
    state_tensors = 2
    kernel = True
    equation = "c = f ∘ c₋₁ + i ∘ g,  h = o ∘ tanh(c)"

    def __init__(self, input_size: int, hidden_size: int, layer_norm: bool = False) -> None:
        super().__init__(input_size, hidden_size, layer_norm)
        self.norm_cell = nn.LayerNorm(hidden_size) if layer_norm else None
        self.bias.data[hidden_size : 2 * hidden_size] = 1.0

    def forward(self, projected: Tensor, state: CellState, products: Products = PRODUCTS) -> CellState:
        input_gate, forget_gate, output_gate, candidate = self._gates(projected, state, products)
        cell = forget_gate * state[1] + input_gate * candidate
        shown = cell if self.norm_cell is None else self.norm_cell(cell)
        return output_gate * torch.tanh(shown), cell

    def gate_values(self, projected: Tensor, state: CellState, products: Products = PRODUCTS) -> dict[str, Tensor]:
        input_gate, forget_gate, output_gate, candidate = self._gates(projected, state, products)
        return {"input i": input_gate, "forget f": forget_gate, "output o": output_gate, "candidate g": candidate}

    def _gates(self, projected: Tensor, state: CellState, products: Products) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        gates = self._input_product(projected) + self._hidden_product(state[0], products) + self.bias
        input_gate, forget_gate, candidate, output_gate = gates.chunk(4, -1)
        return input_gate.sigmoid(), forget_gate.sigmoid(), output_gate.sigmoid(), candidate.tanh()

    def _sequence(
        self, projected: Tensor, state: CellState, real: Tensor | None, backwards: bool
    ) -> tuple[Tensor, CellState]:
        if not self.is_fast:
            return super()._sequence(projected, state, real, backwards)
        padding = None if real is None else ~real
        outputs, cells = LstmSequence.apply(  # type: ignore[no-untyped-call]
            projected + self.bias, self.weight_hidden, *state, padding, backwards
        )
        last = 0 if backwards else -1
        return outputs, (outputs[last], cells[last])


CELLS: dict[CellName, type[Cell]] = {"rnn": Rnn, "gru": Gru, "lstm": Lstm}


@torch.no_grad()
def scale_input_init(cell: Cell) -> Cell:
    """Scale up the initial input weights of an upper layer, and return the cell.

    With the usual initialisation a recurrent layer attenuates its input, and upper layers start with a weak signal;
    see also `config.models.STACKED_SOURCE_SCALE`.
    """
    cell.weight_input.mul_(STACKED_INPUT_SCALE)
    return cell


def reversal(lengths: Tensor, source_length: int, keep_last: bool = False) -> Tensor:
    """(B, S): the source index of each position of a reversed sentence; padding stays, and with `keep_last` EOS too."""
    position = torch.arange(source_length, device=lengths.device)
    ends = (lengths - int(keep_last)).unsqueeze(1)
    return torch.where(position < ends, ends - 1 - position, position)


def reorder(inputs: Tensor, index: Tensor) -> Tensor:
    """Gather the positions of inputs (B, S, D) by index (B, S)."""
    return inputs.gather(1, index.unsqueeze(-1).expand_as(inputs))


def uniform_linear(linear: nn.Linear) -> nn.Linear:
    """Initialise a layer with Glorot uniform weights and zero bias, and return it."""
    nn.init.xavier_uniform_(linear.weight)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)
    return linear


def maxout(inputs: Tensor) -> Tensor:
    """Maximum of each pair of neighbours: (..., 2·L) -> (..., L) (Goodfellow 2013)."""
    return torch.unflatten(inputs, -1, (-1, 2)).amax(-1)


def interpolate(start: Tensor, end: Tensor, weight: Tensor) -> Tensor:
    """Linear interpolation start + weight · (end − start), also for the mixed dtypes of mixed precision."""
    kind = torch.promote_types(start.dtype, end.dtype)
    return torch.lerp(start.to(kind), end.to(kind), weight.to(kind))
