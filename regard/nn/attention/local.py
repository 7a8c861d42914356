"""Local attention windows (Luong 2015, section 3.2).

Positions run 1…S; S is the true length of each sentence with EOS, without padding. With the location score, S is at
most `max_source_positions`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.config.models import WindowName


@dataclass(frozen=True)
class Focus:
    """The window of each query."""

    centre: Tensor  # (B, T) p_t, counted from 1
    inside: Tensor  # (B, T, S) True inside the window
    gaussian: Tensor | None = None  # (B, T, S) factor of the weights


class Window(nn.Module, ABC):
    """A window of D positions on either side of a centre p_t."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    @abstractmethod
    def forward(self, query: Tensor, steps: Sequence[int], lengths: Tensor, source_length: int) -> Focus:
        """The window of queries (B, T, Dq) at T target steps, from 0, in sentences of true `lengths` (B,)."""

    def distances(self, centre: Tensor, source_length: int) -> Tensor:
        """s − p for s in 1…S: (B, T, S)."""
        positions = torch.arange(1, source_length + 1, device=centre.device, dtype=centre.dtype)
        return positions - centre.unsqueeze(-1)


class Monotonic(Window):
    """local-m: p_t = min(t, S); the window is never empty."""

    def forward(self, query: Tensor, steps: Sequence[int], lengths: Tensor, source_length: int) -> Focus:
        t = torch.tensor(steps, device=query.device, dtype=_exact(query)) + 1  # (T,)
        centre = torch.minimum(t, lengths.to(t.dtype).unsqueeze(1))  # (B, T)
        return Focus(centre, self.distances(centre, source_length).abs() <= self.width)


class Predictive(Window):
    """local-p: p_t = S · sigmoid(vᵀ tanh(W h_t)), weights times exp(−(s − p_t)² / 2σ²), σ = D/2, not renormalised."""

    def __init__(self, width: int, query_size: int) -> None:
        super().__init__(width)
        self.weight = nn.Linear(query_size, query_size, bias=False)  # W
        self.v = nn.Linear(query_size, 1, bias=False)

    def forward(self, query: Tensor, steps: Sequence[int], lengths: Tensor, source_length: int) -> Focus:
        share = torch.sigmoid(self.v(torch.tanh(self.weight(query)))).squeeze(-1)  # (B, T)
        centre = lengths.to(_exact(query)).unsqueeze(1) * share
        distances = self.distances(centre, source_length)
        sigma = self.width / 2
        gaussian = torch.exp(-distances.square() / (2 * sigma**2)).to(query.dtype)
        return Focus(centre, distances.abs() <= self.width, gaussian)


def _exact(query: Tensor) -> torch.dtype:
    """At least float32, for exact positions: bfloat16 rounds 257 to 256."""
    return torch.promote_types(query.dtype, torch.float32)


def make_window(name: WindowName, width: int, query_size: int) -> Window | None:
    """The window of a recipe; None is global attention."""
    match name:
        case "global":
            return None
        case "local-m":
            return Monotonic(width)
        case "local-p":
            return Predictive(width, query_size)
