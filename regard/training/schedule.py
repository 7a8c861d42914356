"""The learning rate: a function of the update number if the last update is known; with a budget, incremental.

The last update of a budget is re-estimated during training. Progress of warm-up and decay is then kept as state: a new
estimate changes their slope, and the learning rate never jumps.
"""

from __future__ import annotations

import math

from regard.config.settings import LoopSettings
from regard.training.checkpoint import TrainingState

# The first updates are slower (memory allocation, kernel selection), so the speed is measured after them.
MEASURE_FROM = 5
MEASURE_UNTIL = 25
REVISIONS = 20  # re-estimates of a budget


def next_learning_rate(settings: LoopSettings, state: TrainingState) -> float:
    """The learning rate of the next update; with a budget, advances warm-up or decay."""
    if settings.budget is None:
        return learning_rate(settings, state.update + 1, state.total, state.plateau)
    advance_schedule(settings, state)
    return budget_learning_rate(settings, state)


def learning_rate(settings: LoopSettings, update: int, total: int | None, plateau: float = 1.0) -> float:
    """The learning rate of update 1, 2, …, `total`; `plateau` is the factor of the plateau schedule.

    All schedules have a linear warm-up; a warm-up longer than the training is cut to half of it.
    """
    peak = settings.learning_rate
    warmup = settings.warmup if total is None or settings.warmup < total else total // 2
    if update <= warmup:
        return peak * update / warmup
    share = 0.0 if total is None else min(1.0, (update - warmup) / (total - warmup))
    return peak * _after_warmup(settings, update, max(warmup, 1), share, plateau)


def advance_schedule(settings: LoopSettings, state: TrainingState) -> None:
    """Advance warm-up or decay by one update, towards the currently estimated last update.

    The warm-up takes a quarter of a budget at most. If the budget shrinks to less than three times the updates that
    are done, the rate falls from where it is.
    """
    number, total = state.update + 1, state.total
    if not state.peak_update:
        length = settings.warmup if total is None else min(settings.warmup, total // 4)
        state.warm = min(1.0, state.warm + 1 / max(length, 1))
        if state.warm > 1 - 1e-9:
            state.warm, state.peak_update = 1.0, number
        elif total is not None and number > total / 3:
            state.peak_update = number
    elif total is not None:
        left = total - number + 1
        state.decayed = 1.0 if left <= 1 else state.decayed + (1 - state.decayed) / left


def budget_learning_rate(settings: LoopSettings, state: TrainingState) -> float:
    """The learning rate of the update after `state`, after `advance_schedule`."""
    level, number = settings.learning_rate * state.warm, state.update + 1
    if not state.peak_update:
        return level
    return level * _after_warmup(settings, number, state.peak_update, state.decayed, state.plateau)


def _after_warmup(settings: LoopSettings, update: int, peak_update: int, share: float, plateau: float) -> float:
    """Decay factor after the warm-up; `share` is the finished part of the decay, 1 at the last update."""
    match settings.schedule:
        case "constant":
            return 1.0
        case "plateau":
            return plateau
        case "inverse_sqrt":
            return math.sqrt(peak_update / update)
        case "linear":
            return 1 - share
        case "cosine":
            return 0.5 * (1 + math.cos(math.pi * share))


def updates_in_budget(
    seconds_left: float, seconds_per_update: float, validation_seconds: float, validate_every: float
) -> int:
    """Further updates that fit, with a validation every `validate_every` updates and one at the end."""
    seconds = seconds_per_update + validation_seconds / max(validate_every, 1.0)
    return max(0, int((seconds_left - validation_seconds) / seconds))
