"""Training: `train` takes a recipe and text, and returns a Translator of the model folder it wrote."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import torch
from torch.optim import Optimizer

from regard.config import Recipe, TrainingSettings, with_overrides
from regard.contract import MakeModel, Model
from regard.errors import ConfigError, ModelFolderError, TrainingError
from regard.folder import METRICS, Folder, holds_model, read_json, remove_all
from regard.process import this_machine, tune_process
from regard.text.batches import BatchPlan
from regard.training.checkpoint import Checkpoints, State
from regard.training.data import Given, Tokenizers, check_valid_is_there, is_toy, open_text, own_valid
from regard.training.dry_run import DryRun, measure
from regard.training.finish import finish
from regard.training.interrupt import Interrupted, Interrupts
from regard.training.loop import Run, learn, save
from regard.training.optimizer import build_optimizer
from regard.training.prepare import Prepared, load_prepared, prepare, save_prepared, save_run
from regard.training.progress import Log, Reporter, check_tensorboard, choose_reporter
from regard.training.start import FilePath, build, check_out, choose_recipe, start_model
from regard.training.validation import Validator
from regard.translator import Translator, usable_device

__all__ = ["DryRun", "Given", "Interrupted", "MakeModel", "dry_run", "train"]


def train(
    recipe: Recipe | FilePath | None = None,
    *,
    train: Given | None = None,
    valid: Given | None = None,
    out: FilePath,
    model: MakeModel | None = None,
    start_from: FilePath | None = None,
    resume: bool = False,
    overwrite: bool = False,
    device: str = "cpu",
    threads: int | None = None,
    overrides: Sequence[str] = (),
    progress: bool = True,
    tensorboard: bool = False,
) -> Translator:
    """Train a model by a recipe and write its folder.

    `train` and `valid` are a pair of aligned files, a TSV file, "toy:phrases:en-fr", or an iterable of (source,
    target); an embedded corpus brings its own validation split. `model` is your own model of the contract (the
    recipe's [model] is then not used). `start_from` is a model folder whose pieces and weights are the start.
    `resume` goes on with the training in `out`; it needs no recipe and no text. Ctrl-C saves and raises
    `Interrupted`, a KeyboardInterrupt.
    """
    tune_process(threads)
    out, target = Path(out), usable_device(device)
    if tensorboard:
        check_tensorboard()
    reporter = choose_reporter(progress)
    try:
        with Interrupts() as interrupts, _own_random_numbers(target), _tidy(out, interrupts):
            session = _Session(out, target, reporter, interrupts, tensorboard)
            if resume:
                return session.resume(overrides, model)
            chosen, folder = choose_recipe(recipe, start_from, overrides)
            train, valid = _texts(chosen, train, valid)
            check_out(out, overwrite)
            return session.start(chosen, train, valid, model, folder)
    finally:
        reporter.close()


def dry_run(
    recipe: Recipe | FilePath | None = None,
    *,
    train: Given | None = None,
    valid: Given | None = None,
    model: MakeModel | None = None,
    start_from: FilePath | None = None,
    device: str = "cpu",
    threads: int | None = None,
    overrides: Sequence[str] = (),
    progress: bool = True,
) -> DryRun:
    """Read the text and run a few updates, and tell what `train` would skip and take; nothing is kept."""
    tune_process(threads)
    target = usable_device(device)
    reporter = choose_reporter(progress)
    try:
        with _own_random_numbers(target), tempfile.TemporaryDirectory(prefix="regard-dry-run-") as scratch:
            chosen, folder = choose_recipe(recipe, start_from, overrides)
            train, valid = _texts(chosen, train, valid)
            prepared = _prepare(chosen, train, valid, folder, Path(scratch) / "training", reporter)
            built = start_model(prepared, model, folder, reporter)
            return measure(prepared, built, _plan(prepared, chosen.training), target)
    finally:
        reporter.close()


class _Session:
    """One call of `train`."""

    def __init__(
        self, out: Path, device: torch.device, reporter: Reporter, interrupts: Interrupts, tensorboard: bool
    ) -> None:
        self.out = out
        self.folder = out / "training"
        self.device = device
        self.reporter = reporter
        self.interrupts = interrupts
        self.tensorboard = tensorboard

    def start(
        self,
        recipe: Recipe,
        train: Given,
        valid: Given | None,
        model: MakeModel | None,
        start_from: Folder | None,
    ) -> Translator:
        """A new training."""
        fresh = self.out / ".training.part"
        shutil.rmtree(fresh, ignore_errors=True)
        prepared = _prepare(recipe, train, valid, start_from, fresh, self.reporter)
        built = start_model(prepared, model, start_from, self.reporter).to(self.device)
        save_prepared(prepared, fresh)
        del prepared  # it has the token ids open, and some systems rename no folder with open files
        # What may be overwritten goes only now, when the new one can begin.
        remove_all(self.out)
        fresh.rename(self.folder)
        optimizer = build_optimizer(built, recipe.training)
        return self.learn(load_prepared(self.folder), built, optimizer, State(), own=model is not None)

    def resume(self, overrides: Sequence[str], model: MakeModel | None) -> Translator:
        """Go on with the training in `out`."""
        prepared = load_prepared(self.folder)
        before, changed = prepared.recipe, with_overrides(prepared.recipe, overrides)
        if (changed.model, changed.text) != (before.model, before.text):
            raise ConfigError("--resume: model and text of a training cannot be changed: start a new one.")
        prepared = replace(prepared, recipe=changed)
        built = build(prepared, model).to(self.device)
        optimizer = build_optimizer(built, changed.training)
        state = self._load(built, optimizer)
        if _ends(before.training) != _ends(changed.training):
            state.total, state.stopped_early = None, False
        elif self._is_written(state):
            raise ModelFolderError(
                f"{self.out}: its training is finished (update {state.update}): to train longer, "
                f"add --set training.updates={2 * state.update}, or start another with --from {self.out}."
            )
        if changed != before:
            save_run(prepared, self.folder)
        self.reporter.say(f"going on after update {state.update}")
        return self.learn(prepared, built, optimizer, state, own=model is not None)

    def _is_written(self, state: State) -> bool:
        """Whether the model of this very state is in `out`; a crash may have come between the two."""
        if not (state.stopped_early or state.update == state.total) or not holds_model(self.out):
            return False
        return read_json(self.out / METRICS).get("updates") == state.update

    def _load(self, model: Model, optimizer: Optimizer) -> State:
        state, machine = Checkpoints(self.folder).load(model, optimizer)
        differences = this_machine(str(self.device)).differences(machine)
        if differences:
            self.reporter.say(f"warning: not the same machine ({differences}): the last bits will differ.")
        return state

    def learn(self, prepared: Prepared, model: Model, optimizer: Optimizer, state: State, own: bool) -> Translator:
        """Run the loop and write the model folder."""
        settings = prepared.recipe.training
        validator = None
        if prepared.valid is not None:
            pairs = prepared.valid_pairs
            validator = Validator(prepared.valid, pairs, prepared.tokenizers, settings, self.device)
        tensorboard = self.out / "tensorboard" if self.tensorboard else None
        with Log(self.out / "log.jsonl", state.update, tensorboard) as log:
            run = Run(
                out=self.out,
                settings=settings,
                model=model,
                optimizer=optimizer,
                plan=_plan(prepared, settings),
                validator=validator,
                state=state,
                checkpoints=Checkpoints(self.folder),
                machine=this_machine(str(self.device)),
                device=self.device,
                reporter=self.reporter,
                log=log,
                interrupts=self.interrupts,
            )
            if not state.update:
                save(run)
            self.interrupts.nothing_to_save = False
            with _saying_what_is_safe(run):
                learn(run)
                save(run)
                return finish(run, prepared, own)


def _texts(recipe: Recipe, train: Given | None, valid: Given | None) -> tuple[Given, Given | None]:
    if train is None:
        raise ConfigError("no training text was given: name it with --train (or train=).")
    if valid is None and is_toy(train):
        valid = own_valid(train)
    check_valid_is_there(recipe, valid)
    return train, valid


def _prepare(
    recipe: Recipe,
    train: Given,
    valid: Given | None,
    start_from: Folder | None,
    folder: Path,
    reporter: Reporter,
) -> Prepared:
    tokenizers = None
    if start_from is not None:
        tokenizers = Tokenizers(start_from.source_tokenizer, start_from.target_tokenizer)
    valid_text = None if valid is None else open_text(valid, "valid")
    return prepare(recipe, open_text(train, "train"), valid_text, folder, tokenizers, reporter)


def _plan(prepared: Prepared, settings: TrainingSettings) -> BatchPlan:
    return BatchPlan(
        prepared.train,
        batch_tokens=settings.batch_tokens,
        batch_sentences=settings.batch_sentences,
        seed=settings.seed,
    )


def _ends(settings: TrainingSettings) -> tuple[object, ...]:
    """The settings that say when training ends."""
    return settings.updates, settings.epochs, settings.budget, settings.patience


@contextmanager
def _own_random_numbers(device: torch.device) -> Iterator[None]:
    """Training seeds torch's generator at each update; the caller's stream of numbers goes on untouched."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield


@contextmanager
def _saying_what_is_safe(run: Run) -> Iterator[None]:
    """A full or broken disk: the checkpoint before it is whole, so training can go on from there."""
    try:
        yield
    except OSError as error:
        raise TrainingError(
            f"{error.filename or run.out}: cannot be written at update {run.state.update} ({error.strerror}); the "
            f"checkpoint before it is safe: mend that, then `regard train --resume {run.out}`."
        ) from error


@contextmanager
def _tidy(out: Path, interrupts: Interrupts) -> Iterator[None]:
    """Leave nothing behind if it ends before there is anything to resume."""
    new = [path for path in (out / "training", out, *out.parents) if not path.exists()]
    try:
        yield
    except BaseException:
        shutil.rmtree(out / ".training.part", ignore_errors=True)
        if interrupts.nothing_to_save and out / "training" in new:
            shutil.rmtree(out / "training", ignore_errors=True)
            if out in new:
                (out / "log.jsonl").unlink(missing_ok=True)
            for folder in new[1:]:
                with suppress(OSError):  # somebody else may have put something there
                    folder.rmdir()
        raise
