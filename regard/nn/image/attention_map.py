"""Records of image attention modules.

Every module of `nn/image` has two entry points with the same result: `module(features)` returns the output features,
`module.look(features)` returns them with the attention weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

Join = Literal["sigmoid(sum)", "sigmoid(product)", "product"]
"""How channel and spatial attention give the weights."""


@dataclass(frozen=True)
class Gates:
    """Record of a gating module (BAM, CBAM, squeeze-and-excitation): a weight for every element of the map."""

    before: Tensor  # (B, C, H, W)
    after: Tensor  # (B, C, H, W)
    weights: Tensor  # (B, C, H, W)
    channel: Tensor | None = None  # (B, C) channel attention
    spatial: Tensor | None = None  # (B, H, W) spatial attention
    join: Join | None = None  # how `weights` come of both, broadcast to C x H x W


@dataclass(frozen=True)
class Cells:
    """Record of self-attention over the cells of a map, numbered row by row."""

    before: Tensor  # (B, C, H, W)
    after: Tensor  # (B, C, H, W)
    weights: Tensor  # (B, heads, T, S), each row sums to 1
    grid: tuple[int, int]  # H, W
    class_token: bool = False  # whether position 0 is the class token; then T = S = 1 + H·W


Seen = Gates | Cells


class AttentionModule(nn.Module, ABC):
    """An attention module: features (B, C, H, W) to features of the same shape."""

    @abstractmethod
    def look(self, features: Tensor) -> Seen:
        """Output features with the attention weights."""

    def forward(self, features: Tensor) -> Tensor:
        """Output features."""
        return self.look(features).after
