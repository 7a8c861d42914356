"""Park et al. 2018: *BAM: bottleneck attention module*.

    F'     = F + F ⊗ M(F)                                                           (eq. 1)
    M(F)   = σ(M_c(F) + M_s(F))           both broadcast to C x H x W               (eq. 2)
    M_c(F) = BN(W₁ δ(W₀ AvgPool(F) + b₀) + b₁),     W₀ has C/r rows                 (eq. 3)
    M_s(F) = BN(f₃ δ(f₂ δ(f₁ δ(f₀ F))))   1x1 to C/r channels, two 3x3 with         (eq. 4)
                                          dilation d, 1x1 to a single channel

Choices where the paper is silent:

* δ: equations 3 and 4 print no activation. We put a ReLU after each hidden layer: without it the layers collapse into
  one linear layer, and the paper calls the channel branch a multi-layer perceptron.
* All convolutions have a bias, like the perceptron.
* The hidden layers have at least `min_hidden` channels, 6 by default, even if C/r is smaller (in ResNet 50, C/r is 16
  to 64). A single hidden channel with a ReLU is often dead, and M_s then constant: with C = r = 16 in more than a third
  of 300 random initialisations; with 4 channels in one, with 6 in none.

`variant = "released"` follows the authors' later code: BN and ReLU after each hidden layer, none at the end of a
branch, and M(F) = σ(M_c(F) · M_s(F)), the *product*.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.nn.image.attention_map import AttentionModule, Gates, Join

Variant = Literal["paper", "released"]


class BAM(AttentionModule):
    """Channel and spatial attention in parallel, for a bottleneck of a network: `BAM(channels=64)`."""

    def __init__(
        self, channels: int, reduction: int = 16, dilation: int = 4, variant: Variant = "paper", min_hidden: int = 6
    ) -> None:
        super().__init__()
        if variant not in get_args(Variant):
            raise ConfigError(f"variant = {variant!r}: BAM is 'paper' or 'released'.")
        hidden = max(min_hidden, channels // reduction)
        self.variant = variant
        released = variant == "released"
        self.channel = nn.Sequential(
            nn.Linear(channels, hidden),
            *_between(nn.BatchNorm1d(hidden), released),
            nn.Linear(hidden, channels),
            *([] if released else [nn.BatchNorm1d(channels)]),
        )
        self.spatial = nn.Sequential(
            nn.Conv2d(channels, hidden, 1),
            *_between(nn.BatchNorm2d(hidden), released),
            nn.Conv2d(hidden, hidden, 3, padding=dilation, dilation=dilation),
            *_between(nn.BatchNorm2d(hidden), released),
            nn.Conv2d(hidden, hidden, 3, padding=dilation, dilation=dilation),
            *_between(nn.BatchNorm2d(hidden), released),
            nn.Conv2d(hidden, 1, 1),
            *([] if released else [nn.BatchNorm2d(1)]),
        )

    def look(self, features: Tensor) -> Gates:
        """F' with M(F); `channel` is M_c (B, C) and `spatial` M_s (B, H, W), both before σ."""
        channel = self.channel(features.mean((2, 3)))  # (B, C)
        spatial = self.spatial(features)  # (B, 1, H, W)
        each = channel[:, :, None, None]
        joined = each * spatial if self.variant == "released" else each + spatial  # (B, C, H, W)
        weights = torch.sigmoid(joined)
        after = torch.addcmul(features, features, weights)
        join: Join = "sigmoid(product)" if self.variant == "released" else "sigmoid(sum)"
        return Gates(features, after, weights, channel, spatial.squeeze(1), join)


def _between(norm: nn.Module, released: bool) -> list[nn.Module]:
    """Normalisation and activation after a hidden layer."""
    return [norm, nn.ReLU()] if released else [nn.ReLU()]
