"""One training from its first checkpoint to its model folder, for any task: starting, resuming, cleaning up."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import TypeVar

import torch
from torch.optim import Optimizer

from regard.config.settings import LoopSettings, duration_seconds
from regard.errors import ConfigError, ModelFolderError, TrainingError
from regard.machine.processor import settings_text
from regard.models.contract import Predictor
from regard.process import Machine, usable_precision
from regard.storage.files import check_files, checked_files, reason, sha256, sync_folder, write_checksums
from regard.storage.folder import METRICS, holds_model, remove_all, remove_training
from regard.storage.lock import only_writer
from regard.storage.reading import read_json
from regard.storage.run import RUN
from regard.training.begun import BEGUN
from regard.training.budget import PLAN, Journal, ends, how_far, lengthen, updates_asked
from regard.training.checkpoint import Checkpoints, FollowedCheckpoints, TrainingState
from regard.training.distributed import Group, must_not_share_store
from regard.training.finish import choose_weights, farewell, training_metrics
from regard.training.interrupt import Interrupts
from regard.training.launch import mark_job
from regard.training.loop import Run, learn
from regard.training.optimizer import build_optimizer
from regard.training.progress import Log, NoLog, Reporter, duration
from regard.training.saving import save
from regard.training.task import PreparedTask, Task

Learned = TypeVar("Learned")


class Session:
    """One call of `train`; `opened` makes one."""

    def __init__(
        self,
        out: Path,
        device: torch.device,
        reporter: Reporter,
        interrupts: Interrupts,
        tensorboard: bool,
        group: Group,
        machine: Machine,
    ) -> None:
        self.out = out
        self.folder = out / "training"
        self.device = device
        self.reporter = reporter
        self.interrupts = interrupts
        self.tensorboard = tensorboard
        self.group = group
        self.machine = machine

    @classmethod
    @contextmanager
    def opened(
        cls, out: Path, device: torch.device, reporter: Reporter, tensorboard: bool, group: Group, machine: Machine
    ) -> Iterator[Session]:
        """A session that removes its files if it ends before the first checkpoint; only the lead has files."""
        try:
            with Interrupts() as interrupts, own_random_numbers(device), ExitStack() as files:
                if group.leads:
                    files.enter_context(only_writer(out, "training", "--out"))
                    files.enter_context(_tidy(out, interrupts))
                yield cls(out, device, reporter, interrupts, tensorboard, group, machine)
        finally:
            reporter.close()

    def prepare(self, asked: Task[Learned]) -> tuple[Predictor, Optimizer, TrainingState, Checkpoints]:
        """Read the data and write the first checkpoint."""
        self.check_precision(asked.recipe.training)
        fresh = self.out / ".training.part"
        if not asked.goes_on:
            shutil.rmtree(fresh, ignore_errors=True)
        model = asked.prepare(fresh, self.reporter).to(self.device)
        settings = asked.recipe.training
        optimizer, state = build_optimizer(model, settings), TrainingState(ends=ends(settings))
        mark_job(fresh)
        write_checksums(fresh, (str(path.relative_to(fresh)) for path in fresh.rglob("*") if path.is_file()))
        # The folder appears with its first checkpoint: whatever a kill leaves can be resumed or started again.
        Checkpoints(fresh).save(state, model, optimizer, self.machine.to_dict())
        # What may be overwritten goes only now, when the new one can begin.
        remove_all(self.out)
        fresh.rename(self.folder)
        sync_folder(self.out)
        checkpoints = Checkpoints(self.folder)
        checkpoints.await_proof()
        return model, optimizer, state, checkpoints

    def settle(self, task: PreparedTask[Learned], precision: str) -> PreparedTask[Learned]:
        """Record the chosen precision in place of "auto"."""
        if task.settings.precision != "auto":
            return task
        settled = task.changed([f"training.precision={precision}"])
        self._save_recipe(settled)
        return settled

    def record(
        self,
        machine: Machine,
        model: Predictor,
        optimizer: Optimizer,
        state: TrainingState,
        checkpoints: Checkpoints,
    ) -> None:
        """Save the first checkpoint again if the machine is to be used in another way."""
        if machine != self.machine:
            self.machine = machine
            checkpoints.save(state, model, optimizer, machine.to_dict())

    def resume(self, asked: Task[Learned], overrides: Sequence[str]) -> Learned:
        """Resume the training in `out`."""
        self._check_prepared()
        before = asked.open(self.folder)
        task = before.changed(_with_one_end(overrides))
        self.check_precision(task.settings)
        model = task.build().to(self.device)
        optimizer = build_optimizer(model, task.settings)
        checkpoints = Checkpoints(self.folder)
        state = self._load(checkpoints, model, optimizer)
        if state.ends != ends(task.settings):
            Journal(self.folder / PLAN).keep_until(state.update)
            lengthen(task.settings, state)
        elif self._is_written(state):
            longer = f"regard train --resume {quote(str(self.out))} --set {_later(task.settings, state)}"
            raise ModelFolderError(
                f"{self.out}: its training is finished (update {state.update}): to train longer, `{longer}`; or start "
                f"another from it, with --from {quote(str(self.out))}."
            )
        self._say_how_far(task, state)
        if task.recipe != before.recipe:
            self._save_recipe(task)
        return self.learn(task, model, optimizer, state, checkpoints)

    def follow(self, task: PreparedTask[Learned], number: int) -> Learned:
        """Train with the lead from its checkpoint of this number."""
        self.check_precision(task.settings)
        model = task.build().to(self.device)
        optimizer = build_optimizer(model, task.settings)
        checkpoints = FollowedCheckpoints(self.folder)
        state = checkpoints.read(number, model, optimizer)
        if state.ends != ends(task.settings):
            lengthen(task.settings, state)
        return self.learn(task, model, optimizer, state, checkpoints)

    def _say_how_far(self, task: PreparedTask[Learned], state: TrainingState) -> None:
        """Report the remaining training; an end in the past is refused."""
        settings = task.settings
        asked = updates_asked(settings, len(task.plan().epoch(state.epoch)))
        used_up = settings.budget is not None and state.seconds >= duration_seconds(settings.budget)
        if state.total is None and (used_up or (asked is not None and asked <= state.update)):
            raise ConfigError(
                f"{self.out}: is at update {state.update} after {duration(state.seconds)}, which is the end already: "
                f"name a later one, such as --set {_later(settings, state)}."
            )
        if state.update:
            self.reporter.say(f"resuming {how_far(settings, state, asked)}")

    def _check_prepared(self) -> None:
        """Verify the checksum of every prepared file."""
        try:
            check_files(self.folder)
        except ModelFolderError as error:
            raise ModelFolderError(f"{str(error).rstrip('.')}: start a new training with --overwrite.") from None

    def _save_recipe(self, task: PreparedTask[Learned]) -> None:
        """Replace run.json atomically, with its checksum."""
        fresh = self.folder / ".recipe.part"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        task.save_recipe(fresh)
        names = checked_files(self.folder)
        write_checksums(self.folder, names, also={RUN: sha256(fresh / RUN)})
        os.replace(fresh / RUN, self.folder / RUN)
        sync_folder(self.folder)
        write_checksums(self.folder, names)
        fresh.rmdir()

    def check_precision(self, settings: LoopSettings) -> None:
        """Refuse a precision that the processor does not support, before any computation."""
        limits = usable_precision(settings.precision, self.device)
        if limits:
            self.reporter.say(
                f"warning: this processor advertises instructions that it does not execute: "
                f"training with {settings_text(limits)}."
            )

    def _is_written(self, state: TrainingState) -> bool:
        """Whether `out` holds the model of this state; a crash may have come between checkpoint and model."""
        if not (state.stopped_early or state.update == state.total) or not holds_model(self.out):
            return False
        metrics = read_json(self.out / METRICS)
        return metrics.get("updates") == state.update and not metrics.get("unfinished")

    def _load(self, checkpoints: Checkpoints, model: Predictor, optimizer: Optimizer) -> TrainingState:
        loaded = checkpoints.load(model, optimizer)
        for fault in loaded.damaged:
            self.reporter.say(f"warning: {fault}")
        if loaded.state.update or loaded.damaged:
            self.reporter.say(f"resuming after update {loaded.state.update}, from {loaded.name}")
        differences = self.machine.differences(loaded.machine)
        if differences:
            self.reporter.say(f"warning: not the same machine ({differences}): the last bits will differ.")
        return loaded.state

    def learn(
        self,
        task: PreparedTask[Learned],
        model: Predictor,
        optimizer: Optimizer,
        state: TrainingState,
        checkpoints: Checkpoints,
    ) -> Learned:
        """Run the loop and write the model folder."""
        if self.group.leads:
            if self.group.size > 1:
                self.reporter.say(f"training in {self.group.size} processes")
            if must_not_share_store():
                self.reporter.say(
                    "warning: after a loss torchrun cannot restart: start it with TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1."
                )
            self.group.call(checkpoints.number())
        self.group.attach(model)
        with self._log(state) as log:
            run = Run(
                out=self.out,
                task=task,
                settings=task.settings,
                model=model,
                optimizer=optimizer,
                plan=task.plan(),
                validator=task.validator(self.device, self.group),
                state=state,
                checkpoints=checkpoints,
                machine=self.machine,
                device=self.device,
                reporter=self.reporter,
                log=log,
                interrupts=self.interrupts,
                group=self.group,
            )
            self.interrupts.nothing_to_save = False
            with _saying_what_is_safe(run):
                learn(run)
                save(run)
                self.group.wait()
                valid = choose_weights(run)
                learned = task.finish(run, training_metrics(run, valid))
                self.group.wait()
                log.write("finished", state.update, {"seconds": state.seconds})
                self.reporter.say(farewell(run, valid))
                return learned

    def _log(self, state: TrainingState) -> Log:
        if not self.group.leads:
            return NoLog()
        tensorboard = self.out / "tensorboard" if self.tensorboard else None
        return Log(self.out / "log.jsonl", state.update, state.validated, tensorboard)


ENDS = ("updates", "epochs", "budget")


def _with_one_end(overrides: Sequence[str]) -> list[str]:
    """The end set on resume replaces all ends set before."""
    named = [name for name in ENDS if any(_names(override, name) for override in overrides)]
    return [*overrides, *(f"training.{name}=none" for name in ENDS if named and name not in named)]


def _names(override: str, end: str) -> bool:
    key, _, value = override.partition("=")
    return key.strip() == f"training.{end}" and value.strip().lower() != "none"


def _later(settings: LoopSettings, state: TrainingState) -> str:
    """A setting that would extend a finished training."""
    if state.stopped_early and settings.patience is not None:
        return f"training.patience={2 * settings.patience}"
    if settings.budget is not None:
        longer = 2 * max(duration_seconds(settings.budget), state.seconds)
        return f"training.budget={math.ceil(longer)}s"
    return f"training.updates={2 * max(state.update, 1)}"


@contextmanager
def own_random_numbers(device: torch.device) -> Iterator[None]:
    """Restore the caller's random state: training seeds torch's generator at each update."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield


@contextmanager
def _saying_what_is_safe(run: Run) -> Iterator[None]:
    """Report a full or broken disk; the previous checkpoint is intact, so training can be resumed."""
    try:
        yield
    except OSError as error:
        unnamed = error.filename is None or ".part" in str(error.filename)
        path = run.out if unnamed else Path(error.filename)
        why = reason(error, path)
        raise TrainingError(
            f"{path}: cannot be written at update {run.state.update} ({why}); the previous checkpoint is intact: fix "
            f"that, then `regard train --resume {run.out}`."
        ) from error


@contextmanager
def _tidy(out: Path, interrupts: Interrupts) -> Iterator[None]:
    """Remove all files if training ends before the first checkpoint."""
    new = not (out / "training").exists()
    log = (out / "log.jsonl").exists()
    try:
        yield
    except BaseException as error:
        if isinstance(error, Exception) or not (out / ".training.part" / BEGUN).exists():
            shutil.rmtree(out / ".training.part", ignore_errors=True)
        if interrupts.nothing_to_save and new:
            with suppress(OSError):
                remove_training(out)
            if not log:
                (out / "log.jsonl").unlink(missing_ok=True)
        raise
