"""The memory that a decoder attends to."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from regard.nn.attention.trace import Attention


@dataclass(frozen=True)
class Memory:
    """Encoder output: prepared keys and values over S positions, and the summary that initialises the decoder."""

    mask: Tensor  # (B, S)
    lengths: Tensor  # (B,) true lengths, EOS included
    summary: tuple[Tensor, ...]  # each (B, ...)
    keys: Tensor | None = None  # (B, S, ...) prepared for the score; None without attention
    values: Tensor | None = None  # (B, S, ...)
    attention: Attention = field(default_factory=dict)  # encoder self-attention, if recorded
    grid: tuple[int, int] | None = None  # rows and columns if the S positions are image cells, row by row

    @property
    def sentences(self) -> int:
        """B."""
        return self.mask.size(0)

    def select(self, index: Tensor) -> Memory:
        """The memory of the sentences `index` (M,), in that order."""

        def rows(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor.index_select(0, index)

        return Memory(
            mask=self.mask.index_select(0, index),
            lengths=self.lengths.index_select(0, index),
            summary=tuple(tensor.index_select(0, index) for tensor in self.summary),
            keys=rows(self.keys),
            values=rows(self.values),
            attention={kind: weights.index_select(0, index) for kind, weights in self.attention.items()},
            grid=self.grid,
        )
