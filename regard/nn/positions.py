"""Sinusoidal position encodings (Vaswani et al. 2017, section 3.5)."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor


@lru_cache(maxsize=16)
def position_table(length: int, size: int, layout: str, dtype: torch.dtype, device: torch.device) -> Tensor:
    """PE (length, D): sines and cosines, interleaved or in halves."""
    with torch.inference_mode(False):  # the table is cached and may be used in training later
        exponents = torch.arange(0, size, 2, dtype=torch.float64, device=device) / size
        angles = torch.outer(torch.arange(length, dtype=torch.float64, device=device), 10000.0**-exponents)
        pairs = torch.stack([angles.sin(), angles.cos()], 2 if layout == "interleaved" else 1)
        return pairs.flatten(1).to(dtype)


def power_of_two(length: int) -> int:
    """The next power of two: few distinct table lengths, so the cache is hit."""
    return max(64, 1 << (length - 1).bit_length())
