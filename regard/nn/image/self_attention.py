"""Zhang et al. 2019: *Self-attention generative adversarial networks* (SAGAN): self-attention over the cells of a map.

    s_ij = f(xᵢ)ᵀ g(xⱼ),   β_ji = exp(s_ij) / Σᵢ exp(s_ij)      weight of cell i for the query j   (eq. 1)
    oⱼ = v(Σᵢ β_ji h(xᵢ))                                                                       (eq. 2)
    yⱼ = γ oⱼ + xⱼ,   γ starts at 0                                                             (eq. 3)

f, g and h are 1x1 convolutions to C/8 channels, v one back to C, all without bias; the dot product is not scaled.
g gives the queries, f the keys, h the values. With the initial γ = 0 the module is the identity.

Departures from the paper: no spectral normalisation, which stabilises GAN training. If C < 8, there is one channel.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.nn.image.attention_map import AttentionModule, Cells


class SelfAttention2d(AttentionModule):
    """Self-attention over the cells of a feature map: `SelfAttention2d(channels=64)`."""

    def __init__(self, channels: int, reduction: int = 8) -> None:
        super().__init__()
        hidden = max(1, channels // reduction)
        self.key = nn.Conv2d(channels, hidden, 1, bias=False)  # f
        self.query = nn.Conv2d(channels, hidden, 1, bias=False)  # g
        self.value = nn.Conv2d(channels, hidden, 1, bias=False)  # h
        self.output = nn.Conv2d(hidden, channels, 1, bias=False)  # v
        self.gamma = nn.Parameter(torch.zeros(()))

    def look(self, features: Tensor) -> Cells:
        """y with β: row j, column i."""
        query, key, value = self._cells(features)
        weights = torch.softmax(query @ key.transpose(1, 2), -1)  # (B, H·W, H·W)
        after = self._finish(features, weights @ value)
        return Cells(features, after, weights.unsqueeze(1), (features.size(2), features.size(3)))

    def forward(self, features: Tensor) -> Tensor:
        """y, by torch's fused kernel."""
        attended = functional.scaled_dot_product_attention(*self._cells(features), scale=1.0)
        return self._finish(features, attended)

    def _cells(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value of each cell, (B, H·W, C/8)."""
        query, key, value = (part(features).flatten(2).transpose(1, 2) for part in (self.query, self.key, self.value))
        return query, key, value

    def _finish(self, features: Tensor, attended: Tensor) -> Tensor:
        """y of Σᵢ β_ji h(xᵢ) (B, H·W, C/8)."""
        height, width = features.shape[2:]
        spread = attended.transpose(1, 2).reshape(len(attended), -1, height, width)  # (B, C/8, H, W)
        return torch.addcmul(features, self.gamma, self.output(spread))
