"""The training loop, for any model of the contract."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.optim import Optimizer

from regard.config.settings import LoopSettings
from regard.models.contract import Batch, Predictor
from regard.process import Machine
from regard.training.budget import Planner
from regard.training.checkpoint import Checkpoints, TrainingState
from regard.training.distributed import Group
from regard.training.interrupt import Interrupts
from regard.training.loss import Loss, backward
from regard.training.optimizer import clip, set_learning_rate
from regard.training.progress import Log, Reporter, perplexity_of
from regard.training.saving import SaveClock, note_loss, refuse_update, save_and_stop
from regard.training.schedule import next_learning_rate
from regard.training.selection import validate, validation_is_due
from regard.training.task import EpochPlan, PreparedTask, Validates


@dataclass
class Run:
    """Everything one training needs."""

    out: Path
    task: PreparedTask[object]
    settings: LoopSettings
    model: Predictor
    optimizer: Optimizer
    plan: EpochPlan
    validator: Validates | None
    state: TrainingState
    checkpoints: Checkpoints
    machine: Machine
    device: torch.device
    reporter: Reporter
    log: Log
    interrupts: Interrupts
    group: Group


def learn(run: Run) -> None:
    """Train from the run's state to its end: the last update or early stopping.

    Examples are shuffled with (seed, epoch), and each update is seeded with (seed, update, rank), so a resumed run
    equals the uninterrupted one bit for bit. Only the end set by a budget depends on the clock; these decisions are
    recorded, and replayed on resume. Every rank runs this function; see `distributed.py`.
    """
    settings, model, state, group = run.settings, run.model, run.state, run.group
    stream = Stream(run.plan, state.epoch, state.position)
    planner = Planner(run, stream.batches_per_epoch)
    clock = SaveClock(settings.save_every)
    stop, save = run.interrupts.requested, False
    model.train()

    while True:
        if validation_is_due(run):
            before = state.seconds
            validate(run)
            planner.pace.validation_seconds = state.seconds - before
        if state.stopped_early or state.update == state.total:
            break
        if stop:
            save_and_stop(run)
        if save:
            clock.save(run)

        started = time.perf_counter()
        number = state.update + 1
        batches = [stream.next() for _ in range(settings.accumulate)]
        tokens = sum(batch.target_tokens for batch in batches)
        rate = next_learning_rate(settings, state)
        torch.manual_seed(seed_of(settings.seed, number) + group.rank)

        run.optimizer.zero_grad(set_to_none=True)
        losses = [
            add_gradient(run.task, model, group.share(batch), tokens, run.device, update=number, total=state.total)
            for batch in batches
        ]
        smoothed, likelihood = group.sum_gradients(
            sum(part.smoothed for part in losses), sum(part.negative_log_likelihood for part in losses)
        )
        norm = clip(model, settings.clip_norm)
        if not (math.isfinite(smoothed) and math.isfinite(norm)):
            refuse_update(run, batches, smoothed / tokens, norm)
        note_loss(run, likelihood / tokens)
        set_learning_rate(run.optimizer, rate)
        run.optimizer.step()

        took = time.perf_counter() - started
        seconds, stop, save = group.agree(took, run.interrupts.requested, clock.due())
        state.update, state.epoch, state.position = number, stream.epoch, stream.position
        state.tokens += tokens
        state.seconds += seconds
        state.window_loss += smoothed
        state.window_likelihood += likelihood
        state.window_tokens += tokens
        state.window_seconds += seconds
        planner.updated(seconds, tokens)
        run.reporter.updated(state, rate, tokens / seconds)
        if number % settings.log_every == 0 or number == state.total:
            write_log(run, rate, norm)


class Stream:
    """The batches of all epochs, from a given position on.

    An epoch is over if it has no batch at the position: batches may have become larger since that was recorded.
    """

    def __init__(self, plan: EpochPlan, epoch: int, position: int) -> None:
        self.plan = plan
        self.epoch = epoch
        self.position = position
        self._items = plan.epoch(epoch)
        self.batches_per_epoch = len(self._items)
        self._end_epoch()

    def next(self) -> Batch:
        """The next batch; advances epoch and position."""
        batch = self.plan.batch(self._items[self.position])
        self.position += 1
        self._end_epoch()
        return batch

    def _end_epoch(self) -> None:
        if self.position >= len(self._items):
            self.epoch, self.position = self.epoch + 1, 0
            self._items = self.plan.epoch(self.epoch)


def seed_of(seed: int, update: int) -> int:
    """The random seed of one update."""
    return int(np.random.SeedSequence([seed, update]).generate_state(1, np.uint64)[0] >> 1)


def add_gradient(
    task: PreparedTask[object],
    model: Predictor,
    batch: Batch,
    total_tokens: int,
    device: torch.device,
    *,
    update: int,
    total: int | None,
) -> Loss:
    """Forward and backward pass over a batch; a rank's share of it may be empty."""
    if not len(batch.target_out):
        return Loss(0.0, 0.0, 0)
    settings, batch = task.settings, batch.to(device)
    mixed = torch.autocast(device.type, torch.bfloat16, enabled=settings.precision == "bfloat16")
    with mixed:
        batch, output = task.forward(model, batch, update, total)
        return backward(
            model,
            output,
            batch,
            smoothing=settings.label_smoothing,
            total_tokens=total_tokens,
            r_drop=settings.r_drop,
        )


# --- the log ------------------------------------------------------------------------------------------------------


def write_log(run: Run, rate: float, norm: float) -> None:
    """Log the updates since the last log line."""
    state = run.state
    unit, likelihood = run.task.unit, state.window_likelihood / state.window_tokens
    record = {
        "epoch": state.epoch,
        "loss": state.window_loss / state.window_tokens,
        **({"perplexity": perplexity_of(likelihood)} if unit == "tokens" else {}),
        "learning_rate": rate,
        "gradient_norm": norm,
        f"{unit}_per_second": state.window_tokens / state.window_seconds,
        "seconds": state.seconds,
    }
    state.window_loss = state.window_likelihood = state.window_seconds = 0.0
    state.window_tokens = 0
    run.log.write("update", state.update, record)
    run.reporter.logged(state, record)
