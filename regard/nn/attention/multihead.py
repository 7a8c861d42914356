"""Multi-head attention (Vaswani et al. 2017, section 3.2.2).

    headᵢ = softmax(Q Wᵢ^Q (K Wᵢ^K)ᵀ / √K) V Wᵢ^V,      MultiHead(Q, K, V) = [head₁; …; head_H] W^O

Two paths give the same result. `fast` does not return the weights: torch's `scaled_dot_product_attention`, or plain
matrix products for short sentences. `look` computes scores, weights and contexts step by step, records them and applies
interventions.

Shapes: B sentences, T queries, S keys, D size of the model, H heads, K = D / H size of a head. Projections run on rows
(n, D) without padding; `Rows` converts between rows and padded tensors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.nn.attention.attend import masked_softmax
from regard.nn.attention.intervention import Intervention, Kind
from regard.nn.attention.trace import ScoreTerms, Trace
from regard.nn.linear import Linear, linear
from regard.nn.ragged import Rows

SHORT, SHORT_BFLOAT16 = 24, 256
"""Up to these lengths, plain matrix products are faster on a CPU than torch's fused kernel.

Forward and backward, 4 heads of 64: 12 against 24 ms for 270 sentences of 15 words, 14 against 15 ms for 128 of 32. In
bfloat16 the fused kernel needs 1.6 times as long for 16 sentences of 256 words, 3.7 times for 128 of 32."""


class Heads(NamedTuple):
    """Projected queries (B, H, T, K), and keys and values (B, H, S, K)."""

    query: Tensor
    keys: Tensor
    values: Tensor


@dataclass(frozen=True)
class RecordedHeads:
    """Recorded scores, weights and contexts of one multi-head attention."""

    kind: Kind
    layer: int
    heads: Heads
    scores: Tensor  # (B, H, T, S)
    allowed: Tensor | None  # (B or 1, 1, 1 or T, S) mask; None: all positions
    weights: Tensor  # (B, H, T, S)
    contexts: Tensor  # (B, H, T, K) of each head, before W^O

    def traces(self) -> tuple[Trace, ...]:
        """The trace of each head; queries (B, T) become N rows, one for each beam of a sentence."""
        weighted = self.weights.unsqueeze(-1) * self.heads.values.unsqueeze(2)  # (B, H, T, S, K)
        scores = self.scores if self.allowed is None else self.scores.masked_fill(~self.allowed, -torch.inf)
        size = self.heads.query.size(-1)
        scale = self.heads.query.new_full((size,), 1 / math.sqrt(size))
        return tuple(
            Trace(
                kind=self.kind,
                layer=self.layer,
                head=head,
                query=self.heads.query[:, head].flatten(0, 1),
                scores=scores[:, head].flatten(0, 1),
                weights=self.weights[:, head].flatten(0, 1),
                weighted_values=weighted[:, head].flatten(0, 1),
                context=self.contexts[:, head].flatten(0, 1),
                score_terms=ScoreTerms(self.heads.query[:, head].flatten(0, 1), self.heads.keys[:, head], scale),
            )
            for head in range(self.weights.size(1))
        )


class MultiHead(nn.Module):
    """H heads of attention with projections from size D."""

    def __init__(self, size: int, heads: int, kind: Kind, layer: int, *, bias: bool = False) -> None:
        super().__init__()
        self.size = size
        self.heads = heads
        self.kind: Kind = kind
        self.layer = layer
        # W^Q, W^K and W^V of all heads in one matrix: one product for self-attention.
        self.weight = nn.Parameter(torch.empty(3 * size, size))
        self.bias = nn.Parameter(torch.zeros(3 * size)) if bias else None
        self.output = Linear(size, size, bias=bias)
        for part in (*self.weight.chunk(3), self.output.weight):
            nn.init.xavier_uniform_(part)
        if bias:
            nn.init.zeros_(self.output.bias)

    # --- projections: W^Q, W^K, W^V -----------------------------------------------------------------------------------

    def project(self, inputs: Tensor, rows: Rows) -> Heads:
        """Queries, keys and values of the same inputs (n, D), for self-attention."""
        return Heads(*self._split(linear(inputs, self.weight, self.bias), rows, 3))

    def ask(self, inputs: Tensor, rows: Rows) -> Tensor:
        """Queries (B, H, T, K) of inputs (n, D)."""
        bias = None if self.bias is None else self.bias[: self.size]
        return self._split(linear(inputs, self.weight[: self.size], bias), rows, 1)[0]

    def prepare(self, memory: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """Keys and values (B, H, S, K) of the encoder output (n, D), computed once per sentence."""
        bias = None if self.bias is None else self.bias[self.size :]
        keys, values = self._split(linear(memory, self.weight[self.size :], bias), rows, 2)
        return keys, values

    def _split(self, projected: Tensor, rows: Rows, parts: int) -> tuple[Tensor, ...]:
        """Split (n, parts · D) into `parts` of (B, H, T, K); views if there is no padding."""
        heads = rows.spread(projected).view(rows.sentences, rows.length, parts, self.heads, -1)
        return heads.transpose(1, 3).unbind(2)  # (B, H, parts, T, K), cut

    # --- attention ----------------------------------------------------------------------------------------------------

    def must_look(self, intervention: Intervention | None) -> bool:
        """Whether an intervention changes these weights; the fast path does not support that."""
        return intervention is not None and intervention.touches(self.kind, self.layer)

    def fast(self, heads: Heads, allowed: Tensor | None = None, *, causal: bool = False) -> Tensor:
        """The contexts (B, H, T, K) of the heads, without weights; `allowed` is (B, 1, 1, S)."""
        query, keys, values = heads
        short = SHORT_BFLOAT16 if query.dtype == torch.bfloat16 else SHORT
        if query.device.type != "cpu" or max(query.size(2), keys.size(2)) > short:
            return functional.scaled_dot_product_attention(*heads, attn_mask=allowed, is_causal=causal)
        scores = (query / math.sqrt(keys.size(-1))) @ keys.transpose(-1, -2)  # (B, H, T, S)
        if causal:
            scores = scores + query.new_full(scores.shape[2:], -torch.inf).triu(1)
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -torch.inf)
        return scores.softmax(-1) @ values

    def look(
        self,
        heads: Heads,
        allowed: Tensor | None,
        steps: Sequence[int],
        intervention: Intervention | None = None,
    ) -> RecordedHeads:
        """Scores, softmax, weighted sum, recorded; `steps` are the target steps of the T queries, counted from 0."""
        query, keys, values = heads
        scores = query @ keys.transpose(-1, -2) / math.sqrt(keys.size(-1))  # (B, H, T, S)
        weights = scores.softmax(-1) if allowed is None else masked_softmax(scores, allowed)
        if intervention is not None and self.must_look(intervention):
            weights = self._edit(weights, steps, intervention)
            if allowed is not None:  # edits never reach padding, banned or future positions
                weights = weights * allowed
        return RecordedHeads(self.kind, self.layer, heads, scores, allowed, weights, weights @ values)

    def join(self, contexts: Tensor, rows: Rows) -> Tensor:
        """[head₁; …; head_H] W^O, (n, D), of the heads' contexts (B, H, T, K)."""
        joined: Tensor = self.output(rows.take(contexts.transpose(1, 2).flatten(2)))
        return joined

    def _edit(self, weights: Tensor, steps: Sequence[int], intervention: Intervention) -> Tensor:
        edited = [
            intervention.apply(weights[:, head], self.kind, self.layer, steps, head) for head in range(self.heads)
        ]
        return torch.stack(edited, 1)
