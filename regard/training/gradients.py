"""The sum of the gradients of all ranks, in one flat buffer.

Processes of one machine sum through memory that they share: each copies its gradient there, adds up one part of all
gradients, and copies the sum back. That is two to three times as fast as gloo's all-reduce over the loopback device.
Between machines, gloo or NCCL sums the buffer.
"""

from __future__ import annotations

import mmap
import os
import secrets
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

SHARED = Path("/dev/shm")


class Gradients:
    """The flat buffer of one rank: gradients, running averages, and which parameters have a gradient.

    A parameter without a gradient on any rank keeps none, so that the optimizer skips it. Running averages of batch
    normalisation are averaged over the ranks.
    """

    def __init__(self, model: nn.Module, size: int, device: torch.device) -> None:
        self.size = size
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.averages = [
            buffer
            for module in model.modules()
            if isinstance(module, _BatchNorm)
            for buffer in (module.running_mean, module.running_var)
            if buffer is not None
        ]
        sizes = [tensor.numel() for tensor in (*self.parameters, *self.averages)]
        self.flat = torch.zeros(sum(sizes) + len(self.parameters), device=device)
        *parts, self.used = torch.split(self.flat, [*sizes, len(self.parameters)])
        self.views = [
            part.as_strided(tensor.shape, tensor.stride())
            for part, tensor in zip(parts, [*self.parameters, *self.averages], strict=True)
        ]
        self.shared: SharedMemory | None = None

    def share_memory(self, rank: int) -> None:
        """Use shared memory for the exchange if all ranks can; every rank calls this."""
        self.shared = _shared_memory(self.flat, rank, self.size)

    @torch.no_grad()
    def collect(self) -> None:
        """Copy the gradients into the buffer."""
        gradients = self.views[: len(self.parameters)]
        for view, parameter in zip(gradients, self.parameters, strict=True):
            if parameter.grad is None:
                view.zero_()
            else:
                view.copy_(parameter.grad)
        for view, average in zip(self.views[len(self.parameters) :], self.averages, strict=True):
            torch.div(average, self.size, out=view)
        self.used.copy_(torch.tensor([float(parameter.grad is not None) for parameter in self.parameters]))
        if self.shared is not None:
            self.shared.put(self.flat)

    @torch.no_grad()
    def reduce(self) -> None:
        """Sum the buffers of all ranks, which have all collected; the sum becomes each parameter's gradient."""
        if self.shared is not None:
            self.shared.reduce(self.flat)
        else:
            dist.all_reduce(self.flat)
        used = self.used.tolist()
        for view, parameter, ranks in zip(self.views, self.parameters, used, strict=False):
            parameter.grad = view if ranks else None
        for view, average in zip(self.views[len(self.parameters) :], self.averages, strict=True):
            average.copy_(view)


class SharedMemory:
    """A buffer for each rank of one machine, and one for their sum."""

    def __init__(self, memory: Tensor, rank: int) -> None:
        self.buffers, self.sum = memory[:-1], memory[-1]
        self.rank = rank
        size, length = self.buffers.shape
        self.part = slice(rank * length // size, (rank + 1) * length // size)

    def put(self, flat: Tensor) -> None:
        """Copy this rank's buffer. The previous sum is done: every rank waited for it."""
        self.buffers[self.rank].copy_(flat)

    def reduce(self, flat: Tensor) -> None:
        """Add up one part, in the order of the ranks, and copy the whole sum."""
        torch.sum(self.buffers[:, self.part], 0, out=self.sum[self.part])
        dist.barrier()
        flat.copy_(self.sum)


def _shared_memory(flat: Tensor, rank: int, size: int) -> SharedMemory | None:
    """Shared memory, if all ranks run on one machine that has enough of it; otherwise None, on every rank."""
    if flat.device.type != "cpu" or os.environ.get("LOCAL_WORLD_SIZE") != str(size):
        return None
    name = torch.tensor([secrets.randbits(62)])
    dist.broadcast(name, 0)
    path = SHARED / f"regard-{int(name):x}"
    length = (size + 1) * flat.numel() * flat.element_size()
    done = torch.tensor([rank != 0 or _reserve(path, length)], dtype=torch.int)
    dist.all_reduce(done)
    if int(done) < size:
        return None
    try:
        with path.open("r+b") as file:
            memory = torch.frombuffer(mmap.mmap(file.fileno(), length), dtype=flat.dtype)
        dist.barrier()
    finally:
        if rank == 0:
            path.unlink()  # the memory stays until the last rank ends, however it ends
    return SharedMemory(memory.view(size + 1, -1), rank)


def _reserve(path: Path, length: int) -> bool:
    """Create a file of this length for this user alone; containers often have little shared memory."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError:
        return False
    try:
        os.posix_fallocate(descriptor, 0, length)
    except OSError:
        path.unlink()
        return False
    finally:
        os.close(descriptor)
    return True
