"""Compact weights: int8 with one float32 scale per row, a quarter of the size; expanded to float32 when read.

A matrix W (rows, …) is stored as round(W / s), s = max |row| / 127, under its name, and s under `NAME.int8_scale`. A
weight thus differs from the original by at most s / 2. Vectors (biases, normalisation) stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from regard.errors import ModelFolderError
from regard.storage.arrays import INT8_SCALE
from regard.storage.reading import RESTORE

LARGEST = 127


def compact_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with every matrix as int8 and its scales."""
    made: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.ndim < 2 or not tensor.is_floating_point() or not tensor.numel():
            made[name] = tensor
            continue
        rows = tensor.detach().float().reshape(tensor.size(0), -1)
        scale = rows.abs().amax(1) / LARGEST
        steps = rows / torch.where(scale > 0, scale, 1.0)[:, None]
        made[name] = steps.round().clamp(-LARGEST, LARGEST).to(torch.int8).reshape(tensor.shape)
        made[name + INT8_SCALE] = scale
    return made


def expand(name: str, stored: Tensor, scale: Tensor, path: Path) -> Tensor:
    """The float32 matrix of int8 rows and their scales; raises for scales that no such file has."""
    fits = stored.dtype is torch.int8 and stored.ndim >= 2 and scale.shape == stored.shape[:1]
    if not fits or not scale.is_floating_point():
        raise ModelFolderError(f"{path}: the scales of {name} do not fit its weights: {RESTORE}.")
    scale = scale.float()
    if not bool((scale >= 0).all()) or not bool(torch.isfinite(scale * (LARGEST + 1)).all()):
        raise ModelFolderError(f"{path}: the scales of {name} are negative or not finite: {RESTORE}.")
    return stored.float() * scale.reshape(-1, *[1] * (stored.ndim - 1))
