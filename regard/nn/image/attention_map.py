"""What an attention module did to a feature map; kept when somebody looks.

Every module of `nn/image` has two doors with the same numbers: `module(features)` gives the features that go on,
and `module.look(features)` gives them with the weights that made them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor, nn


@dataclass(frozen=True)
class Gates:
    """A module that weighs every number of the map: BAM, CBAM, squeeze-and-excitation."""

    before: Tensor  # (B, C, H, W)
    after: Tensor  # (B, C, H, W)
    weights: Tensor  # (B, C, H, W) what each number was weighed by
    channel: Tensor | None = None  # (B, C) the channels' part in it
    spatial: Tensor | None = None  # (B, H, W) the places' part in it


@dataclass(frozen=True)
class Cells:
    """A module in which every cell of the map looks at all cells; cells are numbered row by row."""

    before: Tensor  # (B, C, H, W)
    after: Tensor  # (B, C, H, W)
    weights: Tensor  # (B, heads, T, S), each row sums to 1
    grid: tuple[int, int]  # H, W
    class_token: bool = False  # whether position 0 is no cell but the class token, so that T = S = 1 + H·W


Seen = Gates | Cells


class AttentionModule(nn.Module, ABC):
    """Features (B, C, H, W) to features of the same shape, for any place in a network."""

    @abstractmethod
    def look(self, features: Tensor) -> Seen:
        """The features that go on, with the weights that made them."""

    def forward(self, features: Tensor) -> Tensor:
        """The features that go on."""
        return self.look(features).after
