"""Learning rates, budgets, and what validations lead to."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.config.settings import TrainingSettings
from regard.training.budget import Decision, Journal, Pace, updates_asked
from regard.training.checkpoint import Snapshot, TrainingState
from regard.training.loop import seed_of
from regard.training.optimizer import build_optimizer
from regard.training.schedule import learning_rate, next_learning_rate, updates_in_budget
from regard.training.selection import note_gain, worth_keeping
from regard.training.tasks.scheduled_sampling import sampling_share


def settings(**changes: object) -> TrainingSettings:
    return TrainingSettings.model_validate({"updates": 100, "learning_rate": 1.0, "warmup": 10, **changes})


@pytest.mark.parametrize("schedule", ["constant", "inverse_sqrt", "cosine", "linear", "plateau"])
def test_every_schedule_rises_to_its_peak_and_never_above(schedule: str) -> None:
    rates = [learning_rate(settings(schedule=schedule), update, 100) for update in range(1, 101)]
    assert rates[:10] == pytest.approx([step / 10 for step in range(1, 11)])
    assert max(rates) == pytest.approx(1.0)
    assert all(later <= earlier for earlier, later in pairwise(rates[9:]))


def test_schedules_at_known_places() -> None:
    assert learning_rate(settings(schedule="linear"), 55, 100) == pytest.approx(0.5)
    assert learning_rate(settings(schedule="linear"), 100, 100) == 0.0
    assert learning_rate(settings(schedule="cosine"), 55, 100) == pytest.approx(0.5)
    assert learning_rate(settings(schedule="cosine"), 100, 100) == pytest.approx(0.0, abs=1e-12)
    assert learning_rate(settings(schedule="inverse_sqrt"), 40, 100) == pytest.approx(0.5)
    assert learning_rate(settings(schedule="constant"), 100, 100) == 1.0
    assert learning_rate(settings(schedule="plateau"), 50, 100, plateau=0.25) == 0.25


@pytest.mark.parametrize("schedule", ["constant", "inverse_sqrt", "cosine", "linear", "plateau"])
def test_no_warmup_and_a_warmup_longer_than_the_training(schedule: str) -> None:
    assert learning_rate(settings(schedule=schedule, warmup=0), 1, 100) == pytest.approx(1.0, rel=0.05)
    assert learning_rate(settings(schedule=schedule, warmup=1000), 50, 100) == pytest.approx(1.0)
    if schedule not in ("constant", "plateau"):
        assert learning_rate(settings(schedule=schedule, warmup=1000), 100, 100) < 0.8


def rates_in_budget(totals: list[int | None], **changes: object) -> list[float]:
    """The rate of each update, with the last update as it is estimated before it."""
    chosen, state, rates = settings(updates=None, budget="1m", **changes), TrainingState(), []
    for total in totals:
        state.total = total
        rates.append(next_learning_rate(chosen, state))
        state.update += 1
    return rates


@pytest.mark.parametrize("schedule", ["constant", "inverse_sqrt", "cosine", "linear", "plateau"])
def test_a_budget_that_was_estimated_well_has_the_plain_schedule(schedule: str) -> None:
    plain = [learning_rate(settings(schedule=schedule), update, 100) for update in range(1, 101)]
    assert rates_in_budget([100] * 100, schedule=schedule) == pytest.approx(plain, abs=1e-9)


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
@pytest.mark.parametrize(
    "totals",
    [
        [None] * 25 + [878] * 200 + [1314] * 400 + [1040] * 415,
        [None] * 25 + [2000] * 475 + [600] * 100,
        [None] * 25 + [300] * 100 + [1500] * 1375,
        [None] * 25 + [82] * 57,
    ],
)
def test_the_rate_bends_and_never_jumps_and_ends_low(schedule: str, totals: list[int | None]) -> None:
    rates = rates_in_budget(totals, schedule=schedule, warmup=300)
    end = totals[-1]
    assert end == len(totals)
    steps = [abs(later - earlier) for earlier, later in pairwise(rates)]
    assert max(steps) < 0.06
    assert rates[-1] < 0.01
    assert max(rates) > 0.1
    peak = rates.index(max(rates))
    assert all(later >= earlier for earlier, later in pairwise(rates[: peak + 1]))
    assert all(later <= earlier for earlier, later in pairwise(rates[peak:]))


def test_decisions_are_recorded_and_a_damaged_line_ends_them(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "plan.jsonl")
    assert journal.read() == {}
    for update in (25, 50, 75):
        journal.add(update, Decision(10 * update, 5))
    assert journal.read() == {25: Decision(250, 5), 50: Decision(500, 5), 75: Decision(750, 5)}
    journal.keep_until(50)
    assert list(journal.read()) == [25, 50]
    content = journal.path.read_text()
    journal.path.write_text(content.replace("500", "501"))
    assert list(journal.read()) == [25]
    journal.path.write_text(content[:-3])
    assert list(journal.read()) == [25]


def test_the_pace_forgets_the_first_updates_and_follows_a_change() -> None:
    pace = Pace()
    for seconds in [9.0] * 5 + [1.0] * 100:
        pace.note(seconds, 10)
    assert pace.seconds_per_token() == pytest.approx(0.1)
    for _ in range(200):
        pace.note(3.0, 10)
    assert pace.seconds_per_token() == pytest.approx(0.3, rel=0.02)


def test_an_unmeasured_budget_stands_at_the_peak() -> None:
    assert learning_rate(settings(schedule="cosine"), 25, None) == 1.0
    assert learning_rate(settings(schedule="cosine"), 5, None) == 0.5
    assert sampling_share(0.4, 25, None) == 0.0
    assert sampling_share(0.4, 50, 100) == pytest.approx(0.2)


def test_a_budget_leaves_time_for_validations() -> None:
    assert updates_in_budget(100, 1, 0, 10) == 100
    # 2 s per update with its tenth of a validation, and a last validation: 90 s are left for 45 updates
    assert updates_in_budget(100, 1, 10, 10) == 45
    assert updates_in_budget(-5, 1, 10, 10) == 0


def test_the_last_update_is_the_first_limit_that_is_met() -> None:
    assert updates_asked(settings(updates=100, epochs=2), 30) == 60
    assert updates_asked(settings(updates=50, epochs=2), 30) == 50
    assert updates_asked(settings(updates=None, epochs=0.5, accumulate=4), 30) == 4


def test_stalled_validations_lower_the_rate_and_use_up_patience() -> None:
    chosen = settings(schedule="plateau", plateau_patience=1, plateau_factor=0.5, patience=4)
    state = TrainingState()
    seen = []
    for update, score in enumerate([1.0, 2.0, 2.0, 1.5, 1.9, 1.0], start=1):
        state.update = update
        note_gain(chosen, state, score, loss=1.0)
        seen.append((state.best_update, state.stale, state.plateau, state.stopped_early))
    assert seen == [
        (1, 0, 1.0, False),
        (2, 0, 1.0, False),
        (2, 1, 1.0, False),  # an equal score is no gain
        (2, 2, 0.5, False),
        (2, 3, 0.5, False),
        (2, 4, 0.25, True),
    ]


def test_a_lower_loss_breaks_a_tie_but_is_no_gain() -> None:
    chosen, state = settings(patience=2), TrainingState()
    for update, loss in enumerate([0.5, 0.4, 0.45], start=1):
        state.update = update
        note_gain(chosen, state, 100.0, loss)
    assert (state.best_update, state.best_loss) == (2, 0.4)
    assert state.stopped_early
    tied = [Snapshot(1, 100.0, 0.5), Snapshot(2, 100.0, 0.4), Snapshot(3, 100.0, 0.45)]
    assert worth_keeping(chosen, tied) == [tied[1]]


def test_which_weights_are_kept() -> None:
    snapshots = [Snapshot(10, 3.0), Snapshot(20, 5.0), Snapshot(30, 5.0), Snapshot(40, 4.0)]

    def kept(average: str, keep: int) -> list[int]:
        return [s.update for s in worth_keeping(settings(average=average, keep=keep), snapshots)]

    assert kept("none", 3) == [20]
    assert kept("last", 2) == [30, 40]
    assert kept("best", 3) == [20, 30, 40]
    assert kept("best", 1) == [20]
    unscored = [Snapshot(10, None), Snapshot(20, None)]
    assert worth_keeping(settings(average="last", keep=1), unscored) == [Snapshot(20, None)]


def test_adadelta_is_zeilers() -> None:
    """Algorithm 1 of Zeiler 2012, number by number, over a few steps of a quadratic."""
    layer = torch.nn.Linear(3, 1, bias=False).double()
    optimizer = build_optimizer(layer, settings(optimizer="adadelta", learning_rate=1.0))
    x = layer.weight.detach().numpy().ravel().copy()
    squares, updates = np.zeros(3), np.zeros(3)
    for _ in range(5):
        optimizer.zero_grad()
        (layer.weight - 2).square().sum().backward()
        optimizer.step()
        gradient = 2 * (x - 2)
        squares = 0.95 * squares + 0.05 * gradient**2
        change = -np.sqrt(updates + 1e-6) / np.sqrt(squares + 1e-6) * gradient
        updates = 0.95 * updates + 0.05 * change**2
        x = x + change
        np.testing.assert_allclose(layer.weight.detach().numpy().ravel(), x, rtol=0, atol=1e-14)


def test_each_update_has_its_own_seed() -> None:
    seeds = {seed_of(seed, update) for seed in range(5) for update in range(200)}
    assert len(seeds) == 1000
    assert seed_of(3, 7) == seed_of(3, 7)
    assert all(0 <= seed < 2**63 for seed in seeds)
