"""Cooijmans et al. 2017: *Recurrent batch normalization*; here to be compared with layer normalisation.

    i, f, g, o = BN(W x; γ_x) + BN(U h; γ_h) + b                                  (eq. 6)
    c = σ(f) ∘ c + σ(i) ∘ tanh(g)                                                  (eq. 7)
    h = σ(o) ∘ tanh(BN(c; γ_c, β_c))                                               (eq. 8)
    BN(x; γ, β) = β + γ ∘ (x − mean) / √(variance + ε)                             (eq. 1)

Mean and variance are those of each unit over the batch, separately at each position of the sentence; γ and β are the
same at all positions. Training uses the statistics of the batch and keeps their running averages; inference uses the
averages. A position that training never reached has those of the last one reached.

Choices where the paper is silent: a sentence that has ended does not count. A position with a single sentence has no
variance: there, training uses the running averages too. A layer that reads backwards counts positions from the
beginning of the sentence as well. With several processes each has the statistics of its own part of the batch, and the
averages of the first are kept.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.nn.cells import Cell, CellState
from regard.nn.products import PRODUCTS, Products, step_products

EPSILON = 1e-5
FIRST_SCALE = 0.1  # γ at first: with 1 the gradient vanishes in tanh (section 4)
MOMENTUM = 0.1  # weight of a new batch in the running averages
POSITIONS = 60  # with averages of their own; later ones share the last


class BatchNorm(nn.Module):
    """BN(x; γ, β) with statistics for each position."""

    def __init__(self, size: int, *, shift: bool) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((size,), FIRST_SCALE))
        self.shift = nn.Parameter(torch.zeros(size)) if shift else None
        self.mean: Tensor
        self.variance: Tensor
        self.batches: Tensor
        self.register_buffer("mean", torch.zeros(POSITIONS, size))
        self.register_buffer("variance", torch.ones(POSITIONS, size))
        self.register_buffer("batches", torch.zeros(POSITIONS, dtype=torch.long))  # averaged at each position

    def forward(self, x: Tensor, first: int, real: Tensor | None) -> Tensor:
        """Normalise x (S, B, size), whose positions begin with `first`; `real` (S, B, 1) is False at padding."""
        x = x.to(torch.promote_types(x.dtype, self.mean.dtype))  # statistics of bfloat16 products in float32
        positions = torch.arange(first, first + x.size(0), device=x.device)
        if self.training:
            mean, variance = self._statistics(x, positions, real)
        else:
            mean, variance = self._averages(positions)
        normal = (x - mean.unsqueeze(1)) * torch.rsqrt(variance + EPSILON).unsqueeze(1) * self.scale
        return normal if self.shift is None else normal + self.shift

    def _statistics(self, x: Tensor, positions: Tensor, real: Tensor | None) -> tuple[Tensor, Tensor]:
        """Mean and variance (S, size) over the batch, and the running averages where it has a single sentence."""
        weight = torch.ones_like(x[..., :1]) if real is None else real.to(x.dtype)  # (S, B, 1)
        count = weight.sum(1)  # (S, 1)
        weight = weight / count.clamp(min=1).unsqueeze(1)
        mean = (weight * x).sum(1)
        variance = (weight * (x - mean.unsqueeze(1)).square()).sum(1)
        several = (count > 1)[:, 0]
        self._observe(positions[several], mean[several], variance[several])
        average, spread = self._averages(positions)
        known = several.unsqueeze(1)
        return torch.where(known, mean, average), torch.where(known, variance, spread)

    def _averages(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """The running averages (S, size), of the last known position after it."""
        known = (self.batches > 0).sum().clamp(min=1)
        place = torch.minimum(positions, known - 1)
        return self.mean[place], self.variance[place]

    @torch.no_grad()
    def _observe(self, positions: Tensor, mean: Tensor, variance: Tensor) -> None:
        own = positions < POSITIONS
        place = positions[own]
        self.batches[place] += 1
        # The first batch counts full: the averages begin with its statistics.
        share = self.batches[place].to(mean.dtype).reciprocal().clamp(min=MOMENTUM).unsqueeze(1)
        self.mean[place] = torch.lerp(self.mean[place], mean[own], share)
        self.variance[place] = torch.lerp(self.variance[place], variance[own], share)


class BatchNormLstm(Cell):
    """The batch-normalised LSTM; forget bias 1."""

    gates = 4
    state_tensors = 2

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.of_input = BatchNorm(4 * hidden_size, shift=False)
        self.of_hidden = BatchNorm(4 * hidden_size, shift=False)
        self.of_cell = BatchNorm(hidden_size, shift=True)
        self.bias.data[hidden_size : 2 * hidden_size] = 1.0

    def forward(self, projected: Tensor, state: CellState, products: Products = PRODUCTS) -> CellState:
        return self.at_step(projected, state, products, 0)

    def at_step(self, projected: Tensor, state: CellState, products: Products, position: int) -> CellState:
        return self._next(self.of_input(projected.unsqueeze(0), position, None)[0], state, products, position, None)

    def _sequence(
        self, projected: Tensor, state: CellState, real: Tensor | None, backwards: bool
    ) -> tuple[Tensor, CellState]:
        from_input = self.of_input(projected, 0, real)  # (S, B, 4D)
        outputs: list[Tensor] = []
        products = step_products()
        order = range(projected.size(0))
        for position in reversed(order) if backwards else order:
            now = None if real is None else real[position]
            after = self._next(from_input[position], state, products, position, now)
            if now is not None:
                after = tuple(torch.where(now, new, old) for new, old in zip(after, state, strict=True))
            state = after
            outputs.append(state[0])
        return torch.stack(outputs[::-1] if backwards else outputs), state

    def _next(
        self, from_input: Tensor, state: CellState, products: Products, position: int, real: Tensor | None
    ) -> CellState:
        """Equations 6 to 8, from the normalised input product (N, 4D); `real` (N, 1) is False at padding."""
        hidden, cell = state
        mask = None if real is None else real.unsqueeze(0)
        from_hidden = self.of_hidden(products(hidden, self.weight_hidden).unsqueeze(0), position, mask)[0]
        input_gate, forget_gate, candidate, output_gate = (from_input + from_hidden + self.bias).chunk(4, -1)
        cell = torch.sigmoid(forget_gate) * cell + torch.sigmoid(input_gate) * torch.tanh(candidate)
        shown = self.of_cell(cell.unsqueeze(0), position, mask)[0]
        return torch.sigmoid(output_gate) * torch.tanh(shown), cell
