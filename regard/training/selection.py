"""When to validate, which weights to keep, learning rate plateau, early stopping, and the best model."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from regard.config.settings import LoopSettings
from regard.errors import TrainingError
from regard.training.budget import VALIDATIONS, share_done
from regard.training.checkpoint import Snapshot, TrainingState
from regard.training.finish import unfinished_metrics
from regard.training.saving import advice_to_resume, stop_if_asked, stop_quietly
from regard.training.task import Measured, Validates

if TYPE_CHECKING:
    from regard.training.loop import Run


def validation_is_due(run: Run) -> bool:
    """Whether a validation is due at this update and not yet done."""
    settings, state = run.settings, run.state
    if state.validated == state.update:
        return False
    if state.update == state.total:
        return True
    if settings.budget is not None and share_done(state) >= (state.validations + 1) / VALIDATIONS:
        return True
    if settings.validate_every is not None:
        return state.update % settings.validate_every == 0
    return state.epoch > state.validated_epoch


def validate(run: Run) -> None:
    """Validate, keep the weights if they are among the best, and update plateau and patience."""
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
    if run.group.leads:
        run.task.watch(run)
    state.validated, state.validated_epoch = state.update, state.epoch
    state.validations = max(state.validations, int(share_done(state) * VALIDATIONS + 1e-9))
    state.validated_loss = None if run.validator is None else snapshot.loss
    if run.validator is not None or settings.average != "none":
        state.snapshots = worth_keeping(settings, [*state.snapshots, snapshot])
        if snapshot in state.snapshots:
            run.checkpoints.keep_weights(snapshot, run.model)
    if run.group.leads and (run.validator is None or state.best_update == state.update):
        write_best_model(run)
    state.seconds += run.group.from_lead(time.perf_counter() - started)


def write_best_model(run: Run) -> None:
    """Write or update the model folder, so that the best model so far can be used during training."""
    training = run.model.training
    try:
        run.task.finish(run, unfinished_metrics(run))
    finally:
        run.model.train(training)


def measured(run: Run, validator: Validates) -> Measured:
    """Validate; a loss that is not finite discards the newest checkpoint."""
    try:
        return validator(run.model, stop_if_asked(run))
    except TrainingError as error:
        stop_quietly(run)
        raise TrainingError(f"update {run.state.update}: {error} {advice_to_resume(run)}") from None


def note_gain(settings: LoopSettings, state: TrainingState, score: float, loss: float) -> None:
    """Compare with the best so far; without improvement, lower the learning rate and count towards patience.

    A lower loss at the same score makes a better checkpoint, but does not reset the patience.
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
    """The weights to average: the last, the best, or the single best, oldest first."""
    keep = 1 if settings.average == "none" else settings.keep
    if settings.average == "last":
        return snapshots[-keep:]
    # Among equals the earlier one is better.
    best = sorted(snapshots, key=lambda one: (-(one.score or 0.0), one.loss, one.update))[:keep]
    return sorted(best, key=lambda snapshot: snapshot.update)


def report_validation(run: Run, result: Measured) -> None:
    """Report to the user and the log."""
    state = run.state
    record = {"epoch": state.epoch, "seconds": state.seconds, **result.to_dict()}
    if result.samples:
        record["samples"] = [dict(sample) for sample in result.samples]
    run.log.write("validation", state.update, record)
    run.reporter.validated(state, result, best=state.best_update == state.update)
