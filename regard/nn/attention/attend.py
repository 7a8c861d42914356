"""Attention: score the query against every key, softmax to weights, weighted sum of the values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.nn.attention.intervention import Intervention, Kind
from regard.nn.attention.local import Focus, Window
from regard.nn.attention.memory import Memory
from regard.nn.attention.scores import Score
from regard.nn.attention.trace import Trace
from regard.nn.products import PRODUCTS, Products


@dataclass(frozen=True)
class Attended:
    """Result of attention for queries (B, T, Dq)."""

    context: Tensor  # (B, T, Dv)
    weights: Tensor  # (B, T, S)
    scores: Tensor  # (B, T, S)
    allowed: Tensor  # (B, 1 or T, S) True where attended to
    focus: Focus | None = None


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the positions where `mask` is True; exactly 0 elsewhere; a fully masked row gives zeros."""
    lowest = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(~mask, lowest), -1) * mask


class Attend(nn.Module):
    """Attention with a score, an optional local window, and an optional `choose` after the softmax (hard attention)."""

    def __init__(
        self,
        score: Score,
        window: Window | None = None,
        kind: Kind = "cross",
        layer: int = 0,
        choose: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.score = score
        self.window = window
        self.choose = choose  # maps weights (B, T, S) to weights (B, T, S); rows still sum to 1
        self.kind: Kind = kind
        self.layer = layer

    def prepare(self, keys: Tensor) -> Tensor:
        """The prepared keys of the score, computed once per sentence."""
        return self.score.prepare(keys)

    def forward(
        self,
        query: Tensor,
        memory: Memory,
        steps: Sequence[int],
        intervention: Intervention | None = None,
        products: Products = PRODUCTS,
    ) -> Attended:
        """Attend with queries (B, T, Dq) of the T target steps `steps`, counted from 0."""
        assert memory.keys is not None
        assert memory.values is not None
        scores = self.score.compare(self.score.ask(query, products), memory.keys)  # (B, T, S)
        real = (memory.mask if intervention is None else intervention.allow(memory.mask)).unsqueeze(1)  # (B, 1, S)
        allowed = real if self.score.reach is None else real & self._within(self.score.reach, real)
        focus = None
        if self.window is not None:
            # A location score of R positions limits S to R, so no window lies beyond its reach.
            lengths = memory.lengths if self.score.reach is None else memory.lengths.clamp(max=self.score.reach)
            focus = self.window(query, steps, lengths, memory.mask.size(1))
            allowed = allowed & focus.inside  # (B, T, S)
        weights = masked_softmax(scores, allowed)
        if focus is not None and focus.gaussian is not None:
            weights = weights * focus.gaussian
        if self.choose is not None:
            weights = self.choose(weights)
        if intervention is not None:
            # An edit may set weights outside the window, but not at padding or a banned position.
            weights = intervention.apply(weights, self.kind, self.layer, steps) * real
        return Attended(weights @ memory.values, weights, scores, allowed, focus)

    def at_step(
        self,
        query: Tensor,
        memory: Memory,
        position: int,
        *,
        trace: bool = False,
        intervention: Intervention | None = None,
        products: Products = PRODUCTS,
    ) -> tuple[Tensor, Tensor, tuple[Trace, ...]]:
        """Context (N, Dv) and weights (N, S) of one query per row (N, Dq); the rows of a sentence share its memory."""
        rows, sentences = query.size(0), memory.sentences
        beams = rows // sentences
        attended = self(query.reshape(sentences, beams, -1), memory, [position] * beams, intervention, products)
        context, weights = attended.context.flatten(0, 1), attended.weights.flatten(0, 1)
        return context, weights, (self._trace(query, memory, attended),) if trace else ()

    def _within(self, reach: int, mask: Tensor) -> Tensor:
        """(S,): the positions within the reach of the score."""
        return torch.arange(mask.size(-1), device=mask.device) < reach

    def _trace(self, query: Tensor, memory: Memory, attended: Attended) -> Trace:
        assert memory.keys is not None
        assert memory.values is not None
        weighted = attended.weights.unsqueeze(-1) * memory.values.unsqueeze(1)  # (B, beams, S, Dv)
        focus = attended.focus
        return Trace(
            kind=self.kind,
            layer=self.layer,
            head=0,
            query=query,
            scores=attended.scores.masked_fill(~attended.allowed, -torch.inf).flatten(0, 1),
            weights=attended.weights.flatten(0, 1),
            weighted_values=weighted.flatten(0, 1),
            context=attended.context.flatten(0, 1),
            centre=None if focus is None else focus.centre.flatten(),
            window=None if focus is None else focus.inside.flatten(0, 1),
            gaussian=None if focus is None or focus.gaussian is None else focus.gaussian.flatten(0, 1),
            score_terms=self.score.terms(query, memory.keys),
        )
