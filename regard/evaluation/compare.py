"""Is the difference between two systems more than chance: paired significance tests by sacrebleu."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from regard.errors import ConfigError, DataError, did_you_mean
from regard.evaluation.scores import fitting_tokenizer, make_metric, reference_streams

if TYPE_CHECKING:
    from sacrebleu.significance import Result

TESTS = {"randomisation": "ar", "bootstrap": "bs"}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One metric of two systems, and how often chance alone gives so large a difference."""

    name: str
    baseline: float
    system: float
    p_value: float
    signature: str

    def to_dict(self) -> dict[str, str | float]:
        """Plain values for a JSON file."""
        return asdict(self)


def compare(
    baseline: Sequence[str],
    system: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    *,
    metrics: Sequence[str] = ("bleu", "chrf"),
    test: str = "randomisation",
    samples: int | None = None,
    tokenize: str | None = None,
    lowercase: bool = False,
) -> list[Comparison]:
    """Compare two systems on the same sentences, by approximate randomisation or the paired bootstrap.

    Without `samples` sacrebleu's own numbers are used: 10,000 shuffles or 1,000 resamples. The random seed is
    fixed and stands in the signature. Systems with equal output get p = 1.
    """
    from sacrebleu.significance import PairedTest

    streams = reference_streams(baseline, references)
    if len(system) != len(baseline):
        raise DataError(f"the systems have {len(baseline)} and {len(system)} lines: translate the same text.")
    if test not in TESTS:
        raise ConfigError(f"significance test {test!r} is unknown: {did_you_mean(test, TESTS)}")
    if samples is not None and samples < 1:
        raise ConfigError(f"samples = {samples} is impossible: give at least 1, or leave it out.")
    if tokenize == "auto":
        tokenize = fitting_tokenizer(streams[0])
    scorers = {metric: make_metric(metric, tokenize=tokenize, lowercase=lowercase) for metric in metrics}
    systems: list[tuple[str, Sequence[str]]] = [("baseline", baseline), ("system", system)]
    signatures, results = PairedTest(systems, scorers, streams, TESTS[test], n_samples=samples or 0)()
    # sacrebleu counts differences above the observed one, so equal systems would look significant.
    same = list(baseline) == list(system)
    comparisons = []
    for name, signature in signatures.items():
        first, second = (_scored(result) for result in results[name])
        assert second.p_value is not None  # only the baseline has none
        p_value = 1.0 if same else second.p_value
        comparisons.append(Comparison(name, first.score, second.score, p_value, str(signature)))
    return comparisons


def _scored(result: str | Result) -> Result:
    # Only the column of the systems' names, which is not a metric, holds strings.
    assert not isinstance(result, str)
    return result
