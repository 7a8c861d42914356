"""When training ends. A time budget is converted to a number of updates, and re-estimated during training.

Estimates depend on the clock, so each one is recorded in OUT/training/plan.jsonl before it takes effect. A resumed
training replays the recorded decisions at the same updates, so it equals the interrupted one.
"""

from __future__ import annotations

import json
import math
import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from regard.config.settings import LoopSettings, duration_seconds
from regard.storage.files import write_bytes
from regard.training.checkpoint import TrainingState
from regard.training.progress import duration
from regard.training.schedule import MEASURE_FROM, MEASURE_UNTIL, REVISIONS, updates_in_budget

if TYPE_CHECKING:
    from regard.training.loop import Run

PLAN = "plan.jsonl"
VALIDATIONS = 5  # at least, within any budget
VALIDATION_TIME = 0.5  # largest share of a budget for these validations; a larger validation set is subsampled
MEMORY = 50  # updates in the moving average of the speed
FRESH = 10  # updates after a resume before the measured speed is used


def updates_asked(settings: LoopSettings, batches_per_epoch: int) -> int | None:
    """The last update that `updates` and `epochs` allow, with the first epoch's number of batches for each epoch."""
    limits = [] if settings.updates is None else [settings.updates]
    if settings.epochs is not None:
        limits.append(max(1, math.ceil(settings.epochs * batches_per_epoch / settings.accumulate)))
    return min(limits, default=None)


def ends(settings: LoopSettings) -> list[object]:
    """The settings that determine the end of training."""
    return [settings.updates, settings.epochs, settings.budget, settings.patience]


def share_done(state: TrainingState) -> float:
    """Finished share of the updates; 0 while the last update is unknown."""
    return 0.0 if state.total is None else state.update / state.total


def how_far(settings: LoopSettings, state: TrainingState, asked: int | None) -> str:
    """The remaining training, in words."""
    parts = [] if asked is None else [f"to update {asked:,}"]
    if settings.budget is not None:
        parts.append(f"for {duration(max(0.0, duration_seconds(settings.budget) - state.seconds))} more")
    return " or ".join(parts)


def lengthen(settings: LoopSettings, state: TrainingState) -> None:
    """Drop the planned end for a new one; the schedule continues towards that."""
    state.ends = ends(settings)
    state.total, state.first_total, state.next_estimate = None, None, 0
    if state.stopped_early:
        state.stopped_early, state.stale = False, 0
    state.validations = 0
    if settings.budget is not None:
        state.warm = 1.0 if not settings.warmup else min(1.0, max(state.warm, state.update / settings.warmup))
        state.peak_update = min(state.update, settings.warmup) if state.warm == 1.0 else 0
        state.decayed = min(1.0, state.seconds / duration_seconds(settings.budget))


class Decision(NamedTuple):
    """A planning decision after an update."""

    total: int  # the last update
    validation_part: int  # used share of the validation set, in thousandths


class Journal:
    """OUT/training/plan.jsonl: one decision per line, with its CRC; a truncated line never took effect."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[int, Decision]:
        """The decisions by update, up to the first damaged line."""
        found: dict[int, Decision] = {}
        try:
            lines = self.path.read_bytes().splitlines()
        except OSError:
            return found
        for line in lines:
            try:
                update, total, part, check = json.loads(line)
                if check != _check(update, total, part):
                    break
            except (ValueError, TypeError):
                break
            found[update] = Decision(total, part)
        return found

    def add(self, update: int, decision: Decision) -> None:
        """Record a decision, synced to disk."""
        with self.path.open("ab") as file:
            file.write(_line(update, decision))
            file.flush()
            os.fsync(file.fileno())

    def keep_until(self, update: int) -> None:
        """Drop the decisions after an update; a new end has replaced them."""
        kept = {number: decision for number, decision in self.read().items() if number <= update}
        write_bytes(self.path, b"".join(_line(number, decision) for number, decision in kept.items()))


def _line(update: int, decision: Decision) -> bytes:
    return json.dumps([update, *decision, _check(update, *decision)]).encode() + b"\n"


def _check(update: int, total: int, part: int) -> int:
    return zlib.crc32(f"{update} {total} {part}".encode())


class Pace:
    """Measured training speed, which converts a time budget to a number of updates."""

    def __init__(self) -> None:
        self.updates = 0
        self.validation_seconds: float | None = None  # of the last one
        self._seconds = 0.0
        self._tokens = 0.0

    def note(self, seconds: float, tokens: int) -> None:
        """Add one update. The first ones are slower and are dropped from the average."""
        self.updates += 1
        if self.updates <= MEASURE_FROM + 1:
            self._seconds, self._tokens = 0.0, 0.0
        keep = 1 - 1 / MEMORY if self.updates > MEMORY else 1.0
        self._seconds = keep * self._seconds + seconds
        self._tokens = keep * self._tokens + tokens

    def seconds_per_token(self) -> float:
        """Average over the latest updates."""
        return self._seconds / self._tokens


class Planner:
    """Plans the end of one training; with a budget, from its measured speed."""

    def __init__(self, run: Run, batches_per_epoch: int) -> None:
        self.run = run
        self.pace = Pace()
        self.asked = updates_asked(run.settings, batches_per_epoch)
        self.every = run.settings.validate_every or batches_per_epoch / run.settings.accumulate
        self.budget = None if run.settings.budget is None else duration_seconds(run.settings.budget)
        self.journal = Journal(run.checkpoints.folder / PLAN)
        self.recorded = {} if self.budget is None else self.journal.read()
        self.last_recorded = max(self.recorded, default=0)
        self._use_part()
        if run.state.total is None and (self.budget is None or (self.asked or MEASURE_UNTIL) < MEASURE_UNTIL):
            run.state.total = self.asked

    def updated(self, seconds: float, tokens: int) -> None:
        """After each update: replay its recorded decision, or make a new one if it is due."""
        self.pace.note(seconds, tokens)
        state = self.run.state
        if self.budget is None:
            return
        decision = self.recorded.get(state.update)
        if decision is None:
            if state.update <= self.last_recorded or state.update == state.total or not self._is_due(self.budget):
                return
            decision = self._decide(self.budget)
            if self.run.group.leads:
                self.journal.add(state.update, decision)
        self._follow(decision)

    def _is_due(self, budget: float) -> bool:
        state, pace = self.run.state, self.pace
        if state.seconds + self._validation_seconds() >= budget:
            return True
        if state.total is None:
            return pace.updates >= MEASURE_UNTIL or state.seconds > budget / 4
        return state.update >= state.next_estimate and pace.updates >= FRESH

    def _decide(self, budget: float) -> Decision:
        """The last update at the current speed; the current update if no time is left."""
        state, each, part = self.run.state, self._validation_seconds(), self.run.state.validation_part
        if state.first_total is None and VALIDATIONS * each > VALIDATION_TIME * budget:
            # Decided once, so that all later validations are comparable.
            part = max(1, int(part * VALIDATION_TIME * budget / (VALIDATIONS * each)))
            each *= part / state.validation_part
        seconds_per_update = self.pace.seconds_per_token() * state.tokens / state.update
        every, total = self.every, state.update
        for _ in range(2):  # the number of validations depends on the number of updates
            more = updates_in_budget(budget - state.seconds, seconds_per_update, each, every)
            total = state.update + more
            every = min(self.every, max(1.0, total / VALIDATIONS))
        return Decision(total if self.asked is None else max(state.update, min(total, self.asked)), part)

    def _follow(self, decision: Decision) -> None:
        state, before = self.run.state, self.run.state.total
        state.total = decision.total
        if decision.validation_part != state.validation_part:
            state.validation_part = decision.validation_part
            self.pace.validation_seconds = None
            self._use_part()
        left = state.total - state.update
        state.next_estimate = state.update + max(1, min(state.total // REVISIONS, left // 4))
        if state.first_total is None:
            state.first_total = state.total
            part = (
                f", with {state.validation_part / 10:.3g} % of the validation set"
                if state.validation_part < 1000
                else ""
            )
            self.run.reporter.say(
                f"the budget of {self.run.settings.budget} allows about {state.total:,} updates{part}."
            )
        if before != state.total:
            self.run.log.write("plan", state.update, {"total": state.total})

    def _use_part(self) -> None:
        if self.run.validator is not None and self.run.state.validation_part < 1000:
            self.run.validator.use_part(self.run.state.validation_part / 1000)

    def _validation_seconds(self) -> float:
        if self.run.validator is None:
            return 0.0
        if self.pace.validation_seconds is not None:
            return self.pace.validation_seconds
        return self.run.validator.cost_tokens * self.pace.seconds_per_token()
