"""Saving checkpoints, and stopping on a loss that is not finite."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from shlex import quote
from typing import TYPE_CHECKING

from regard.errors import TrainingError
from regard.models.contract import Batch
from regard.process import default_threads
from regard.storage.folder import holds_model
from regard.training.checkpoint import sane_loss
from regard.training.interrupt import Interrupted

if TYPE_CHECKING:
    from regard.training.loop import Run


FIRST_SAVE = 15.0  # seconds to the first checkpoint after the start
LEAST, MOST = 15.0, 300.0  # seconds between checkpoints
EXIT_USER_ERROR = 2
SHARE = 0.01  # share of the time spent saving, at most


class SaveClock:
    """Checkpoint interval: as short as possible with saving below 1 % of the time, within LEAST and MOST."""

    def __init__(self, save_every: float | None) -> None:
        self.fixed = None if save_every is None else 60 * save_every
        self.interval = FIRST_SAVE if self.fixed is None else self.fixed
        self.saved_at = time.monotonic()

    def due(self) -> bool:
        """Whether a checkpoint is due."""
        return time.monotonic() - self.saved_at >= self.interval

    def save(self, run: Run) -> None:
        """Save, and adapt the interval to the time it took."""
        started = time.monotonic()
        save(run)
        self.saved_at = time.monotonic()
        if self.fixed is None:
            self.interval = min(MOST, max(LEAST, (self.saved_at - started) / SHARE))


def save(run: Run) -> None:
    """Write a checkpoint."""
    state = run.state
    loss = state.validated_loss if state.validated == state.update else None
    good = loss is not None and sane_loss(loss, run.model.vocabulary_size, state.first_loss)
    run.checkpoints.save(state, run.model, run.optimizer, run.machine.to_dict(), good)


def save_and_stop(run: Run) -> None:
    """Save a checkpoint and raise `Interrupted` with the command to resume."""
    save(run)
    model = f" The best model so far is in {run.out}." if holds_model(run.out) else ""
    alone, threads = run.group.size == 1, run.machine.threads  # several ranks resume with their threads in any case
    same = f" --threads {threads}" if alone and threads != default_threads() else ""
    raise Interrupted(
        f"stopped and saved after update {run.state.update}.{model} Resume with: `regard train --resume "
        f"{quote(str(run.out))}{same}`",
        saved=True,
        signal_number=run.interrupts.requested_by,
    )


def stop_if_asked(run: Run) -> Callable[[], None]:
    """A callback that aborts validation when the user wants to stop; resuming repeats it.

    Several ranks finish it and stop together after the next update: one alone would be missing in an exchange.
    """

    def check() -> None:
        if run.interrupts.requested and run.group.size == 1:
            save_and_stop(run)

    return check


def note_loss(run: Run, loss: float) -> None:
    """Record the loss per token, without smoothing, of the weights before this update."""
    if run.state.first_loss is None:
        run.state.first_loss = loss
    run.checkpoints.prove(sane_loss(loss, run.model.vocabulary_size, run.state.first_loss))


def refuse_update(run: Run, batches: list[Batch], loss: float, norm: float) -> None:
    """A loss or gradient that is not finite: name the batch and stop. Nothing is saved.

    The updates before may have ruined the weights already, so resuming takes the last checkpoint known to be good.
    """
    stop_quietly(run)
    indices = [index for batch in batches for index in batch.indices]
    named = ", ".join(str(index) for index in sorted(indices)[:10])
    more = f" and {len(indices) - 10} more" if len(indices) > 10 else ""
    what = f"the loss is {loss}" if not math.isfinite(loss) else f"the gradient's norm is {norm}"
    raise TrainingError(
        f"update {run.state.update + 1}: {what}, in the batch of the {run.task.examples} {named}{more} (counted from "
        f"0, without the skipped ones). {advice_to_resume(run)}"
    )


def stop_quietly(run: Run) -> None:
    """End a rank whose lead reports the same error."""
    if not run.group.leads:
        raise SystemExit(EXIT_USER_ERROR)


def advice_to_resume(run: Run) -> str:
    """After a loss that is not finite: make the last good checkpoint the newest, and return the command to resume."""
    update = run.checkpoints.only_good()
    rate = f"{run.settings.learning_rate / 3:.1g}"
    return (
        f"The last checkpoint with a sane loss, of update {update}, is kept: lower the rate, as in "
        f"`regard train --resume {quote(str(run.out))} --set training.learning_rate={rate}`."
    )
