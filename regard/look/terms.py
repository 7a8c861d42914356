"""The terms of the attention scores that a record holds.

A score is a sum over dimensions (`nn/attention/trace.py`). The record holds the few where the scores of the source
positions differ most, the same in every step of a head, and the sum of all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.look.record import HeadKeys, rounded
from regard.nn.attention.trace import ScoreTerms, Trace


@dataclass(frozen=True)
class ShownTerms:
    """The shown dimensions of one head."""

    keys: HeadKeys
    dimensions: Tensor  # (d,)

    def asked(self, trace: Trace) -> list[float]:
        """The query in the score, at the shown dimensions."""
        found: list[float] = rounded(_terms(trace).query[0, self.dimensions].tolist())
        return found

    def rest(self, trace: Trace) -> list[float | None]:
        """The sum of the other terms (S), None where nothing may be attended to."""
        other = torch.ones(self.keys.size, dtype=torch.bool, device=self.dimensions.device)
        other[self.dimensions] = False
        total = _terms(trace).terms()[0, :, other].sum(-1)  # (S,)
        found: list[float | None] = rounded(total.masked_fill(trace.scores[0].isinf(), -torch.inf).tolist())
        return found


def shown_terms(steps: Sequence[Sequence[Trace]], shown: int) -> dict[tuple[int, int], ShownTerms]:
    """By layer and head, of the traces of every step; without those whose score is not a known sum."""
    heads: dict[tuple[int, int], list[Trace]] = {}
    for traces in steps:
        for trace in traces:
            if trace.score_terms is not None:
                heads.setdefault((trace.layer, trace.head), []).append(trace)
    return {place: _shown(traces, shown) for place, traces in heads.items()}


def _shown(traces: Sequence[Trace], shown: int) -> ShownTerms:
    """The dimensions whose terms vary most over the source positions, summed over the steps."""
    spread = torch.stack([_terms(trace).terms()[0].std(0, correction=0) for trace in traces]).sum(0)  # (A,)
    dimensions = spread.topk(min(shown, len(spread))).indices.sort().values
    first = _terms(traces[0])
    keys = HeadKeys(
        kind=traces[0].kind,
        layer=traces[0].layer,
        head=traces[0].head,
        additive=first.additive,
        size=len(spread),
        dimensions=dimensions.tolist(),
        factor=rounded(first.factor[dimensions].tolist()),
        keys=rounded(first.keys[0, :, dimensions].tolist()),
    )
    return ShownTerms(keys, dimensions)


def _terms(trace: Trace) -> ScoreTerms:
    assert trace.score_terms is not None
    return trace.score_terms
