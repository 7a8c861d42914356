"""Label-smoothed cross-entropy over target tokens without padding, in chunks of logits.

With V words, smoothing ε and gold word y, the loss of one token is

    (1 - ε) · (-log p(y))  +  ε · mean over the vocabulary of (-log p(v)),

which is torch's `cross_entropy(label_smoothing=ε)`. Its gradient over the logits is known in closed form,
p - (1 - ε)·onehot(y) - ε/V, so each chunk of rows is projected, scored and backpropagated before the next one.
Padding is dropped before the projection.

R-Drop (Liang et al. 2021) predicts each token under two dropout masks, p₁ and p₂, and adds their divergence. With the
losses L₁ and L₂ above and the weight α, half of the paper's equation 4 is the loss of one token:

    ½ (L₁ + L₂)  +  α/4 · (KL(p₁ ‖ p₂) + KL(p₂ ‖ p₁)).
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


def backward(
    model: Predictor, output: Output, batch: Batch, *, smoothing: float, total_tokens: int, r_drop: float = 0.0
) -> Loss:
    """Add the gradient of (Σ loss over the batch) / total_tokens to every parameter, and return the sums.

    `total_tokens` counts all batches of the update (gradient accumulation weights batches by tokens). The model's
    `extra_loss` is per token, with the same weight. With `r_drop`, output and batch hold the rows twice.
    """
    copies = 2 if r_drop else 1
    hidden = output.hidden[batch.target_mask]  # (copies·N, D)
    targets = batch.target_out[batch.target_mask].view(copies, -1)  # (copies, N)
    by_copy, gradient = hidden.detach().view(copies, -1, hidden.size(1)), torch.empty_like(hidden)
    criterion = Criterion(smoothing, r_drop, copies * total_tokens)
    sums = torch.zeros(2, dtype=torch.float64, device=hidden.device)
    rows = chunk_rows(model.vocabulary_size) // copies
    for start in range(0, targets.size(1), rows):
        part = slice(start, start + rows)
        leaf = by_copy[:, part].flatten(0, 1).requires_grad_()
        logits = model.project(leaf)  # (copies·rows, V)
        sums += _sums_and_gradient(logits, targets[:, part].flatten(), criterion)
        assert leaf.grad is not None
        gradient.view_as(by_copy)[:, part] = leaf.grad.view(copies, -1, hidden.size(1))
    extra, tokens = output.extra_loss, targets.size(1)
    smoothed, likelihood = (sums / copies).tolist()
    if extra is None:
        torch.autograd.backward([hidden], [gradient])
    else:
        torch.autograd.backward([hidden, extra], [gradient, torch.full_like(extra, tokens / total_tokens)])
        smoothed += float(extra.detach()) * tokens
    return Loss(smoothed, likelihood, tokens)


@dataclass(frozen=True, slots=True)
class Criterion:
    """The loss of a row of logits."""

    smoothing: float
    r_drop: float
    rows: int  # in the whole update, both copies of R-Drop included


def _sums_and_gradient(logits: Tensor, targets: Tensor, criterion: Criterion) -> Tensor:
    """Backpropagate from the logits (rows, V); return the sums (2,) of smoothed and plain loss.

    A chunk is several megabytes, so memory passes matter: one exponential, then everything in place.
    """
    smoothing, total = criterion.smoothing, criterion.rows
    columns = targets.unsqueeze(1)
    with torch.no_grad():
        probabilities = torch.softmax(logits, -1, dtype=_at_least_float32(logits.dtype))
        # log Σ exp(logits), from the most probable word: its probability is at least 1/V, so the logarithm is finite
        normaliser = logits.amax(1) - probabilities.amax(1).log()  # (rows,)
        likelihood = (normaliser - logits.gather(1, columns).squeeze(1)).sum(dtype=torch.float64)
        uniform = (normaliser - logits.mean(1, dtype=probabilities.dtype)).sum(dtype=torch.float64)
        smoothed = (1 - smoothing) * likelihood + smoothing * uniform
        divergence = None
        if criterion.r_drop:
            divergence, apart = divergence_and_gradient(logits - normaliser.unsqueeze(1), probabilities)
            smoothed += criterion.r_drop / 2 * apart
        shared = probabilities.new_tensor(-smoothing / (logits.size(1) * total))
        gradient = torch.add(shared, probabilities, alpha=1 / total, out=probabilities)
        gold = gradient.new_full((1, 1), (smoothing - 1) / total)
        gradient.scatter_add_(1, columns, gold.expand_as(columns))
        if divergence is not None:
            gradient.add_(divergence, alpha=criterion.r_drop / 2 / total)
    torch.autograd.backward([logits], [gradient.to(logits.dtype)])
    return torch.stack([smoothed, likelihood])


def divergence_and_gradient(log_probabilities: Tensor, probabilities: Tensor) -> tuple[Tensor, Tensor]:
    """R-Drop's divergence of two halves of rows: its gradient over the logits (rows, V), and its sum.

    With d = log p₁ - log p₂, KL(p₁ ‖ p₂) + KL(p₂ ‖ p₁) = Σ p₁ d - Σ p₂ d. Its gradient over the logits of p₁ is
    p₁ (d - KL(p₁ ‖ p₂)) + p₁ - p₂, and over those of p₂ the same with 1 and 2 exchanged.
    """
    first, second = probabilities.chunk(2)
    log_first, log_second = log_probabilities.chunk(2)
    ratio = log_first - log_second  # (rows / 2, V)
    forth, back = (first * ratio).sum(1, keepdim=True), -(second * ratio).sum(1, keepdim=True)
    gradient = torch.cat([first * (ratio - forth + 1) - second, second * (1 - ratio - back) - first])
    return gradient, (forth + back).sum(dtype=torch.float64)


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
