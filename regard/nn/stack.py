"""Stacks of recurrent layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.config.models import CellName
from regard.nn.batch_norm import BatchNormLstm
from regard.nn.cells import CELLS, Cell, CellState, scale_input_init
from regard.nn.dropout import dropout
from regard.nn.products import PRODUCTS, Products


class Stack(nn.Module):
    """Stacked recurrent layers with dropout between them; the bottom layer may have a wider input."""

    def __init__(
        self,
        cell: CellName,
        layers: int,
        input_size: int,
        hidden_size: int,
        *,
        dropout: float,
        layer_norm: bool,
        batch_norm: bool = False,
        bidirectional: bool = False,
    ) -> None:
        super().__init__()
        self.dropout = dropout
        size = hidden_size // 2 if bidirectional else hidden_size

        def make(inputs: int) -> Cell:
            return BatchNormLstm(inputs, size) if batch_norm else CELLS[cell](inputs, size, layer_norm)

        def cells() -> nn.ModuleList:
            upper = (scale_input_init(make(hidden_size)) for _ in range(layers - 1))
            return nn.ModuleList([make(input_size), *upper])

        self.layers = cells()
        self.backward_layers = cells() if bidirectional else nn.ModuleList()

    @property
    def is_fast(self) -> bool:
        """Whether `run` uses the kernels."""
        return self.cell(0).is_fast

    @property
    def tensors_per_layer(self) -> int:
        """Number of tensors in a layer's state."""
        return self.cell(0).state_tensors

    def cell(self, layer: int) -> Cell:
        """The cell of a layer, counted from 0 at the bottom."""
        cell = self.layers[layer]
        assert isinstance(cell, Cell)
        return cell

    def run(
        self, inputs: Tensor, state: CellState | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, CellState]:
        """Outputs of the top layer (B, S, D) and the flat final state of all layers."""
        final: list[Tensor] = []
        per_layer = self.tensors_per_layer
        for number in range(len(self.layers)):
            if number:
                inputs = dropout(inputs, self.dropout, self.training)
            start = None if state is None else state[number * per_layer : (number + 1) * per_layer]
            outputs, after = self.cell(number).run(inputs, start, lengths)
            if self.backward_layers:
                backward = self.backward_layers[number]
                assert isinstance(backward, Cell)
                back_outputs, back_after = backward.run(inputs, None, lengths, backwards=True)
                outputs = torch.cat([outputs, back_outputs], -1)
                after = tuple(torch.cat(pair, -1) for pair in zip(after, back_after, strict=True))
            inputs = outputs
            final.extend(after)
        return inputs, tuple(final)

    def step(self, projected: Tensor, state: CellState, products: Products = PRODUCTS, position: int = 0) -> CellState:
        """The flat state of all layers after one step, from the bottom layer's input product (N, gates·D)."""
        per_layer = self.tensors_per_layer
        after = list(self.cell(0).at_step(projected, state[:per_layer], products, position))
        for number in range(1, len(self.layers)):
            cell = self.cell(number)
            inputs = dropout(after[-per_layer], self.dropout, self.training)
            below = cell.project(inputs, products=products)
            own = state[number * per_layer : (number + 1) * per_layer]
            after.extend(cell.at_step(below, own, products, position))
        return tuple(after)
