"""Hu et al. 2018: *Squeeze-and-excitation networks*: channel attention only.

    z_c = mean over cells of u_c,      s = σ(W₂ δ(W₁ z)),     x̃_c = s_c u_c                    (eq. 2 to 4)

δ is ReLU, W₁ has C/r rows. Departures from the paper: both layers have biases. If C < r, there is one hidden channel.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.nn.image.attention_map import AttentionModule, Gates


class SqueezeExcitation(AttentionModule):
    """Channel attention: `SqueezeExcitation(channels=64)`."""

    def __init__(self, channels: int, reduction: int = 16) -> None:
        super().__init__()
        hidden = max(1, channels // reduction)
        self.channel = nn.Sequential(nn.Linear(channels, hidden), nn.ReLU(), nn.Linear(hidden, channels))

    def look(self, features: Tensor) -> Gates:
        """x̃ with s (B, C)."""
        channel = torch.sigmoid(self.channel(features.mean((2, 3))))
        weights = channel[:, :, None, None].expand_as(features)
        return Gates(features, features * channel[:, :, None, None], weights, channel)
