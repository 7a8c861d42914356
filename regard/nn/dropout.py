"""Inverted dropout with cheap random numbers: torch draws one per unit, here one of 64 bits serves four units.

On a CPU the random numbers are most of the cost of dropout. 16 bits per unit resolve the rate to 1 / 65,536.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

LEVELS = 1 << 16


def dropout(inputs: Tensor, rate: float, training: bool) -> Tensor:
    """Inverted dropout at the rate `rate`, in training only."""
    if not training or rate == 0:
        return inputs
    return inputs * noise(inputs, rate) if inputs.device.type == "cpu" else functional.dropout(inputs, rate)


def add_dropped(total: Tensor, inputs: Tensor, rate: float, training: bool) -> Tensor:
    """total + dropout(inputs), in one pass."""
    if not training or rate == 0 or inputs.device.type != "cpu":
        return total + functional.dropout(inputs, rate, training)
    return torch.addcmul(total, inputs, noise(inputs, rate))


@torch.no_grad()
def noise(like: Tensor, rate: float) -> Tensor:
    """The dropout mask, shaped like `like`: 0 with probability `rate`, 1 / (1 - rate) otherwise."""
    dropped = min(round(rate * LEVELS), LEVELS - 1)
    words = torch.empty((like.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)  # all 64 bits are random
    draws = words.view(torch.int16)[: like.numel()].view(like.shape)
    kept = torch.ge(draws, dropped - LEVELS // 2, out=torch.empty_like(like, memory_format=torch.contiguous_format))
    return kept.mul_(LEVELS / (LEVELS - dropped))
