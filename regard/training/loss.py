"""Label-smoothed cross-entropy over target tokens without padding, in chunks of logits.

With V words, smoothing ε and gold word y, the loss of one token is

    (1 - ε) · (-log p(y))  +  ε · mean over the vocabulary of (-log p(v)),

which is torch's `cross_entropy(label_smoothing=ε)`. Its gradient over the logits is known in closed form,
p - (1 - ε)·onehot(y) - ε/V, so each chunk of rows is projected, scored and backpropagated before the next one.
Padding is dropped before the projection.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.models.contract import Batch, Output, Predictor

CHUNK_ELEMENTS = 1 << 23  # logits held at once: 32 MB in float32


@dataclass(frozen=True, slots=True)
class Loss:
    """Sums over the target tokens of a batch."""

    smoothed: float
    negative_log_likelihood: float
    tokens: int


def chunk_rows(vocabulary_size: int) -> int:
    """Rows whose logits are held at once."""
    return max(16, CHUNK_ELEMENTS // vocabulary_size)


def backward(model: Predictor, output: Output, batch: Batch, *, smoothing: float, total_tokens: int) -> Loss:
    """Add the gradient of (Σ loss over the batch) / total_tokens to every parameter, and return the sums.

    `total_tokens` counts all batches of the update (gradient accumulation weights batches by tokens). The model's
    `extra_loss` is per token, with the same weight.
    """
    hidden = output.hidden[batch.target_mask]  # (N, D)
    targets = batch.target_out[batch.target_mask]  # (N,)
    gradient = torch.empty_like(hidden)
    sums = torch.zeros(2, dtype=torch.float64, device=hidden.device)
    rows = chunk_rows(model.vocabulary_size)
    for start in range(0, len(targets), rows):
        part = slice(start, start + rows)
        leaf = hidden[part].detach().requires_grad_()
        logits = model.project(leaf)  # (rows, V)
        sums += _sums_and_gradient(logits, targets[part], smoothing, total_tokens)
        assert leaf.grad is not None
        gradient[part] = leaf.grad
    extra = output.extra_loss
    smoothed, likelihood = sums.tolist()
    if extra is None:
        torch.autograd.backward([hidden], [gradient])
    else:
        share = len(targets) / total_tokens
        torch.autograd.backward([hidden, extra], [gradient, torch.full_like(extra, share)])
        smoothed += float(extra.detach()) * len(targets)
    return Loss(smoothed, likelihood, len(targets))


def _sums_and_gradient(logits: Tensor, targets: Tensor, smoothing: float, total_tokens: int) -> Tensor:
    """Backpropagate from the logits (rows, V); return the sums (2,) of smoothed and plain loss.

    A chunk is several megabytes, so memory passes matter: one exponential, then everything in place.
    """
    columns = targets.unsqueeze(1)
    with torch.no_grad():
        probabilities = torch.softmax(logits, -1, dtype=_at_least_float32(logits.dtype))
        # log Σ exp(logits), from the most probable word: its probability is at least 1/V, so the logarithm is finite
        normaliser = logits.amax(1) - probabilities.amax(1).log()  # (rows,)
        likelihood = (normaliser - logits.gather(1, columns).squeeze(1)).sum(dtype=torch.float64)
        uniform = (normaliser - logits.mean(1, dtype=probabilities.dtype)).sum(dtype=torch.float64)
        shared = probabilities.new_tensor(-smoothing / (logits.size(1) * total_tokens))
        gradient = torch.add(shared, probabilities, alpha=1 / total_tokens, out=probabilities)
        gold = gradient.new_full((1, 1), (smoothing - 1) / total_tokens)
        gradient.scatter_add_(1, columns, gold.expand_as(columns))
    torch.autograd.backward([logits], [gradient.to(logits.dtype)])
    return torch.stack([(1 - smoothing) * likelihood + smoothing * uniform, likelihood])


def _at_least_float32(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


@torch.no_grad()
def likelihood(model: Predictor, output: Output, batch: Batch) -> Loss:
    """The plain loss of a batch, for validation."""
    hidden = output.hidden[batch.target_mask]  # (N, D)
    targets = batch.target_out[batch.target_mask]  # (N,)
    total = torch.zeros((), dtype=torch.float64, device=hidden.device)
    rows = chunk_rows(model.vocabulary_size)
    for start in range(0, len(targets), rows):
        part = slice(start, start + rows)
        logits = model.project(hidden[part])  # (rows, V)
        total += torch.nn.functional.cross_entropy(logits.float(), targets[part], reduction="sum").double()
    return Loss(float(total), float(total), len(targets))


@torch.no_grad()
def predictions(model: Predictor, hidden: Tensor) -> Tensor:
    """The most probable word (B, T) at each position of hidden (B, T, D)."""
    flat = hidden.flatten(0, 1)
    rows = chunk_rows(model.vocabulary_size)
    words = [model.project(flat[start : start + rows]).argmax(-1) for start in range(0, len(flat), rows)]
    return torch.cat(words).view(hidden.shape[:2])
