"""Scheduled sampling: some target inputs are the model's own predictions (Bengio et al. 2015)."""

from __future__ import annotations

from dataclasses import replace

import torch

from regard.models.contract import Batch, Model
from regard.training.loss import predictions


def sampling_share(most: float, update: int, total: int | None) -> float:
    """Sampling probability at an update: grows linearly to `most` at the last one."""
    return 0.0 if total is None else most * min(1.0, update / total)


@torch.no_grad()
def sample_inputs(model: Model, batch: Batch, share: float) -> Batch:
    """The batch with a random share of its target inputs replaced by the model's predictions.

    Two passes: the first, with teacher forcing, predicts the word at each position; the second trains on the mixed
    inputs. (Bengio et al. sample step by step while decoding, which cannot be parallelised; the two agree while sampled
    inputs are rare.) BOS is kept.
    """
    words = predictions(model, model(batch).hidden)  # (B, T): prediction after each input
    chosen = torch.rand(words.shape, device=words.device) < share
    mixed = batch.target_in.clone()
    mixed[:, 1:] = torch.where(chosen[:, :-1], words[:, :-1], batch.target_in[:, 1:])
    return replace(batch, target_in=mixed)
