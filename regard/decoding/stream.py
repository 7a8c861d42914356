"""Streaming decoding: the tokens of one translation, by greedy search or sampling, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from regard.decoding.decoding import Decoding, Request
from regard.decoding.greedy import most_probable
from regard.decoding.hypothesis import StreamedToken
from regard.decoding.penalties import length_penalty
from regard.decoding.sampling import sampler
from regard.models.contract import Model
from regard.nn.linear import PackedWeights, Weights, multiplying_with


def stream_tokens(
    model: Model, source: Tensor, source_mask: Tensor, request: Request, weights: Weights | None = None
) -> Iterator[StreamedToken]:
    """The tokens of one sentence (1, S), as from `search` with a beam of 1 or as its first sample."""
    settings, weights = request.settings, weights or PackedWeights()
    with _searching(weights):
        decoding = Decoding(model, source, source_mask, request)
        choose = sampler(decoding, rows=1) if settings.sample else most_probable
    total, ended = 0.0, False
    while not ended:
        with _searching(weights):  # not around the yield: the caller's code runs there
            scores = decoding.step()
            token = choose(scores, decoding)  # (1,)
            chosen = scores[0, token]  # (1,)
            ended = int(token) == request.eos or int(decoding.limits.maximum) <= decoding.position + 1
            row = torch.zeros_like(token)
            penalty = float(decoding.coverage_penalty(row, row))
            attended = int(decoding.record.attended.at(decoding.position, 0)) if len(decoding.record.attended) else None
            decoding.advance(row, token, chosen, torch.zeros_like(token, dtype=torch.bool))
        total += float(chosen)
        yield StreamedToken(
            id=int(token if decoding.columns is None else decoding.columns[token]),
            log_probability=float(chosen),
            score=total / length_penalty(float(decoding.position), settings.length_penalty) + penalty,
            ended=ended,
            attended=attended,
        )


@contextmanager
def _searching(weights: Weights) -> Iterator[None]:
    with torch.inference_mode(), multiplying_with(weights):
        yield
