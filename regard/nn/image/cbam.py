"""Woo et al. 2018: *CBAM: convolutional block attention module*, the successor of BAM: channel, then spatial attention.

    F'      = M_c(F) ⊗ F,     F'' = M_s(F') ⊗ F'                                               (eq. 1)
    M_c(F)  = σ(W₁ δ(W₀ AvgPool(F)) + W₁ δ(W₀ MaxPool(F))),   δ ReLU, W₀ has C/r rows          (eq. 2)
    M_s(F') = σ(f([mean over channels of F'; maximum over channels of F'])),   f a 7x7 convolution   (eq. 3)

Departures from the paper: the perceptron and f have biases, as in the authors' code. Their code also has a batch
normalisation after f; the paper and we do not. If C < r, there is one hidden channel.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.nn.image.attention_map import AttentionModule, Gates


class CBAM(AttentionModule):
    """Channel attention, then spatial attention: `CBAM(channels=64)`."""

    def __init__(self, channels: int, reduction: int = 16, kernel_size: int = 7) -> None:
        super().__init__()
        hidden = max(1, channels // reduction)
        self.channel = nn.Sequential(nn.Linear(channels, hidden), nn.ReLU(), nn.Linear(hidden, channels))
        self.spatial = nn.Conv2d(2, 1, kernel_size, padding=kernel_size // 2)

    def look(self, features: Tensor) -> Gates:
        """F'' with the product of both gates; `channel` is M_c (B, C) and `spatial` M_s (B, H, W)."""
        pooled = self.channel(features.mean((2, 3))) + self.channel(features.amax((2, 3)))
        channel = torch.sigmoid(pooled)  # (B, C)
        chosen = features * channel[:, :, None, None]
        summary = torch.stack([chosen.mean(1), chosen.amax(1)], 1)  # (B, 2, H, W)
        spatial = torch.sigmoid(self.spatial(summary))  # (B, 1, H, W)
        weights = channel[:, :, None, None] * spatial
        return Gates(features, chosen * spatial, weights, channel, spatial.squeeze(1), "product")
