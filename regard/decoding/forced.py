"""Forced decoding: scores of given translations under a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.penalties import coverage_penalty, length_penalty
from regard.models.contract import Batch, Model, Output
from regard.nn.attention.intervention import Intervention, Kind

ROWS_TOGETHER = 1024  # rows of the output layer computed at once, to bound the memory of (N, V)


@dataclass(frozen=True)
class _Rows:
    """The real target positions (M,) of a batch."""

    log_probability: Tensor
    ids: Tensor | None  # (M, C)
    probabilities: Tensor | None  # (M, C)


@torch.inference_mode()
def force(
    model: Model,
    batch: Batch,
    *,
    attention: bool = False,
    candidates: int = 0,
    intervention: Intervention | None = None,
    alpha: float = 0.0,
    beta: float = 0.0,
) -> list[Hypothesis]:
    """The given translations as hypotheses, with the scores of a search.

    `alpha` is the exponent of the length penalty, `beta` the weight of the coverage penalty.
    """
    output = model(batch, attention=attention or beta > 0, intervention=intervention)
    rows = _score(model, output, batch, candidates)
    lengths = batch.target_mask.sum(1).tolist()
    found = []
    first = 0
    for sentence, length in enumerate(lengths):
        own = slice(first, first + length)
        first += length
        log_probabilities = rows.log_probability[own].tolist()
        weights = _attention(output, batch, sentence, length) if attention or beta > 0 else None
        alignment = None if weights is None else _alignment(model, weights)
        total = float(sum(log_probabilities))
        found.append(
            Hypothesis(
                ids=tuple(batch.target_out[sentence, :length].tolist()),
                log_probability=total,
                score=total / length_penalty(float(length), alpha) + _coverage_penalty(alignment, beta),
                finished=True,
                token_log_probabilities=tuple(log_probabilities),
                attention=weights if attention else None,
                alignment=alignment if attention else None,
                candidates=_candidates(rows, range(own.start, own.stop)),
            )
        )
    return found


def _score(model: Model, output: Output, batch: Batch, candidates: int) -> _Rows:
    hidden = output.hidden[batch.target_mask]  # (M, D)
    gold = batch.target_out[batch.target_mask]  # (M,)
    scored: list[Tensor] = []
    ids: list[Tensor] = []
    probabilities: list[Tensor] = []
    for first in range(0, hidden.size(0), ROWS_TOGETHER):
        part, wanted = hidden[first : first + ROWS_TOGETHER], gold[first : first + ROWS_TOGETHER]
        logits = model.project(part)
        logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
        normaliser = logits.logsumexp(-1, keepdim=True)
        scored.append((logits.gather(1, wanted.unsqueeze(1)) - normaliser).squeeze(1))
        if candidates:
            best, most_probable = logits.topk(min(candidates, logits.size(-1)))
            ids.append(most_probable)
            probabilities.append((best - normaliser).exp())
    if not candidates:
        return _Rows(torch.cat(scored).cpu().double(), None, None)
    return _Rows(torch.cat(scored).cpu().double(), torch.cat(ids), torch.cat(probabilities))


def _attention(output: Output, batch: Batch, sentence: int, length: int) -> dict[Kind, Tensor] | None:
    if not output.attention or "cross" not in output.attention:
        return None
    source = output.attention["cross"].size(-1)
    if batch.source_mask is not None:
        source = int(batch.source_mask[sentence].sum())
    sizes: dict[Kind, tuple[int, int]] = {
        "cross": (length, source),
        "encoder-self": (source, source),
        "decoder-self": (length, length),
    }
    return {
        kind: weights[sentence, :, :, : sizes[kind][0], : sizes[kind][1]] for kind, weights in output.attention.items()
    }


def _alignment(model: Model, weights: dict[Kind, Tensor]) -> Tensor:
    return model.alignment({kind: each.unsqueeze(0) for kind, each in weights.items()})[0]


def _coverage_penalty(alignment: Tensor | None, beta: float) -> float:
    """The coverage penalty of a translation with this alignment (T, S)."""
    if beta == 0 or alignment is None:
        return 0.0
    coverage = alignment.sum(0)
    return float(coverage_penalty(coverage, torch.ones_like(coverage, dtype=torch.bool), beta))


def _candidates(rows: _Rows, places: Sequence[int]) -> tuple[tuple[tuple[int, float], ...], ...]:
    if rows.ids is None or rows.probabilities is None:
        return ()
    return tuple(
        tuple(zip(rows.ids[place].tolist(), rows.probabilities[place].tolist(), strict=True)) for place in places
    )
