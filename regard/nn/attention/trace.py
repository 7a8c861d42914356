"""Records of attention: weights by kind, the trace of one step, and its scores as sums of terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.nn.attention.intervention import Kind

Attention = Mapping[Kind, Tensor]
"""Weights by kind, each (B, layers, heads, T, S) with its own number of layers and heads."""


@dataclass(frozen=True)
class ScoreTerms:
    """Scores as sums over A dimensions: Σᵢ factorᵢ · qᵢ · kᵢ (multiplicative), Σᵢ factorᵢ · tanh(qᵢ + kᵢ) (additive).

    Queries and keys as they meet in the score: with its matrices applied, such as W q and U k of the additive score.
    """

    query: Tensor  # (N, A)
    keys: Tensor  # (B, S, A), shared by the N / B rows of a sentence
    factor: Tensor  # (A,)
    additive: bool = False

    def terms(self) -> Tensor:
        """The terms (N, S, A); their sum over A is the score."""
        query, keys = self.query.unsqueeze(1), self.keys.repeat_interleave(len(self.query) // len(self.keys), 0)
        return self.factor * (torch.tanh(query + keys) if self.additive else query * keys)


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
    score_terms: ScoreTerms | None = None  # None: a score of the user's own
