"""Dosovitskiy et al. 2021: *An image is worth 16x16 words* (the Vision Transformer).

    z₀  = [class; x₁ E; …; x_N E] + E_pos                    patches xᵢ, learned class token and positions  (eq. 1)
    z'ₗ = MSA(LN(zₗ₋₁)) + zₗ₋₁,   zₗ = MLP(LN(z'ₗ)) + z'ₗ                                               (eq. 2, 3)
    y   = LN(z_L⁰)                                           the class token of the last layer            (eq. 4)

MSA is the multi-head attention of `nn/attention`; the MLP has one hidden layer with GELU. The default sizes are for
small images.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.config.classification import ViTSettings
from regard.errors import ConfigError
from regard.nn.attention.multihead import MultiHead
from regard.nn.image.attention_map import Cells, Seen
from regard.nn.ragged import Rows


class ViT(nn.Module):
    """Images (B, C, H, W), already normalised, to features (B, D)."""

    def __init__(self, settings: ViTSettings, image_channels: int, height: int, width: int) -> None:
        super().__init__()
        patch, size = settings.patch_size, settings.hidden_size
        if height % patch or width % patch:
            raise ConfigError(
                f"model.patch_size = {patch}: images of {height} x {width} pixels do not divide into such patches: "
                "choose a divisor of both, or set images.size."
            )
        self.grid = height // patch, width // patch
        self.patches = nn.Conv2d(image_channels, size, patch, patch)  # E, as a convolution with stride = kernel size
        self.class_token = nn.Parameter(torch.zeros(1, 1, size))
        self.positions = nn.Parameter(torch.empty(1, 1 + self.grid[0] * self.grid[1], size))
        nn.init.trunc_normal_(self.positions, std=0.02)
        self.dropout = nn.Dropout(settings.dropout)
        self.layers = nn.ModuleList(Layer(settings, number) for number in range(settings.layers))
        self.norm = nn.LayerNorm(size)
        self.size = size

    def forward(self, images: Tensor, seen: list[Seen] | None = None) -> Tensor:
        """y; appends the record of each layer's attention to `seen`."""
        patches = self.patches(images).flatten(2).transpose(1, 2)  # (B, N, D)
        tokens = torch.cat([self.class_token.expand(len(patches), -1, -1), patches], 1)  # (B, 1 + N, D)
        tokens = self.dropout(tokens + self.positions)
        for layer in self.layers:
            before = tokens
            tokens, weights = layer(before, look=seen is not None)
            if seen is not None:
                seen.append(Cells(self._map(before), self._map(tokens), weights, self.grid, class_token=True))
        features: Tensor = self.norm(tokens[:, 0])
        return features

    def _map(self, tokens: Tensor) -> Tensor:
        """The patches of tokens (B, 1 + N, D) as a map (B, D, H, W)."""
        return tokens[:, 1:].transpose(1, 2).reshape(len(tokens), -1, *self.grid)


class Layer(nn.Module):
    """Equations 2 and 3."""

    def __init__(self, settings: ViTSettings, number: int) -> None:
        super().__init__()
        size = settings.hidden_size
        self.attention_norm = nn.LayerNorm(size)
        self.attention = MultiHead(size, settings.heads, "encoder-self", number, bias=True)
        self.mlp_norm = nn.LayerNorm(size)
        self.inner = nn.Linear(size, settings.feedforward_size)
        self.outer = nn.Linear(settings.feedforward_size, size)
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, tokens: Tensor, look: bool = False) -> tuple[Tensor, Tensor]:
        """Output tokens (B, T, D) and, with `look`, the weights (B, heads, T, T)."""
        rows = Rows(*tokens.shape[:2])
        heads = self.attention.project(self.attention_norm(tokens), rows)
        if look:
            seen = self.attention.look(heads, None, range(tokens.size(1)))
            contexts, weights = seen.contexts, seen.weights
        else:
            contexts, weights = self.attention.fast(heads), tokens.new_empty(0)
        tokens = tokens + self.dropout(self.attention.join(contexts, rows).view_as(tokens))
        hidden = self.dropout(functional.gelu(self.inner(self.mlp_norm(tokens))))
        return tokens + self.dropout(self.outer(hidden)), weights
