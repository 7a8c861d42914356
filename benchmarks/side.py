"""What the benchmark asks of a toolkit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

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


LENGTH_LEARNED = 1.0
"""Epochs after which outputs have about their usual length; peers that train their own model need no more."""


@dataclass(frozen=True)
class Job:
    """A way to translate the test set; `sentences` bounds it (one at a time is slow)."""

    name: str
    beam: int
    batch: int | None  # None: as the toolkit likes
    sentences: int | None
    whole_process: bool = False  # count from the start of the process to its end


GREEDY, BEAM = Job("greedy, own batches", 1, None, None), Job("beam 5, own batches", 5, None, None)
FIRST = Job("start to first sentence", 1, 1, 1, whole_process=True)


def lone(beam: int, sentences: int) -> Job:
    """One sentence at a time."""
    return Job("greedy, one by one" if beam == 1 else f"beam {beam}, one by one", beam, 1, sentences)


@dataclass(frozen=True)
class Translated:
    """The outcome of a job, start-up excluded; tokens count each closing </s>."""

    sentences: int
    seconds: float
    tokens: int
    process: Finished
    output: Path | None = None  # the translations as text


@dataclass(frozen=True)
class Setting:
    """Where a run works and with what."""

    folder: Path  # empty, its own
    threads: int
    allocator: str


class Side(Protocol):
    """A toolkit; its models lie below the work folder."""

    name: str
    borrows: str | None  # the side whose model it translates with, if it trains none for that
    shortlist: bool  # whether it scores likely pieces only
    own_batches: bool  # whether there is a way of batching that the toolkit prefers to 32 sentences
    allocators: tuple[str, ...]  # to train with; none: it is not measured in training
    translation_allocators: tuple[str, ...]  # none: it is not measured in translating
    cost: Cost

    def set_up(self) -> None:
        """Install it, once."""

    def train(self, text: Text, batch: BatchSize, minutes: float, setting: Setting) -> tuple[list[float], Finished]:
        """Target tokens per second in each stretch of the log, after the first one."""

    def make_model(self, text: Text, epochs: float, lender: Path, setting: Setting) -> int:
        """Train the model that translates, or make it from the lender's in its folder.

        The number of its parameters is returned.
        """

    def translate(self, text: Text, job: Job, model: Path, setting: Setting) -> Translated:
        """Translate the test set with the model that `make_model` left in the folder `model`."""


@dataclass(frozen=True)
class Tried:
    """What a setting gave."""

    job: str
    setting: str
    sentences_per_second: float
    chosen: bool


@runtime_checkable
class Tuned(Protocol):
    """A side that looks for its best setting on this machine before it is measured."""

    def tune(self, text: Text, job: Job, model: Path, setting: Setting) -> list[Tried]:
        """Try settings with some test sentences, and keep the best for `translate`."""
