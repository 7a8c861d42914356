"""Attention scores between queries and keys.

Every score maps queries (B, T, Dq) and prepared keys (B, S, P) to (B, T, S). `prepare` computes the part that depends
on the keys alone, once per sentence.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.config.models import FIRST_SHARPNESS, ScoreName
from regard.errors import ConfigError
from regard.nn.attention.trace import ScoreTerms
from regard.nn.products import PRODUCTS, Products

# Maximum elements of the additive score's (B, T, S, A); above it, queries are scored in slices.
ADDITIVE_SLICE = 16_000_000


class Score(nn.Module, ABC):
    """A score function of queries and keys."""

    reach: int | None = None
    """Number of source positions with a score; None: all."""

    def prepare(self, keys: Tensor) -> Tensor:
        """Prepared keys (B, S, P) of keys (B, S, Dk), computed once per sentence."""
        return keys

    def ask(self, query: Tensor, products: Products = PRODUCTS) -> Tensor:
        """Projected queries of queries (B, T, Dq); by default the queries themselves."""
        return query

    @abstractmethod
    def compare(self, asked: Tensor, prepared: Tensor) -> Tensor:
        """The scores (B, T, S) of projected queries (`ask`) and prepared keys (B, S, P)."""

    def terms(self, query: Tensor, prepared: Tensor) -> ScoreTerms | None:
        """The scores of queries (N, Dq) and prepared keys (B, S, P) as sums; None: not known."""
        return None

    def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
        """The scores (B, T, S) of queries (B, T, Dq) and prepared keys (B, S, P)."""
        return self.compare(self.ask(query), prepared)


class Dot(Score):
    """score(q, k) = qᵀ k (Luong 2015, eq. 8)."""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        if query_size != key_size:
            raise ConfigError(
                f"the {type(self).__name__} score needs queries and keys of one size, not {query_size} and {key_size}: "
                'choose "general" or "additive", or make the sizes equal.'
            )

    def compare(self, asked: Tensor, prepared: Tensor) -> Tensor:
        return asked @ prepared.transpose(1, 2)

    def terms(self, query: Tensor, prepared: Tensor) -> ScoreTerms | None:
        return ScoreTerms(query, prepared, query.new_ones(query.size(-1)))


class ScaledDot(Dot):
    """score(q, k) = qᵀ k / √d (Vaswani 2017, eq. 1)."""

    def compare(self, asked: Tensor, prepared: Tensor) -> Tensor:
        return super().compare(asked, prepared) / math.sqrt(asked.size(-1))

    def terms(self, query: Tensor, prepared: Tensor) -> ScoreTerms | None:
        size = query.size(-1)
        return ScoreTerms(query, prepared, query.new_full((size,), 1 / math.sqrt(size)))


class General(Score):
    """score(q, k) = qᵀ W k (Luong 2015, eq. 8)."""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(query_size, key_size))
        nn.init.xavier_uniform_(self.weight)

    def prepare(self, keys: Tensor) -> Tensor:
        return functional.linear(keys, self.weight)  # W k: (B, S, Dq)

    def compare(self, asked: Tensor, prepared: Tensor) -> Tensor:
        return asked @ prepared.transpose(1, 2)

    def terms(self, query: Tensor, prepared: Tensor) -> ScoreTerms | None:
        return ScoreTerms(query, prepared, query.new_ones(query.size(-1)))


class Additive(Score):
    """score(q, k) = vᵀ tanh(W q + U k) (Bahdanau 2015, A.1.2).

    Luong's concat, vᵀ tanh(W [q; k]), is the same function with W and U side by side in one matrix.
    """

    def __init__(self, query_size: int, key_size: int, size: int) -> None:
        super().__init__()
        self.query = nn.Linear(query_size, size, bias=False)  # W
        self.key = nn.Linear(key_size, size, bias=False)  # U
        self.v = nn.Parameter(torch.empty(size))
        nn.init.xavier_uniform_(self.query.weight)
        nn.init.xavier_uniform_(self.key.weight)
        nn.init.uniform_(self.v, -1 / math.sqrt(size), 1 / math.sqrt(size))

    def prepare(self, keys: Tensor) -> Tensor:
        projected: Tensor = self.key(keys)  # U k: (B, S, A)
        return projected

    def ask(self, query: Tensor, products: Products = PRODUCTS) -> Tensor:
        return products(query, self.query.weight)  # W q: (B, T, A)

    def compare(self, asked: Tensor, prepared: Tensor) -> Tensor:
        per_query = max(1, prepared.numel())
        slices = torch.split(asked, max(1, ADDITIVE_SLICE // per_query), 1)
        scores = [torch.tanh(part.unsqueeze(2) + prepared.unsqueeze(1)) @ self.v for part in slices]
        return scores[0] if len(scores) == 1 else torch.cat(scores, 1)

    def terms(self, query: Tensor, prepared: Tensor) -> ScoreTerms | None:
        return ScoreTerms(self.ask(query), prepared, self.v, additive=True)


class Location(Score):
    """score(q, ·)ⱼ = (W q)ⱼ: depends on the query and the position only (Luong 2015, eq. 9).

    W has one row for each of `max_positions` source positions; later positions get no attention.
    A local window lies within the first `max_positions` too, see `Attend`.
    """

    def __init__(self, query_size: int, max_positions: int) -> None:
        super().__init__()
        self.reach = max_positions
        self.position = nn.Linear(query_size, max_positions, bias=False)

    def prepare(self, keys: Tensor) -> Tensor:
        if keys.size(1) > self.position.out_features:
            # The message has no length in it: Python shows each distinct warning once.
            warnings.warn(
                f"a source is longer than the location score reaches: positions after {self.position.out_features} "
                "get no attention (raise model.max_source_positions and train again)",
                stacklevel=2,
            )
        return keys

    def ask(self, query: Tensor, products: Products = PRODUCTS) -> Tensor:
        return products(query, self.position.weight)

    def compare(self, asked: Tensor, prepared: Tensor) -> Tensor:
        source_length = prepared.size(1)
        scores = asked[..., :source_length]
        return functional.pad(scores, (0, source_length - scores.size(-1)))

    def terms(self, query: Tensor, prepared: Tensor) -> ScoreTerms | None:
        """The key of position j is row j of W."""
        rows = self.position.weight[: prepared.size(1)]
        keys = functional.pad(rows, (0, 0, 0, prepared.size(1) - len(rows)))  # (S, Dq)
        return ScoreTerms(query, keys.expand(len(prepared), -1, -1), query.new_ones(query.size(-1)))


class Cosine(Score):
    """score(q, k) = β cos(q, k): content-based addressing (Graves 2014).

    The sharpness β is a constant, 1 for the plain cosine, or one learned parameter if None. Graves' controller computes
    β at each step.
    """

    def __init__(self, query_size: int, key_size: int, sharpness: float | None = None) -> None:
        super().__init__()
        if query_size != key_size:
            raise ConfigError(
                f"the cosine score needs queries and keys of one size, not {query_size} and {key_size}: "
                'choose "general" or "additive", or make the sizes equal.'
            )
        # A cosine in [-1, 1] gives a flat softmax over many words; training starts with a sharper one.
        self.sharpness = sharpness
        self.log_sharpness = nn.Parameter(torch.tensor(math.log(FIRST_SHARPNESS))) if sharpness is None else None

    def prepare(self, keys: Tensor) -> Tensor:
        return functional.normalize(keys, dim=-1)

    def compare(self, asked: Tensor, prepared: Tensor) -> Tensor:
        cosine = functional.normalize(asked, dim=-1) @ prepared.transpose(1, 2)
        if self.log_sharpness is not None:
            return self.log_sharpness.exp() * cosine
        return cosine if self.sharpness is None else self.sharpness * cosine

    def terms(self, query: Tensor, prepared: Tensor) -> ScoreTerms | None:
        sharpness = 1.0 if self.sharpness is None else self.sharpness
        factor = query.new_full((query.size(-1),), sharpness)
        if self.log_sharpness is not None:
            factor = factor * self.log_sharpness.exp()
        return ScoreTerms(functional.normalize(query, dim=-1), prepared, factor)


def make_score(
    name: ScoreName,
    query_size: int,
    key_size: int,
    *,
    size: int,
    max_positions: int,
    sharpness: float | None = None,
) -> Score:
    """The score of a recipe; `size` is for additive, `max_positions` for location, `sharpness` for cosine."""
    match name:
        case "dot":
            return Dot(query_size, key_size)
        case "scaled_dot":
            return ScaledDot(query_size, key_size)
        case "general":
            return General(query_size, key_size)
        case "additive" | "concat":
            return Additive(query_size, key_size, size)
        case "location":
            return Location(query_size, max_positions)
        case "cosine":
            return Cosine(query_size, key_size, sharpness)
