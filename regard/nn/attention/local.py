"""Which positions may be looked at: the local windows of Luong 2015, section 3.2.

Positions run 1…S, and S is the true length of each sentence with its end token, never the padded one. The location
score reaches only its first `max_source_positions`; in a longer sentence these are the S positions.
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
    """Where each query may look."""

    centre: Tensor  # (B, T) p_t, counted from 1
    inside: Tensor  # (B, T, S) True inside the window
    gaussian: Tensor | None = None  # (B, T, S) what the weights are multiplied by


class Window(nn.Module, ABC):
    """A window of D positions on either side of a centre p_t."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    @abstractmethod
    def forward(self, query: Tensor, steps: Sequence[int], lengths: Tensor, source_length: int) -> Focus:
        """The focus of queries (B, T, Dq) at target steps (T of them, from 0) in sentences of true `lengths` (B,)."""

    def distances(self, centre: Tensor, source_length: int) -> Tensor:
        """s − p for every position s of 1…S: (B, T, S)."""
        positions = torch.arange(1, source_length + 1, device=centre.device, dtype=centre.dtype)
        return positions - centre.unsqueeze(-1)


class Monotonic(Window):
    """local-m: p_t = min(t, S), so that the window is never empty."""

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
    """The type that positions are counted in: bfloat16 would count 256, 256, 258."""
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
