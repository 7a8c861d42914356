"""The training loop, for any model of the contract."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch.optim import Optimizer

from regard.config.settings import LoopSettings, TrainingSettings, duration_seconds
from regard.errors import TrainingError
from regard.models.contract import Batch, Model, Output, Predictor
from regard.process import Machine
from regard.training.checkpoint import Checkpoints, Snapshot, State
from regard.training.interrupt import Interrupts
from regard.training.loss import Loss, backward, guided_loss, predictions
from regard.training.optimizer import clip, set_learning_rate
from regard.training.progress import Log, Reporter
from regard.training.saving import advice_to_resume, note_loss, refuse_update, save, save_and_stop
from regard.training.schedule import (
    MEASURE_FROM,
    MEASURE_UNTIL,
    REVISIONS,
    learning_rate,
    updates_in_budget,
)
from regard.training.task import Measured, Plan, Task, Validates


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
    a run that is resumed from a checkpoint does what the unbroken one does, bit for bit (unless a budget sets its end,
    which follows the clock).
    """
    settings, model, state = run.settings, run.model, run.state
    stream = Stream(run.plan, state.epoch, state.position)
    plan_end(run, stream.batches_per_epoch)
    saved_at = time.monotonic()
    pace = Pace()
    model.train()

    while True:
        if validation_is_due(run):
            before = state.seconds
            validate(run)
            pace.validation_seconds = state.seconds - before
        if state.stopped_early or state.update == state.total:
            break
        if run.interrupts.requested:
            save_and_stop(run)
        if time.monotonic() - saved_at > 60 * settings.save_every:
            save(run)
            saved_at = time.monotonic()

        started = time.perf_counter()
        number = state.update + 1
        batches = [stream.next() for _ in range(settings.accumulate)]
        tokens = sum(batch.target_tokens for batch in batches)
        rate = learning_rate(settings, number, state.total, state.plateau)
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
        pace.note(seconds, tokens)
        keep_to_budget(run, pace, stream.batches_per_epoch)
        run.reporter.updated(state, loss, rate, tokens / seconds)
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


class Pace:
    """The speed so far, by which a budget of time becomes a number of updates."""

    def __init__(self) -> None:
        self.updates = 0
        self.validation_seconds: float | None = None  # of the last one
        self._seconds = 0.0
        self._tokens = 0

    def note(self, seconds: float, tokens: int) -> None:
        """One more update. The first ones are slower, and forgotten as soon as there are others."""
        self.updates += 1
        if self.updates <= MEASURE_FROM + 1:
            self._seconds, self._tokens = 0.0, 0
        self._seconds += seconds
        self._tokens += tokens

    def seconds_per_token(self) -> float:
        """Of the updates."""
        return self._seconds / self._tokens


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


# --- when it ends -------------------------------------------------------------------------------------------------


def plan_end(run: Run, batches_per_epoch: int) -> None:
    """Fix the last update, unless a budget must be measured first. An epoch counts as many batches as the first."""
    asked = updates_asked(run.settings, batches_per_epoch)
    if run.state.total is None and (run.settings.budget is None or (asked or MEASURE_UNTIL) < MEASURE_UNTIL):
        run.state.total = asked


def updates_asked(settings: LoopSettings, batches_per_epoch: int) -> int | None:
    """The last update that `updates` and `epochs` allow."""
    limits = [] if settings.updates is None else [settings.updates]
    if settings.epochs is not None:
        limits.append(max(1, math.ceil(settings.epochs * batches_per_epoch / settings.accumulate)))
    return min(limits, default=None)


def keep_to_budget(run: Run, pace: Pace, batches_per_epoch: int) -> None:
    """Turn the time that is left into a number of updates as soon as the pace is known, and now and then once more.

    A machine that gets slower, or that others use, then still ends in time, and with the schedule at its end.
    """
    settings, state = run.settings, run.state
    if settings.budget is None or state.update == state.total:
        return
    budget = duration_seconds(settings.budget)
    if state.total is None:
        if pace.updates >= MEASURE_UNTIL or state.seconds > budget / 4:
            state.total = updates_to_spend(run, pace, budget - state.seconds, batches_per_epoch)
            run.reporter.say(f"the budget of {settings.budget} is enough for {state.total:,} updates.")
    elif pace.updates >= MEASURE_UNTIL and state.update % max(1, state.total // REVISIONS) == 0:
        state.total = updates_to_spend(run, pace, budget - state.seconds, batches_per_epoch)


def updates_to_spend(run: Run, pace: Pace, seconds_left: float, batches_per_epoch: int) -> int:
    """The last update if the pace stays as it is; this one if no time is left."""
    settings, state = run.settings, run.state
    seconds_per_token = pace.seconds_per_token()
    validation_seconds = pace.validation_seconds
    if validation_seconds is None:
        validation_seconds = 0.0 if run.validator is None else run.validator.cost_tokens * seconds_per_token
    more = updates_in_budget(
        seconds_left,
        seconds_per_token * state.tokens / state.update,
        validation_seconds,
        settings.validate_every or batches_per_epoch / settings.accumulate,
    )
    asked = updates_asked(settings, batches_per_epoch)
    return max(state.update, state.update + more if asked is None else min(state.update + more, asked))


# --- validation ---------------------------------------------------------------------------------------------------


def validation_is_due(run: Run) -> bool:
    """Whether this update is one to validate at, and that has not been done."""
    settings, state = run.settings, run.state
    if state.validated == state.update:
        return False
    if state.update == state.total:
        return True
    if settings.validate_every is not None:
        return state.update % settings.validate_every == 0
    return state.epoch > state.validated_epoch


def validate(run: Run) -> None:
    """Measure, keep the weights if they are worth it, and count towards plateau and patience."""
    settings, state = run.settings, run.state
    started = time.perf_counter()
    snapshot = Snapshot(state.update, None)
    if run.validator is not None:
        result = measured(run, run.validator)
        snapshot = Snapshot(state.update, result.score, result.loss)
        note_gain(settings, state, result.score, result.loss)
        if state.best_update == state.update:
            state.best_validation = result.to_dict()
        report_validation(run, result)
    run.task.watch(run)
    state.validated, state.validated_epoch = state.update, state.epoch
    state.validated_loss = None if run.validator is None else snapshot.loss
    if run.validator is not None or settings.average != "none":
        state.snapshots = worth_keeping(settings, [*state.snapshots, snapshot])
        if snapshot in state.snapshots:
            run.checkpoints.keep_weights(snapshot, run.model)
    state.seconds += time.perf_counter() - started


def measured(run: Run, validator: Validates) -> Measured:
    """The validation of this update; a loss that is not finite speaks against the newest checkpoint."""
    try:
        return validator(run.model, stop_if_asked(run))
    except TrainingError as error:
        raise TrainingError(f"update {run.state.update}: {error} {advice_to_resume(run)}") from None


def note_gain(settings: LoopSettings, state: State, score: float, loss: float) -> None:
    """Compare with the best so far; stalled validations lower the plateau's rate and use up patience.

    A lower loss at the same score makes a better checkpoint, but is no gain that training would go on for.
    """
    gain = state.best_score is None or score > state.best_score
    if gain or (score == state.best_score and loss < state.best_loss):
        state.best_score, state.best_loss, state.best_update = score, loss, state.update
    if gain:
        state.stale = state.plateau_stale = 0
        return
    state.stale += 1
    state.plateau_stale += 1
    if state.plateau_stale > settings.plateau_patience:
        state.plateau *= settings.plateau_factor
        state.plateau_stale = 0
    state.stopped_early = settings.patience is not None and state.stale >= settings.patience


def worth_keeping(settings: LoopSettings, snapshots: list[Snapshot]) -> list[Snapshot]:
    """The last ones, the best ones, or the single best, oldest first."""
    keep = 1 if settings.average == "none" else settings.keep
    if settings.average == "last":
        return snapshots[-keep:]
    # Among equals the earlier one is better.
    best = sorted(snapshots, key=lambda one: (-(one.score or 0.0), one.loss, one.update))[:keep]
    return sorted(best, key=lambda snapshot: snapshot.update)


def stop_if_asked(run: Run) -> Callable[[], None]:
    """A function that breaks validation off when the user wants to stop; it is done again on resume."""

    def check() -> None:
        if run.interrupts.requested:
            save_and_stop(run)

    return check


def report_validation(run: Run, result: Measured) -> None:
    """Tell the user and the log."""
    state = run.state
    run.log.write("validation", state.update, {"epoch": state.epoch, **result.to_dict()})
    run.reporter.validated(state, result, best=state.best_update == state.update)


# --- the log ------------------------------------------------------------------------------------------------------


def write_log(run: Run, rate: float, norm: float) -> None:
    """A line about the updates since the last one."""
    state = run.state
    unit, likelihood = run.task.unit, state.window_likelihood / state.window_tokens
    record = {
        "epoch": state.epoch,
        "loss": state.window_loss / state.window_tokens,
        **({"perplexity": math.exp(min(likelihood, 700.0))} if unit == "tokens" else {}),
        "learning_rate": rate,
        "gradient_norm": norm,
        f"{unit}_per_second": state.window_tokens / state.window_seconds,
        "seconds": state.seconds,
    }
    state.window_loss = state.window_likelihood = state.window_seconds = 0.0
    state.window_tokens = 0
    run.log.write("update", state.update, record)
    run.reporter.logged(state, record)
