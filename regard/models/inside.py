"""What stands behind the boxes of a model's diagram, for the numbers of one box.

Names are those of `wiring.py` without the position: `decoder.2` is the decoder's second layer, `encoder.1.backward` the
backward direction of a bidirectional layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from torch import Tensor

from regard.nn.attention.multihead import MultiHead
from regard.nn.cells import Cell
from regard.nn.stack import Stack
from regard.nn.transformer import FeedForward, ResidualNorm

Embedded = Callable[[Literal["source", "target"], Tensor], Mapping[str, Tensor]]
"""The input vectors (T, E) of ids (T,): as named summands, in the order of their sum."""


class SubLayer(NamedTuple):
    """A sub-layer of a Transformer, with its residual connection."""

    name: Literal["self-attention", "feed-forward"]
    norm: ResidualNorm
    function: MultiHead | FeedForward


@dataclass(frozen=True)
class Inside:
    """The parts of a model by the names of their boxes."""

    embed: Embedded
    cells: Mapping[str, Cell] = field(default_factory=dict)
    sub_layers: Mapping[str, Sequence[SubLayer]] = field(default_factory=dict)
    residuals: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # a layer's output plus its input
    joined: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # concatenated outputs
    starts: Mapping[str, str] = field(default_factory=dict)  # initial state of the cell of that name
    hidden: str = ""  # input of the output layer, if it has a box of its own
    reads_backwards: bool = False  # the source is reversed; EOS stays last


def stack_cells(half: Literal["encoder", "decoder"], stack: Stack) -> dict[str, Cell]:
    """The cells of a stack by the names of their boxes."""
    both = bool(stack.backward_layers)
    cells = {
        f"{half}.{number}{'.forward' if both else ''}": stack.cell(number - 1)
        for number in range(1, len(stack.layers) + 1)
    }
    for number, cell in enumerate(stack.backward_layers, start=1):
        assert isinstance(cell, Cell)
        cells[f"{half}.{number}.backward"] = cell
    return cells
