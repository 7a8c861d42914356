"""Keys and values of the words written so far: buffers that only grow at their end, so that states can share them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

FIRST_CAPACITY = 16  # steps


@dataclass(frozen=True)
class Cache:
    """The first `length` steps of some buffers. Later steps may be there already: they belong to later states."""

    buffers: tuple[Tensor, ...]  # of each layer, keys and values: (2, N, H, capacity, K)
    length: int
    written: list[int]  # one number, how many steps of the buffers are taken; shared by all who share the buffers

    @staticmethod
    def empty(layers: int, rows: int, heads: int, head_size: int, like: Tensor) -> Cache:
        """No step yet."""
        shape = (2, rows, heads, FIRST_CAPACITY, head_size)
        return Cache(tuple(like.new_empty(shape) for _ in range(layers)), 0, [0])

    @property
    def capacity(self) -> int:
        """The steps that the buffers have room for."""
        return self.buffers[0].size(3)

    def filled(self) -> tuple[Tensor, ...]:
        """Of each layer, (2, N, H, length, K)."""
        return tuple(buffer[..., : self.length, :] for buffer in self.buffers)

    def grow(self) -> Cache:
        """One step longer, to be filled by `write`: in the same buffers, unless they are full or another state went on.

        Autograd keeps what was read, so that with gradients nothing may be written twice: then the buffers are new.
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
        """Put keys and values (N, H, 1, K) at a layer's last step; return all its steps, (N, H, length, K) each."""
        buffer = self.buffers[layer]
        buffer[0, :, :, self.length - 1 : self.length] = keys
        buffer[1, :, :, self.length - 1 : self.length] = values
        return buffer[0, :, :, : self.length], buffer[1, :, :, : self.length]

    def select(self, index: Tensor) -> Cache:
        """The cache of the rows `index`; copied, unless all stay where they are."""
        if is_identity(index, self.buffers[0].size(1)):
            return self
        # With the room that is still empty: one copy of it all is quicker than two of what is filled.
        return Cache(tuple(buffer.index_select(1, index) for buffer in self.buffers), self.length, [self.length])


def is_identity(index: Tensor, rows: int) -> bool:
    """Whether `index` (M,) leaves all of so many rows where they are."""
    return index.size(0) == rows and bool(torch.equal(index, torch.arange(rows, device=index.device)))
