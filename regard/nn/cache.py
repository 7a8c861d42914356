"""The key/value cache of decoder self-attention: append-only buffers, shared between states."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

FIRST_CAPACITY = 16  # steps


@dataclass(frozen=True)
class Cache:
    """A view of the first `length` steps of shared buffers; later steps belong to later states."""

    buffers: tuple[Tensor, ...]  # keys and values of each layer: (2, N, H, capacity, K)
    length: int
    written: list[int]  # one mutable number: filled steps of the buffers, shared by every view of them

    @staticmethod
    def empty(layers: int, rows: int, heads: int, head_size: int, like: Tensor) -> Cache:
        """A cache with no steps."""
        shape = (2, rows, heads, FIRST_CAPACITY, head_size)
        return Cache(tuple(like.new_empty(shape) for _ in range(layers)), 0, [0])

    @property
    def capacity(self) -> int:
        """Steps that fit into the buffers."""
        return self.buffers[0].size(3)

    def filled(self) -> tuple[Tensor, ...]:
        """Keys and values of each layer, (2, N, H, length, K)."""
        return tuple(buffer[..., : self.length, :] for buffer in self.buffers)

    def grow(self) -> Cache:
        """The cache one step longer, for `write` to fill; copies the buffers if they are full or the step is taken.

        With gradients it always copies: autograd saves the buffers, so an in-place write would corrupt the backward
        pass.
        """
        has_room = self.length < self.capacity
        if has_room and self.written[0] == self.length and not torch.is_grad_enabled():
            self.written[0] += 1
            return Cache(self.buffers, self.length + 1, self.written)
        two, rows, heads, capacity, size = self.buffers[0].shape
        shape = (two, rows, heads, capacity if has_room else 2 * capacity, size)
        buffers = tuple(buffer.new_empty(shape) for buffer in self.buffers)
        for new, old in zip(buffers, self.filled(), strict=True):
            new[..., : self.length, :] = old
        return Cache(buffers, self.length + 1, [self.length + 1])

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store keys and values (N, H, 1, K) at a layer's last step; return all steps, (N, H, length, K) each."""
        buffer = self.buffers[layer]
        buffer[0, :, :, self.length - 1 : self.length] = keys
        buffer[1, :, :, self.length - 1 : self.length] = values
        return buffer[0, :, :, : self.length], buffer[1, :, :, : self.length]

    def select(self, index: Tensor) -> Cache:
        """The cache of the rows `index`; copied unless `index` is the identity."""
        if is_identity(index, self.buffers[0].size(1)):
            return self
        # Copies the unused capacity too: one copy of the whole buffer is faster than a copy of the filled part and
        # another one when it grows.
        return Cache(tuple(buffer.index_select(1, index) for buffer in self.buffers), self.length, [self.length])


def is_identity(index: Tensor, rows: int) -> bool:
    """Whether `index` (M,) is the identity permutation of `rows` rows."""
    return index.size(0) == rows and bool(torch.equal(index, torch.arange(rows, device=index.device)))
