"""Removes padding from position-wise computation: only attention runs on padded tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


@dataclass(frozen=True)
class Rows:
    """Index of the n real (non-padding) positions of sentences (B, S)."""

    sentences: int
    length: int
    real: Tensor | None = None  # (n,) flat positions in B · S; None: all
    row: Tensor | None = None  # (B · S,) the row of each position; arbitrary at padding
    padding: Tensor | None = None  # flat positions of padding

    @staticmethod
    def of(mask: Tensor) -> Rows:
        """The real positions of a mask (B, S)."""
        sentences, length = mask.shape
        if bool(mask.all()):
            return Rows(sentences, length)
        flat = mask.flatten()
        row = (flat.cumsum(0) - 1).clamp_(min=0)
        return Rows(sentences, length, flat.nonzero().squeeze(1), row, (~flat).nonzero().squeeze(1))

    def take(self, padded: Tensor) -> Tensor:
        """Rows (n, F) of padded (B, S, F), without padding."""
        flat = padded.flatten(0, 1)
        if self.real is None:
            return flat
        rows: Tensor = _Take.apply(flat, self.real, self.row, self.padding)  # type: ignore[no-untyped-call]
        return rows

    def spread(self, rows: Tensor) -> Tensor:
        """Padded (B, S, F) of rows (n, F); arbitrary at padding."""
        if self.real is not None:
            rows = _Spread.apply(rows, self.real, self.row)  # type: ignore[no-untyped-call]
        return rows.view(self.sentences, self.length, -1)


class _Take(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, padded: Tensor, real: Tensor, row: Tensor, padding: Tensor) -> Tensor:
        context.save_for_backward(row, padding)
        return padded.index_select(0, real)

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        row, padding = context.saved_tensors
        return gradient.index_select(0, row).index_fill_(0, padding, 0.0), None, None, None


class _Spread(torch.autograd.Function):
    """Inverse of `_Take`; its backward drops the gradient at padding."""

    @staticmethod
    def forward(context: Any, rows: Tensor, real: Tensor, row: Tensor) -> Tensor:
        context.save_for_backward(real)
        return rows.index_select(0, row)

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (real,) = context.saved_tensors
        return gradient.index_select(0, real), None, None
