"""Selects processes and precision by measured speed.

`regard train` measures one process with all threads against one per core, and float32 against bfloat16, for a few
updates with the model and the batches of the training, if that is going to take minutes. The seconds are kept in the
user's cache folder, for each processor, model size and batch size. A tie goes to several processes: beside a busy
program, threads of one process wait for each other at every step. bfloat16 has to be faster by a margin: it rounds.
"""

from __future__ import annotations

import copy
import itertools
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch.optim import Optimizer

from regard.config.settings import duration_seconds
from regard.errors import ModelFolderError
from regard.machine import processor
from regard.machine.processor import cache_folder
from regard.models.contract import Batch, Predictor
from regard.process import this_machine, tune_process
from regard.storage.files import write_json
from regard.storage.reading import read_json
from regard.storage.run import read_run
from regard.training.budget import updates_asked
from regard.training.distributed import Group, joined
from regard.training.launch import WorkersFailed, answer_of_ranks, end_with_launcher
from regard.training.loop import add_gradient
from regard.training.optimizer import build_optimizer, clip
from regard.training.progress import Reporter
from regard.training.task import PreparedTask
from regard.training.tasks import task_of

SHORTEST = 300.0  # seconds of training that are worth measuring for
MOST_UPDATES = 5  # measured, or fewer if they take longer than MOST_SECONDS
MOST_SECONDS = 4.0
MOST_WORKERS = 8  # more processes would share too small batches
TIE = 1.05
MARGIN = 1.15  # by which bfloat16 has to be faster
KEPT = "speed.json"  # in the cache folder
CPU = torch.device("cpu")

Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class Choice:
    """How to train."""

    workers: int = 1
    precision: Precision = "float32"


def fastest(task: PreparedTask[object], model: Predictor, folder: Path, reporter: Reporter, *, several: bool) -> Choice:
    """Select processes and precision; `several` allows more than one process.

    A short training is not measured: it gets one process, and float32 unless its recipe says otherwise.
    """
    precision = task.settings.precision
    workers = min(torch.get_num_threads(), MOST_WORKERS) if several else 1
    unmeasured = Choice(1, "float32" if precision == "auto" else precision)
    asked = updates_asked(task.settings, len(task.plan().epoch(0)))
    budget = None if task.settings.budget is None else duration_seconds(task.settings.budget)
    if (workers == 1 and precision != "auto") or (budget is not None and budget < SHORTEST):
        return unmeasured
    measured = _Measured(task.changed([f"training.precision={unmeasured.precision}"]), model, reporter)
    if asked is not None and (asked <= MOST_UPDATES or measured.is_shorter(asked)):
        return unmeasured
    alone = measured.alone()
    together = measured.in_ranks(folder, workers) if workers > 1 else None
    rounded = measured.in_bfloat16() if precision == "auto" and _executes_bfloat16() else None
    choice = Choice(
        workers if together is not None and together <= TIE * alone else 1,
        "bfloat16" if rounded is not None and rounded * MARGIN <= alone else unmeasured.precision,
    )
    measured.report(f"training in {choice.workers}, in {choice.precision}")
    return choice


class _Measured:
    """Seconds of an update, measured or known from an earlier training."""

    def __init__(self, task: PreparedTask[object], model: Predictor, reporter: Reporter) -> None:
        self.task, self.model, self.reporter = task, model, reporter
        self.cores = torch.get_num_threads()
        self.key = _key(task, model, self.cores)
        self.seconds = _known().get(self.key, {})
        self.said: list[str] = []

    def is_shorter(self, updates: int) -> bool:
        """Whether so many updates take less than SHORTEST; a first update, slower than others, may tell."""
        seconds = self.seconds.get("alone")
        if seconds is None and updates * self._run(self.task, 0) < SHORTEST:
            return True
        return updates * self.alone() < SHORTEST

    def alone(self) -> float:
        """In one process."""
        if "alone" not in self.seconds:
            self.reporter.working("measuring the speed of training")
            self.seconds["alone"] = self._run(self.task, MOST_UPDATES)
        return self.seconds["alone"]

    def in_ranks(self, folder: Path, workers: int) -> float | None:
        """In several processes; None if they fail."""
        if "several" not in self.seconds:
            updates = max(1, int(MOST_SECONDS / self.alone()))
            found = seconds_of_ranks(folder, workers, self.cores // workers, updates)
            self.said.append(f"{'failed' if found is None else f'{found:.2f} s'} in {workers}")
            if found is not None:
                self.seconds["several"] = found
        return self.seconds.get("several")

    def in_bfloat16(self) -> float:
        """In one process with bfloat16."""
        if "bfloat16" not in self.seconds:
            mixed = self.task.changed(["training.precision=bfloat16"])
            self.seconds["bfloat16"] = self._run(mixed, MOST_UPDATES)
            self.said.append(f"{self.seconds['bfloat16']:.2f} s in one with bfloat16")
        return self.seconds["bfloat16"]

    def report(self, chosen: str) -> None:
        """Say and keep what was measured."""
        if self.said:
            self.reporter.say(f"an update takes {self.alone():.2f} s in one process, {', '.join(self.said)}: {chosen}.")
            _keep(self.key, self.seconds)

    def _run(self, task: PreparedTask[object], updates: int) -> float:
        return seconds_per_update(task, copy.deepcopy(self.model), Group(), updates)


def seconds_per_update(task: PreparedTask[object], model: Predictor, group: Group, most: int) -> float:
    """The median time of `most` updates after a first one, or the time of the first; modifies the model."""
    optimizer, plan, took = build_optimizer(model.train(), task.settings), task.plan(), []
    items = itertools.cycle(plan.epoch(0))
    group.attach(model)
    for number in range(1 + min(most, MOST_UPDATES)):
        batches = [plan.batch(item) for item in itertools.islice(items, task.settings.accumulate)]
        took.append(seconds_of_update(task, model, optimizer, batches, CPU, group))
        if group.size == 1 and number and sum(took) > MOST_SECONDS:
            break
    return statistics.median(took[1:] or took)


def seconds_of_update(
    task: PreparedTask[object],
    model: Predictor,
    optimizer: Optimizer,
    batches: Sequence[Batch],
    device: torch.device,
    group: Group,
) -> float:
    """Make an update as the loop does, of this rank's share of the accumulated batches."""
    started = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    tokens = sum(batch.target_tokens for batch in batches)
    for batch in batches:
        add_gradient(task, model, group.share(batch), tokens, device, update=1, total=None)
    group.sum_gradients(0.0)
    clip(model, task.settings.clip_norm)
    optimizer.step()
    return time.perf_counter() - started


def _executes_bfloat16() -> bool:
    """Whether bfloat16 works here as it is: limits to the instruction set are for those who ask for it by name."""
    verdict = processor.verdict("bfloat16")
    return verdict.works and not verdict.limits


def seconds_of_ranks(folder: Path, workers: int, threads: int, updates: int) -> float | None:
    """The same in several processes; None if they fail."""
    words = [str(folder), str(updates)]
    try:
        return float(answer_of_ranks("regard.training.speed:measure_as_rank", words, workers, threads)["seconds"])
    except WorkersFailed:
        return None


def measure_as_rank() -> None:
    """One of these processes: reads OUT/training, the number of updates and the file for the result from its words."""
    folder, updates, result = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    tune_process()
    end_with_launcher()
    with joined(CPU) as group:
        task = task_of(read_run(folder).recipe).open(folder)
        seconds = seconds_per_update(task, task.build(), group, updates)
        if group.leads:
            write_json(result, {"seconds": seconds})


# --- what was measured before -------------------------------------------------------------------------------------


def _key(task: PreparedTask[object], model: Predictor, cores: int) -> str:
    """Processor, cores, model and batch; sizes are rounded up to powers of two."""
    machine, plan = this_machine(), task.plan()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    tokens = plan.batch(plan.epoch(0)[0]).target_tokens * (2 if task.settings.r_drop else 1)
    batches = f"{task.settings.accumulate} x 2^{tokens.bit_length()} {task.unit}"
    sizes = f"2^{parameters.bit_length()} parameters, {batches}"
    here = f"{machine.cpu}, {cores} threads, torch {machine.torch}"
    return f"{here}: {task.recipe.model.kind}, {sizes}, {task.settings.precision}"


def _known() -> dict[str, dict[str, float]]:
    """Seconds of an update by key: `alone`, in `several` processes, in one with `bfloat16`."""
    folder = cache_folder()
    try:
        record = {} if folder is None else read_json(folder / KEPT)
    except (ModelFolderError, OSError):
        return {}
    return {
        key: {name: float(seconds) for name, seconds in value.items() if isinstance(seconds, int | float)}
        for key, value in record.items()
        if isinstance(value, dict)
    }


def _keep(key: str, seconds: dict[str, float]) -> None:
    folder = cache_folder()
    if folder is None:
        return
    with suppress(OSError):  # then it is measured again next time
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / KEPT, {**_known(), key: seconds})
