"""The training loop, for any model of the contract."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch.optim import Optimizer

from regard.config.settings import LoopSettings, TrainingSettings
from regard.models.contract import Batch, Model, Output, Predictor
from regard.process import Machine
from regard.training.budget import Planner
from regard.training.checkpoint import Checkpoints, State
from regard.training.interrupt import Interrupts
from regard.training.loss import Loss, backward, guided_loss, predictions
from regard.training.optimizer import clip, set_learning_rate
from regard.training.progress import Log, Reporter, perplexity_of
from regard.training.saving import SaveClock, note_loss, refuse_update, save_and_stop
from regard.training.schedule import next_learning_rate
from regard.training.selection import validate, validation_is_due
from regard.training.task import Plan, Task, Validates


@dataclass
class Run:
    """Everything one training needs."""

    out: Path
    task: Task[object]
    settings: LoopSettings
    model: Predictor
    optimizer: Optimizer
    plan: Plan
    validator: Validates | None
    state: State
    checkpoints: Checkpoints
    machine: Machine
    device: torch.device
    reporter: Reporter
    log: Log
    interrupts: Interrupts


def learn(run: Run) -> None:
    """Train from the run's state to its end: its last update, or patience that is over.

    The order of the examples follows from (seed, epoch), and all random numbers of an update from (seed, update), so
    a run that is resumed from a checkpoint does what the unbroken one does, bit for bit. Only the end that a budget
    sets follows the clock; such decisions are recorded, and repeated when it is resumed.
    """
    settings, model, state = run.settings, run.model, run.state
    stream = Stream(run.plan, state.epoch, state.position)
    planner = Planner(run, stream.batches_per_epoch)
    clock = SaveClock(settings.save_every)
    model.train()

    while True:
        if validation_is_due(run):
            before = state.seconds
            validate(run)
            planner.pace.validation_seconds = state.seconds - before
        if state.stopped_early or state.update == state.total:
            break
        if run.interrupts.requested:
            save_and_stop(run)
        if clock.due():
            clock.save(run)

        started = time.perf_counter()
        number = state.update + 1
        batches = [stream.next() for _ in range(settings.accumulate)]
        tokens = sum(batch.target_tokens for batch in batches)
        rate = next_learning_rate(settings, state)
        share = run.task.share_of_own_words(number, state.total)
        torch.manual_seed(seed_of(settings.seed, number))

        run.optimizer.zero_grad(set_to_none=True)
        losses = [add_gradient(model, batch.to(run.device), settings, tokens, share, run.device) for batch in batches]
        norm = clip(model, settings.clip_norm)
        loss = sum(part.smoothed for part in losses) / tokens
        if not (math.isfinite(loss) and math.isfinite(norm)):
            refuse_update(run, batches, loss, norm)
        likelihood = sum(part.negative_log_likelihood for part in losses)
        note_loss(run, likelihood / tokens)
        set_learning_rate(run.optimizer, rate)
        run.optimizer.step()

        seconds = time.perf_counter() - started
        state.update, state.epoch, state.position = number, stream.epoch, stream.position
        state.tokens += tokens
        state.seconds += seconds
        state.window_loss += sum(part.smoothed for part in losses)
        state.window_likelihood += likelihood
        state.window_tokens += tokens
        state.window_seconds += seconds
        planner.updated(seconds, tokens)
        run.reporter.updated(state, rate, tokens / seconds)
        if number % settings.log_every == 0 or number == state.total:
            write_log(run, rate, norm)


class Stream:
    """The batches of one epoch after another, from a given place on."""

    def __init__(self, plan: Plan, epoch: int, position: int) -> None:
        self.plan = plan
        self.epoch = epoch
        self.position = position
        self._items = plan.epoch(epoch)
        self.batches_per_epoch = len(self._items)

    def next(self) -> Batch:
        """The next batch; epoch and position then stand behind it."""
        batch = self.plan.batch(self._items[self.position])
        self.position += 1
        if self.position == len(self._items):
            self.epoch, self.position = self.epoch + 1, 0
            self._items = self.plan.epoch(self.epoch)
        return batch


def seed_of(seed: int, update: int) -> int:
    """The seed of one update's random numbers."""
    return int(np.random.SeedSequence([seed, update]).generate_state(1, np.uint64)[0] >> 1)


def add_gradient(
    model: Predictor, batch: Batch, settings: LoopSettings, total_tokens: int, share: float, device: torch.device
) -> Loss:
    """Run the model over a batch, forwards and backwards."""
    mixed = torch.autocast(device.type, torch.bfloat16, enabled=settings.precision == "bfloat16")
    with mixed:
        if share > 0:
            batch = with_own_words(model, batch, share)
        output = model(batch) if batch.guide is None else guided_output(model, batch, settings)
        return backward(model, output, batch, smoothing=settings.label_smoothing, total_tokens=total_tokens)


def guided_output(model: Predictor, batch: Batch, settings: LoopSettings) -> Output:
    """The model's output with the guided loss in its `extra_loss`."""
    assert isinstance(model, Model)
    assert isinstance(settings, TrainingSettings)
    output: Output = model(batch, attention=True)
    extra = settings.guided_attention * guided_loss(model.alignment(output.attention), batch)
    return replace(output, extra_loss=extra if output.extra_loss is None else output.extra_loss + extra)


@torch.no_grad()
def with_own_words(model: Predictor, batch: Batch, share: float) -> Batch:
    """Scheduled sampling: put the model's own word in place of the gold one at a random share of the inputs.

    In two passes: the first, with gold inputs, finds the word the model would say at each position, the second
    learns with the mixture. (Bengio et al. 2015 choose word by word while decoding, which no model can do in
    parallel; the two agree while the model's own words are rare.) BOS stays.
    """
    words = predictions(model, model(batch).hidden)  # (B, T): what follows each input
    chosen = torch.rand(words.shape, device=words.device) < share
    mixed = batch.target_in.clone()
    mixed[:, 1:] = torch.where(chosen[:, :-1], words[:, :-1], batch.target_in[:, 1:])
    return replace(batch, target_in=mixed)


# --- the log ------------------------------------------------------------------------------------------------------


def write_log(run: Run, rate: float, norm: float) -> None:
    """A line about the updates since the last one."""
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
