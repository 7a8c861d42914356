"""What attention records when it is asked to: weights by kind, and the arithmetic of one step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from regard.nn.attention.intervention import Kind

Attention = Mapping[Kind, Tensor]
"""Weights by kind, each (B, layers, heads, T, S) with its own number of layers and heads."""


@dataclass(frozen=True)
class Trace:
    """The arithmetic of one attention at one step, for looking at it; rows as in `Step`."""

    kind: Kind
    layer: int
    head: int
    query: Tensor  # (N, Dq)
    scores: Tensor  # (N, S), -inf where nothing may be attended to
    weights: Tensor  # (N, S)
    weighted_values: Tensor  # (N, S, Dv)
    context: Tensor  # (N, Dv)
    centre: Tensor | None = None  # (N,) p_t of local attention, counted from 1
    window: Tensor | None = None  # (N, S) True inside the local window
    gaussian: Tensor | None = None  # (N, S) what local-p multiplies the weights by
