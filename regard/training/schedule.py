"""The learning rate as a pure function of the update number, and the turning of a time budget into updates."""

from __future__ import annotations

import math

from regard.config.settings import LoopSettings, TrainingSettings

# The first updates are slower (memory is fetched, kernels are chosen), so the speed is measured after them.
MEASURE_FROM = 5
MEASURE_UNTIL = 25
REVISIONS = 20  # how often a budget is turned into updates once more


def learning_rate(settings: LoopSettings, update: int, total: int | None, plateau: float = 1.0) -> float:
    """The rate of update 1, 2, …, `total`; `plateau` is the factor that stalled validations have earned.

    All schedules rise linearly over the warm-up. While a budget is still being measured, `total` is None and the
    schedule stands at its peak.
    """
    peak = settings.learning_rate
    warmup = settings.warmup if total is None else min(settings.warmup, total)
    if update <= warmup:
        return peak * update / warmup
    match settings.schedule:
        case "constant":
            return peak
        case "plateau":
            return peak * plateau
        case "inverse_sqrt":
            return peak * math.sqrt(max(warmup, 1) / update)
        case "linear":
            return peak * (1 - _share(update, warmup, total))
        case "cosine":
            return peak * 0.5 * (1 + math.cos(math.pi * _share(update, warmup, total)))


def _share(update: int, warmup: int, total: int | None) -> float:
    """How much of the way from the end of the warm-up to the last update is done: 1 at the last."""
    return 0.0 if total is None else min(1.0, (update - warmup) / (total - warmup))


def sampling_share(settings: TrainingSettings, update: int, total: int | None) -> float:
    """Scheduled sampling's share at an update: it grows linearly and is reached at the last one."""
    return 0.0 if total is None else settings.scheduled_sampling * min(1.0, update / total)


def updates_in_budget(
    seconds_left: float, seconds_per_update: float, validation_seconds: float, validate_every: float
) -> int:
    """Further updates that fit, with a validation after every so many of them and one at the end."""
    seconds = seconds_per_update + validation_seconds / max(validate_every, 1.0)
    return max(0, int((seconds_left - validation_seconds) / seconds))
