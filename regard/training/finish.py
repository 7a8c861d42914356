"""The end of training: final weights, metrics.json, and the last log line."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from regard.storage.weights import load_tensors
from regard.training.checkpoint import TrainingState, average
from regard.training.progress import duration, qualities
from regard.training.saving import stop_if_asked

if TYPE_CHECKING:
    from regard.training.loop import Run


def choose_weights(run: Run) -> dict[str, Any]:
    """Load the selected weights into the model, and return their validation metrics."""
    snapshots = run.state.snapshots
    if not snapshots:
        return {}  # the model already has the last weights
    weights = [run.checkpoints.kept_weights(snapshot) for snapshot in snapshots]
    load_tensors(run.model, average(weights), run.checkpoints.folder)
    if run.validator is None:
        return {}
    if [snapshot.update for snapshot in snapshots] == [run.state.best_update]:
        return run.state.best_validation
    valid = run.validator(run.model, stop_if_asked(run)).to_dict()
    run.reporter.say(f"average of {len(weights)} checkpoints: {_quality(valid)}")
    return valid


def training_metrics(run: Run, valid: dict[str, Any]) -> dict[str, Any]:
    """Contents of metrics.json for any task."""
    state = run.state
    batches = len(run.plan.epoch(state.epoch))
    metrics: dict[str, Any] = {
        "updates": state.update,
        "best_update": state.best_update or state.update,
        "epochs": state.epoch + state.position / batches,
        run.task.unit: state.tokens,
        "seconds": state.seconds,
        "stopped_early": state.stopped_early,
        "parameters": sum(parameter.numel() for parameter in run.model.parameters()),
        "machine": run.machine.to_dict(),
        "finished": time.strftime("%Y-%m-%d"),
    }
    if valid:
        metrics["valid"] = valid
    return metrics


def unfinished_metrics(run: Run) -> dict[str, Any]:
    """Contents of metrics.json for the best model so far."""
    metrics = training_metrics(run, run.state.best_validation)
    del metrics["finished"]
    return {**metrics, "unfinished": True}


def farewell(run: Run, valid: dict[str, Any]) -> str:
    """The last log line."""
    state = run.state
    why = "stopped early" if state.stopped_early else "done"
    quality = f"; validation {_quality(valid)}" if valid else ""
    return (
        f"{why} after {state.update:,} updates in {duration(state.seconds)}{quality}{_estimate(state)}; "
        f"the model is in {run.out}"
    )


def _estimate(state: TrainingState) -> str:
    """The error of the budget's first estimate."""
    if state.first_total is None:
        return ""
    off = state.first_total / state.update - 1
    wrong = f"{abs(off):.0%} too {'many' if off > 0 else 'few'}" if round(100 * off) else "which was right"
    return f"; the first estimate was {state.first_total:,} updates, {wrong}"


def _quality(valid: dict[str, Any]) -> str:
    return f"loss {valid['loss']:.3f}  {qualities({**valid, 'perplexity': None})}".rstrip()
