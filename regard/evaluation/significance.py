"""Significance of a difference: over the sentences of a test set (sacrebleu's bootstrap), or over trainings (Welch)."""

from __future__ import annotations

import logging
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.errors import DataError
from regard.evaluation.scores import make_metric

SAMPLES = 1000
POINTS = 20_001  # of the integral of Student's distribution


@dataclass(frozen=True, slots=True)
class Interval:
    """A corpus score with the half width of its 95 % interval, and the p-value of its difference from the first."""

    score: float
    half_width: float
    p_value: float | None  # None for the first system, which the others are compared with


def paired_bootstrap(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    *,
    metrics: Sequence[str] = ("bleu", "chrf"),
    tokenize: str | None = None,
    samples: int = SAMPLES,
) -> dict[str, dict[str, Interval]]:
    """For each system and metric, the score by paired bootstrap resampling (Koehn 2004) against the first system."""
    if not systems:
        raise DataError("there is no system to compare: give the translations of at least one.")
    from sacrebleu.significance import PairedTest

    scorers = {metric: make_metric(metric, tokenize=tokenize, lowercase=False) for metric in metrics}
    named: list[tuple[str, Sequence[str]]] = [(name, list(lines)) for name, lines in systems.items()]
    logging.getLogger("sacrebleu").setLevel(logging.WARNING)  # it logs every resampling
    alone = len(named) == 1
    # a paired test needs two systems; a system paired with itself has the same interval
    test = PairedTest(named * 2 if alone else named, scorers, references, test_type="bs", n_samples=samples)
    _, found = test()
    columns: dict[str, list[Any]] = {metric: found[_column(found, metric)] for metric in metrics}
    return {
        name: {
            metric: _interval(column[place], None if place == 0 else column[0]) for metric, column in columns.items()
        }
        for place, name in enumerate(systems)
    }


def _column(found: Mapping[str, Any], metric: str) -> str:
    """sacrebleu's name of a metric: chrF2 for chrf."""
    return next(name for name in found if name.lower().startswith(metric))


def _interval(result: Any, first: Any | None) -> Interval:
    """`first` is the result of the first system, None for itself."""
    if first is None:
        p_value = None
    elif result.score == first.score:
        p_value = 1.0  # sacrebleu counts differences strictly above the observed one, so 0 would be significant
    else:
        p_value = float(result.p_value)
    return Interval(float(result.score), float(result.ci or 0.0), p_value)


def welch_p(one: Sequence[float], other: Sequence[float]) -> float | None:
    """The two-sided p-value of Welch's t-test that both means are equal; None with fewer than two values each."""
    if min(len(one), len(other)) < 2:
        return None
    errors = [statistics.variance(values) / len(values) for values in (one, other)]
    difference = statistics.fmean(one) - statistics.fmean(other)
    if not sum(errors):
        return 1.0 if difference == 0 else 0.0
    t = difference / math.sqrt(sum(errors))
    freedom = sum(errors) ** 2 / sum(
        error**2 / (len(values) - 1) for error, values in zip(errors, (one, other), strict=True)
    )
    # With t = √ν tan θ, Student's density is proportional to cos^(ν − 1) θ.
    reached = math.atan(abs(t) / math.sqrt(freedom))
    return _integral(reached, freedom - 1) / _integral(0.0, freedom - 1)


def _integral(start: float, power: float) -> float:
    """∫ cos^power from `start` to π/2; power ≥ 0."""
    angles = np.linspace(start, math.pi / 2, POINTS)
    return float(np.trapezoid(np.cos(angles).clip(0) ** power, angles))
