"""Constraints on a translation: length bounds, target prefix, n-gram blocking.

Each constraint sets the logits of forbidden tokens to minus infinity. Log-probabilities are normalised before, so they
stay those of the model.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.config.settings import SearchSettings

LOGIT_FLOOR = -1e9  # floor for EOS when everything else is forbidden, and for a forced token


@dataclass(frozen=True)
class Limits:
    """Length bounds (B,) in tokens with EOS, and the padded target prefix (B, P)."""

    minimum: Tensor
    maximum: Tensor
    prefix: Tensor
    prefix_lengths: Tensor

    def select(self, index: Tensor) -> Limits:
        """The limits of the sentences `index`."""
        return Limits(
            self.minimum.index_select(0, index),
            self.maximum.index_select(0, index),
            self.prefix.index_select(0, index),
            self.prefix_lengths.index_select(0, index),
        )


def limits_of(lengths: Tensor, settings: SearchSettings, prefix: Tensor | None, pad: int) -> Limits:
    """Bounds from the source lengths (B,), both with EOS; the maximum leaves room after the target prefix."""
    if prefix is None:
        prefix = lengths.new_zeros(lengths.size(0), 0)
    prefix_lengths = (prefix != pad).sum(-1)
    maximum = (settings.max_length_ratio * lengths).long() + settings.max_length_extra
    maximum = torch.where(prefix_lengths > 0, maximum.maximum(prefix_lengths + settings.max_length_extra), maximum)
    minimum = (settings.min_length_ratio * lengths).long().minimum(maximum)
    return Limits(minimum, maximum, prefix, prefix_lengths)


def constrain(
    logits: Tensor, step: int, limits: Limits, history: Tensor | None, ngram: int, never: list[int], eos: int
) -> None:
    """Forbid tokens in `logits` (N, V), in place; `history` (N, step) are the tokens of each row so far."""
    end = logits[:, eos].clone()
    rows = logits.size(0) // limits.minimum.size(0)  # per sentence
    forced = _forced(logits, step, limits, rows) if step < limits.prefix.size(1) else None
    logits[:, never] = -torch.inf
    short = (limits.minimum > step + 1).repeat_interleave(rows)
    may_be_stuck = ngram > 0 or bool(short.any())
    if may_be_stuck:
        logits[short, eos] = -torch.inf
    if ngram and history is not None:
        forbid_repetition(logits, history, ngram)
    if may_be_stuck:  # allow EOS where every token is forbidden
        stuck = logits.amax(-1) == -torch.inf
        logits[stuck, eos] = end[stuck].clamp(min=LOGIT_FLOOR)
    if forced is not None:
        row, only = forced
        logits[row] = only


def forbid_repetition(logits: Tensor, history: Tensor, ngram: int) -> None:
    """Forbid, in place, the tokens that would repeat an n-gram of `history` (N, T)."""
    if history.size(1) < ngram:
        return
    windows = history.unfold(1, ngram, 1)  # (N, T - n + 1, n)
    start = history[:, history.size(1) - ngram + 1 :]  # (N, n - 1)
    same = (windows[..., :-1] == start.unsqueeze(1)).all(-1)
    row, place = same.nonzero(as_tuple=True)
    logits[row, windows[row, place, -1]] = -torch.inf


def _forced(logits: Tensor, step: int, limits: Limits, rows: int) -> tuple[Tensor, Tensor]:
    """Mask (N,) of the rows within the target prefix, and their logits (M, V) with only the prefix token allowed."""
    row = (limits.prefix_lengths > step).repeat_interleave(rows)
    token = limits.prefix[:, step].repeat_interleave(rows)[row].unsqueeze(1)
    kept = logits[row].gather(1, token).clamp(min=LOGIT_FLOOR)
    return row, torch.full_like(logits[row], -torch.inf).scatter_(1, token, kept)
