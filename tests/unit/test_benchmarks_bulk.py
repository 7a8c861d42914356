"""The cost model of bulk translation."""

import pytest

from benchmarks.bulk import BILLION, Cost, Run, fitted, report


def test_the_fit_recovers_its_parameters_and_predicts_another_run() -> None:
    cost = Cost(start=9.0, rate=500.0, overhead=0.25)

    def measured(workers: int, shards: int) -> Run:
        seconds = cost.seconds(10_000, shards, workers)
        return Run(workers, shards, 10_000, seconds, seconds - cost.start)

    found = fitted(measured(1, 20), measured(1, 160))
    assert (found.start, found.rate, found.overhead) == pytest.approx((9.0, 500.0, 0.25))
    tables = report([measured(2, 20)], found, (40.0, 45.0), "a test")
    assert "| 2 | 20 | 10,000 | 21.5 s | 21.5 s | +0% |" in tables
    hours = found.seconds(BILLION, 10_000, 64) * 64 / 3600
    assert f"| {hours:,.0f} |" in tables
