"""Data-parallel training through torch.distributed: `torchrun`, or the workers that `launch.py` starts.

Every rank is a process with the whole model and a share of each batch.

* The batches do not depend on the number of ranks: rank r of n takes the rows r, r + n, r + 2n, … of every batch.
* A gradient is a sum over tokens, divided by the tokens of the whole update. The sum over the ranks is therefore that
  of one process with the whole batch. It is exchanged once per update, after accumulation.
* All ranks keep the same TrainingState, and decide the same. What depends on the clock is rank 0's: the seconds of an
  update, and whether a checkpoint is due.
* Rank 0, the lead, alone reads the user's data, writes files and reports. The others follow.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from regard.models.contract import Batch
from regard.training.gradients import Gradients

EXCHANGE_TIMEOUT = timedelta(minutes=30)  # for one exchange: the lead may be writing a checkpoint
LOST = 75  # exit status of a rank that lost another one; EX_TEMPFAIL: trying again may help


class RankLost(SystemExit):
    """Another rank died: this one ends too, and the launcher restarts all from the last checkpoint."""

    def __init__(self) -> None:
        super().__init__(LOST)


class Group:
    """The ranks of a training. This one is a single process: it exchanges nothing."""

    rank = 0
    size = 1

    @property
    def leads(self) -> bool:
        """Whether this rank reads the user's data, writes and reports."""
        return self.rank == 0

    @property
    def part(self) -> slice:
        """This rank's share of a sequence."""
        return slice(self.rank, None, self.size)

    def attach(self, model: nn.Module) -> None:
        """Prepare to sum the gradients of this model."""

    def share(self, batch: Batch) -> Batch:
        """This rank's rows of a batch."""
        return batch

    def sum_gradients(self, *values: float) -> Sequence[float]:
        """Sum gradients and these values over the ranks; once per update."""
        return values

    def sum(self, *values: float) -> Sequence[float]:
        """Sum values over the ranks."""
        return values

    def from_lead(self, value: float) -> float:
        """The lead's value."""
        return value

    def agree(self, seconds: float, stop: bool, save: bool) -> tuple[float, bool, bool]:
        """The lead's seconds, whether any rank should stop, and whether the lead should save."""
        return seconds, stop, save

    def gather(self, texts: list[str]) -> list[list[str]]:
        """The texts of each rank."""
        return [texts]

    def wait(self) -> None:
        """Wait until all ranks are here, however long it takes."""

    def call(self, checkpoint: int) -> None:
        """The lead tells the others to train from this checkpoint."""
        self.wait()
        self.from_lead(checkpoint)

    def called(self) -> int:
        """The checkpoint that the lead names when it is ready."""
        self.wait()
        return int(self.from_lead(0))


class Ranks(Group):
    """One process of several."""

    def __init__(self, device: torch.device) -> None:
        # Numbers and texts travel through gloo. Gradients of a GPU go through NCCL.
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        store, self.rank, self.size = next(rendezvous("env://", timeout=EXCHANGE_TIMEOUT))
        dist.init_process_group(
            backend, store=_own_part(store), rank=self.rank, world_size=self.size, timeout=EXCHANGE_TIMEOUT
        )
        self.device = device
        self._barrier_group = dist.new_group(backend="gloo", timeout=timedelta(days=30))
        self._gradients: Gradients | None = None

    def attach(self, model: nn.Module) -> None:
        """Allocate the buffer that is summed."""
        self._gradients = Gradients(model, self.size, self.device)
        with _noticing_loss():
            self._gradients.share_memory(self.rank)

    def share(self, batch: Batch) -> Batch:
        """The rows rank, rank + size, …: similar lengths for every rank, since batches are sorted by length."""
        return batch.rows(self.rank, self.size)

    def sum_gradients(self, *values: float) -> Sequence[float]:
        """Afterwards every parameter has the summed gradient."""
        assert self._gradients is not None
        self._gradients.collect()
        total = self.sum(*values)  # every rank has collected when it returns
        with _noticing_loss():
            self._gradients.reduce()
        return total

    def sum(self, *values: float) -> Sequence[float]:
        """In float64; the same on all ranks."""
        numbers = torch.tensor(values, dtype=torch.float64)
        with _noticing_loss():
            dist.all_reduce(numbers)
        found: list[float] = numbers.tolist()
        return found

    def from_lead(self, value: float) -> float:
        """Broadcast from rank 0."""
        return self.sum(value if self.leads else 0.0)[0]

    def agree(self, seconds: float, stop: bool, save: bool) -> tuple[float, bool, bool]:
        """One exchange for all three."""
        seconds, stops, saves = self.sum(seconds * self.leads, float(stop), float(save and self.leads))
        return seconds, stops > 0, saves > 0

    def gather(self, texts: list[str]) -> list[list[str]]:
        """As JSON in bytes of equal number."""
        own = np.frombuffer(json.dumps(texts).encode(), np.uint8)
        sizes = [int(size) for size in self.sum(*(len(own) * (rank == self.rank) for rank in range(self.size)))]
        padded = torch.zeros(max(sizes), dtype=torch.uint8)
        padded[: len(own)] = torch.from_numpy(own.copy())
        all_padded = [torch.empty_like(padded) for _ in sizes]
        with _noticing_loss():
            dist.all_gather(all_padded, padded)
        return [json.loads(part[:size].numpy().tobytes()) for part, size in zip(all_padded, sizes, strict=True)]

    def wait(self) -> None:
        """Python sleeps meanwhile, so that a signal is heard."""
        with _noticing_loss():
            work = dist.barrier(self._barrier_group, async_op=True)
            assert work is not None
            while not work.is_completed():
                time.sleep(0.02)
            work.wait()


def _own_part(store: Store) -> Store:
    """The part of torchrun's store that belongs to this attempt.

    The agent keeps its store through restarts, with the addresses of dead ranks in it. Between machines the number of
    restarts may differ: there `must_not_share_store` asks for a new store instead.
    """
    if os.environ["GROUP_WORLD_SIZE"] != "1":
        return store
    return PrefixStore(f"attempt-{os.environ['TORCHELASTIC_RESTART_COUNT']}", store)


def must_not_share_store() -> bool:
    """Whether ranks on several machines would find the addresses of dead ranks after a restart."""
    several = is_launched() and os.environ["GROUP_WORLD_SIZE"] != "1"
    return several and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


@contextmanager
def _noticing_loss() -> Iterator[None]:
    """Around exchanges only: gloo and NCCL raise a RuntimeError when a connection is closed or silent."""
    try:
        yield
    except RuntimeError as error:
        print(f"rank {os.environ['RANK']}: {error}", file=sys.stderr, flush=True)
        raise RankLost from error


def is_launched() -> bool:
    """Whether torchrun or `launch` started this process."""
    return dist.is_available() and dist.is_torchelastic_launched()


def local_device(device: str) -> str:
    """The GPU of this rank, if the device is `cuda`."""
    return f"cuda:{os.environ['LOCAL_RANK']}" if device == "cuda" and is_launched() else device


@contextmanager
def joined(device: torch.device) -> Iterator[Group]:
    """The group of this process: alone, or with the other ranks of its launcher."""
    if not is_launched() or os.environ["WORLD_SIZE"] == "1":
        yield Group()
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    with _noticing_loss():
        ranks = Ranks(device)
    try:
        yield ranks
    finally:
        dist.destroy_process_group()
