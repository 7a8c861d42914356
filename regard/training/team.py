"""The processes of a training: how many, started by whom, and what the ranks that follow do."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch

from regard.errors import ConfigError, ModelFolderError
from regard.inference.load import load
from regard.models.contract import MakeModel, Predictor
from regard.process import Machine, this_machine
from regard.storage.run import holds_run, read_run
from regard.training.checkpoint import Checkpoints
from regard.training.distributed import Group, is_launched
from regard.training.interrupt import Interrupted
from regard.training.launch import WORKER, WorkersFailed, end_with_launcher, launch
from regard.training.progress import Reporter, Silent
from regard.training.session import Session
from regard.training.speed import Precision, fastest
from regard.training.task import PreparedTask
from regard.training.tasks import Trained, task_of

FINISHED = 0  # in place of a checkpoint's number: there is nothing left to train


@dataclass(frozen=True)
class Team:
    """Processes of one machine, and the threads of each (None: torch's default)."""

    workers: int = 1
    threads: int | None = None
    measures: bool = False  # whether "auto" precision is decided by measuring
    measures_workers: bool = False  # and the number of workers too

    def decided(
        self, task: PreparedTask[object], model: Predictor, folder: Path, reporter: Reporter
    ) -> tuple[Team, Precision]:
        """The processes and the precision of a new training in `folder`, measured where they were left open."""
        if not self.measures:
            precision = task.settings.precision
            return self, "float32" if precision == "auto" else precision
        choice = fastest(task, model, folder, reporter, several=self.measures_workers)
        return team_of(choice.workers) if self.measures_workers else self, choice.precision

    def machine(self, device: torch.device, group: Group) -> Machine:
        """The machine as the ranks will see it, so that they recognise it in the first checkpoint."""
        here = this_machine(str(device), max(self.workers, group.size))
        return here if self.threads is None else replace(here, threads=self.threads)

    def train(self, out: Path, overrides: Sequence[str], device: str, progress: bool, tensorboard: bool) -> Trained:
        """Train in ranks of their own what is prepared in `out`, and load the model."""
        options = [word for override in overrides for word in ("--set", override)]
        options += [*([] if progress else ["--quiet"]), *(["--tensorboard"] if tensorboard else [])]
        arguments = ["train", "--resume", str(out), "--device", device, *options]
        assert self.threads is not None
        status = launch(arguments, self.workers, self.threads, out / "training")
        if status in (128 + signal.SIGINT, 128 + signal.SIGTERM):
            raise Interrupted("", saved=True, signal_number=status - 128)
        if status:
            raise WorkersFailed(status)
        return reload(out, device, None)


def choose_team(
    workers: int | Literal["auto"] | None,
    threads: int | None,
    resumed: Path | None,
    model: MakeModel | None,
    device: torch.device,
) -> Team:
    """What was asked for; else what the resumed training had; else one process, until `decided`."""
    team = _asked_team(workers, threads, resumed, model)
    measures = model is None and device.type == "cpu" and not is_launched()
    return replace(team, measures=measures, measures_workers=measures and workers == "auto" and threads is None)


def _asked_team(
    workers: int | Literal["auto"] | None, threads: int | None, resumed: Path | None, model: MakeModel | None
) -> Team:
    if workers == "auto":
        workers = None
    if is_launched():
        if workers is not None:
            raise ConfigError(f"--workers {workers}: torchrun has started the workers: leave it out.")
        end_with_launcher()
        return Team()
    if workers is not None and workers < 1:
        raise ConfigError(f"workers = {workers}: at least one is needed.")
    if workers is None and resumed is not None:
        before = Checkpoints(resumed / "training").machine()
        workers, kept = int(before.get("workers", 1)), int(before.get("threads", 1))
        threads = kept if threads is None and workers > 1 else threads
    if workers is None or workers == 1:
        return Team()
    if model is not None:
        raise ConfigError("workers: a model of your own trains in one process, or in a script under torchrun.")
    return team_of(workers, threads)


def team_of(workers: int, threads: int | None = None) -> Team:
    """A team of `workers` processes. They share the cores unless `threads` is given."""
    return Team() if workers == 1 else Team(workers, threads or max(1, torch.get_num_threads() // workers))


def reload(out: Path, device: str, model: MakeModel | None) -> Trained:
    """The model of a finished training."""
    return load(out, device) if model is None else load(out, device, model=model)


def follow(out: Path, model: MakeModel | None, device: torch.device, group: Group) -> Trained:
    """Train as a rank that does not lead: wait for the data and the checkpoint to begin with."""
    folder, machine = out / "training", this_machine(str(device), group.size)
    try:
        with Session.opened(out, device, Silent(), False, group, machine) as session:
            if WORKER not in os.environ and _speaks_for_machine():
                print(f"rank {group.rank}: waiting for rank 0 to prepare the training", file=sys.stderr, flush=True)
            number = group.called()
            if number == FINISHED:
                return reload(out, str(device), model)
            if not holds_run(folder):
                raise ModelFolderError(
                    f"{out}: rank 0 prepared the training there, but {socket.gethostname()} (rank {group.rank}) does "
                    "not see it: choose an --out folder that all machines share."
                )
            return session.follow(task_of(read_run(folder).recipe, model=model).open(folder), number)
    except Interrupted as interrupted:  # rank 0 reports it
        raise SystemExit(interrupted.exit_code) from None


def _speaks_for_machine() -> bool:
    """The first rank of each machine that waits."""
    return os.environ["LOCAL_RANK"] == ("1" if os.environ["GROUP_RANK"] == "0" else "0")
