"""Training: `train` takes a recipe and data, and returns the model of the folder it wrote."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from regard.config.recipes import TaskRecipe
from regard.data.text.sources import BackTranslated, Given, Mix
from regard.errors import ConfigError
from regard.models.contract import MakeModel
from regard.process import limit_kernel_cache, tune_process, usable_device, usable_precision
from regard.storage.folder import holds_finished_model
from regard.storage.run import read_run
from regard.training.distributed import joined, local_device
from regard.training.dry_run import DryRun, measure
from regard.training.interrupt import Interrupted
from regard.training.launch import WorkersFailed, is_repeated
from regard.training.progress import check_tensorboard, choose_reporter
from regard.training.session import Session, own_random_numbers
from regard.training.start import FilePath, check_out, choose_recipe
from regard.training.tasks import Data, Trained, task_of
from regard.training.tasks.translation import TranslationTask
from regard.training.team import FINISHED, choose_team, follow, reload
from regard.training.watch import Watched

__all__ = [
    "BackTranslated",
    "Data",
    "DryRun",
    "Given",
    "Interrupted",
    "MakeModel",
    "Mix",
    "WorkersFailed",
    "dry_run",
    "train",
]


def train(
    recipe: TaskRecipe | FilePath | None = None,
    *,
    train: Data | None = None,
    valid: Data | None = None,
    out: FilePath,
    model: MakeModel | None = None,
    start_from: FilePath | None = None,
    resume: bool = False,
    overwrite: bool = False,
    device: str = "cpu",
    workers: int | Literal["auto"] | None = None,
    threads: int | None = None,
    overrides: Sequence[str] = (),
    progress: bool = True,
    tensorboard: bool = False,
    watch: Sequence[Watched] = (),
) -> Trained:
    """Train a model by a recipe and write its folder; the recipe's model decides the task.

    Translation: `train` and `valid` are a pair of aligned files, a TSV file, two columns of one (a TabbedFile),
    "toy:phrases:en-fr", or an iterable of (source, target); a `Mix` is several of them, with weights, and
    `BackTranslated` marks one whose sources are translations. Captioning: a TSV file of images and captions, a folder
    with train.tsv, or "toy:scenes". Classification: a folder of IDX files or of images by class, "toy:two-ears", or an
    ImageSet. Embedded data has its own validation split; for other text and labelled images a small share is held out
    (text: unless `valid` is "none").

    `overrides` change settings of the recipe, as `--set` does: ["training.learning_rate=1e-3", "model.dropout=0.2"]. A
    training ends at the first of training.budget, epochs and updates; "training.budget=none" unsets one.

    `resume` resumes the training in `out`; it needs no recipe and no data. Ctrl-C saves a checkpoint and raises
    `Interrupted`, a KeyboardInterrupt. For translation only: `model` is your own model of the contract (it replaces
    the recipe's [model]); `start_from` is a model folder to fine-tune; `watch` are sentences, or (sentence, reference),
    whose attention is recorded at each validation, for `regard look --over-time`.

    `workers` are processes of this machine that share each batch, with `threads` threads each. The default is one
    process, or as many as the resumed training had; "auto" measures whether several are faster (see `speed.py`).
    Under `torchrun` every rank calls `train` with the same arguments.
    """
    limit_kernel_cache()
    tune_process(threads)
    out, target = Path(out), usable_device(local_device(device))
    if tensorboard:
        check_tensorboard()
    if resume and watch:
        raise ConfigError("a resumed training keeps its watched sentences: leave `watch` out.")
    team = choose_team(workers, threads, out if resume else None, model, target)
    with joined(target) as group:
        if not group.leads:
            return follow(out, model, target, group)
        if is_repeated(out):
            resume, overrides = True, ()
            if holds_finished_model(out):
                group.call(FINISHED)
                return reload(out, device, model)
        if resume:
            task = task_of(read_run(out / "training").recipe, model=model)
        else:
            chosen, folder = choose_recipe(recipe, start_from, overrides)
            task = task_of(chosen, train, valid, model=model, start_from=folder, watch=watch)
        reporter, machine = choose_reporter(progress, task.unit), team.machine(target, group)
        with Session.opened(out, target, reporter, tensorboard, group, machine) as session:
            if resume and team.workers == 1:
                return session.resume(task, overrides)
            if not resume:
                check_out(out, overwrite)
                begun = session.prepare(task)
                opened = task.open(session.folder)
                team, precision = team.decided(opened, begun[0], session.folder, reporter)
                opened = session.settle(opened, precision)
                session.record(team.machine(target, group), *begun)
                if team.workers == 1:
                    return session.learn(opened, *begun)
    return team.train(out, overrides if resume else (), device, progress, tensorboard)


def dry_run(
    recipe: TaskRecipe | FilePath | None = None,
    *,
    train: Data | None = None,
    valid: Data | None = None,
    model: MakeModel | None = None,
    start_from: FilePath | None = None,
    device: str = "cpu",
    workers: int | Literal["auto"] | None = None,
    threads: int | None = None,
    overrides: Sequence[str] = (),
    progress: bool = True,
) -> DryRun:
    """Read the text, run a few updates, and report skipped pairs, memory and time; no model is written.

    Processes, threads and precision are those of `train` with the same arguments. What it has to measure for that is
    kept for the training.
    """
    limit_kernel_cache()
    tune_process(threads)
    target = usable_device(local_device(device))
    team = choose_team(workers, threads, None, model, target)
    reporter = choose_reporter(progress)
    try:
        with own_random_numbers(target), tempfile.TemporaryDirectory(prefix="regard-dry-run-") as scratch:
            chosen, folder = choose_recipe(recipe, start_from, overrides)
            usable_precision(chosen.training.precision, target)
            task = task_of(chosen, train, valid, model=model, start_from=folder)
            if not isinstance(task, TranslationTask):
                raise ConfigError(
                    f"--dry-run: is for models that read text, not for a {chosen.model.kind}: leave it out."
                )
            training = Path(scratch) / "training"
            built = task.prepare(training, reporter).to(target)
            opened = task.open(training)
            team, precision = team.decided(opened, built, training, reporter)
            opened = opened.changed([f"training.precision={precision}"])
            opened.save_recipe(training)  # several processes read it there
            reporter.working("measuring updates")
            return measure(opened, built, target, team, training)
    finally:
        reporter.close()
