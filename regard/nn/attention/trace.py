"""Records of attention: weights by kind, and the trace of one step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from regard.nn.attention.intervention import Kind

Attention = Mapping[Kind, Tensor]
"""Weights by kind, each (B, layers, heads, T, S) with its own number of layers and heads."""


@dataclass(frozen=True)
class Trace:
    """Query, scores, weights and context of one attention at one step; rows as in `Step`."""

    kind: Kind
    layer: int
    head: int
    query: Tensor  # (N, Dq)
    scores: Tensor  # (N, S), -inf where masked
    weights: Tensor  # (N, S)
    weighted_values: Tensor  # (N, S, Dv)
    context: Tensor  # (N, Dv)
    centre: Tensor | None = None  # (N,) p_t of local attention, counted from 1
    window: Tensor | None = None  # (N, S) True inside the local window
    gaussian: Tensor | None = None  # (N, S) Gaussian factor of local-p
