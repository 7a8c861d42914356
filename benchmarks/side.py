"""What the benchmark asks of a toolkit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks.cost import Cost
from benchmarks.process import Finished
from benchmarks.text import Text


class SetUpError(Exception):
    """A toolkit that cannot be installed here; the benchmark goes on without it."""


@dataclass(frozen=True)
class BatchSize:
    """How much text makes an update, and how many updates make a line of the toolkit's log."""

    name: str
    sentences: int | None
    tokens: int | None
    log_every: int


BATCHES = (BatchSize("64 sentences", 64, None, 10), BatchSize("4,096 tokens", None, 4096, 4))


@dataclass(frozen=True)
class Job:
    """A way to translate the test set; `sentences` bounds it (one at a time is slow)."""

    name: str
    beam: int
    batch: int | None  # None: as the toolkit likes
    sentences: int | None


@dataclass(frozen=True)
class Translated:
    """The outcome of a job, start-up excluded; tokens count each closing </s>."""

    sentences: int
    seconds: float
    tokens: int
    peak_megabytes: float


@dataclass(frozen=True)
class Setting:
    """Where a run works and with what."""

    folder: Path  # empty, its own
    threads: int
    allocator: str


class Side(Protocol):
    """A toolkit; its models lie below the work folder."""

    name: str
    allocators: tuple[str, ...]
    cost: Cost
    own_batches: bool  # whether there is a way of batching that the toolkit prefers to 32 sentences

    def set_up(self) -> None:
        """Install it, once."""

    def train(self, text: Text, batch: BatchSize, minutes: float, setting: Setting) -> tuple[list[float], Finished]:
        """Target tokens per second in each stretch of the log, after the first one."""

    def train_model(self, text: Text, updates: int, setting: Setting) -> int:
        """Train the model that translates, in batches of 64 sentences; the number of its parameters."""

    def translate(self, text: Text, job: Job, model: Path, setting: Setting) -> Translated:
        """Translate the test set with the model that `train_model` left in the folder `model`."""
