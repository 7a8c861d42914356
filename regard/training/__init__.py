"""Training: `train` takes a recipe and text, and returns a Translator of the model folder it wrote."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

import torch

from regard.config import Recipe, load_recipe, with_overrides
from regard.contract import Model
from regard.errors import ConfigError, ContractError, ModelFolderError
from regard.folder import Folder, holds_model, load_tensors, model_tensors, read_folder
from regard.process import this_machine, tune_process
from regard.text.batches import BatchPlan
from regard.training.checkpoint import Checkpoints, State
from regard.training.data import Given, Tokenizers, check_valid_is_there, is_toy, open_text, own_valid
from regard.training.finish import finish
from regard.training.interrupt import Interrupted, Interrupts
from regard.training.loop import Run, learn, save, seed_of
from regard.training.optimizer import build_optimizer
from regard.training.prepare import RUN, Prepared, load_prepared, prepare, save_prepared, save_run
from regard.training.progress import Log, Reporter, choose_reporter
from regard.training.validation import Validator
from regard.translator import Translator, usable_device

__all__ = ["Given", "Interrupted", "MakeModel", "train"]

MakeModel = Model | Callable[[int, int], Model]
"""A user's own model, or a function that builds it for the sizes of the source and target vocabularies."""


def train(
    recipe: Recipe | str | PathLike[str] | None = None,
    *,
    train: Given | None = None,
    valid: Given | None = None,
    out: str | PathLike[str],
    model: MakeModel | None = None,
    start_from: str | PathLike[str] | None = None,
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
    target = usable_device(device)
    reporter = choose_reporter(progress)
    out = Path(out)
    cuda = [target] if target.type == "cuda" else []
    try:
        with Interrupts() as interrupts, torch.random.fork_rng(devices=cuda), _unless_started(out, interrupts):
            session = _Session(out, target, reporter, interrupts, tensorboard)
            if resume:
                return session.resume(overrides, model)
            recipe, folder = _choose_recipe(recipe, start_from, overrides)
            if train is None:
                raise ConfigError("no training text was given: name it with --train (or train=).")
            if valid is None and is_toy(train):
                valid = own_valid(train)
            check_valid_is_there(recipe, valid)
            check_out(out, overwrite)
            return session.start(recipe, train, valid, model, folder)
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
        self, recipe: Recipe, train: Given, valid: Given | None, model: MakeModel | None, start: Folder | None
    ) -> Translator:
        """A new training."""
        text = open_text(train, "train")
        valid_text = None if valid is None else open_text(valid, "valid")
        tokenizers = None if start is None else Tokenizers(start.source_tokenizer, start.target_tokenizer)
        fresh = self.out / ".training.part"
        shutil.rmtree(fresh, ignore_errors=True)
        prepared = prepare(recipe, text, valid_text, fresh, tokenizers, self.reporter)
        built = start_model(prepared, model, start, self.reporter)
        save_prepared(prepared, fresh)
        # An older, unfinished training that may be overwritten goes only now, when the new one can begin.
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.out / "log.jsonl").unlink(missing_ok=True)
        fresh.rename(self.folder)
        return self.learn(load_prepared(self.folder), built, State(), own=model is not None)

    def resume(self, overrides: Sequence[str], model: MakeModel | None) -> Translator:
        """Go on with the training in `out`."""
        prepared = load_prepared(self.folder)
        changed = with_overrides(prepared.recipe, overrides)
        if (changed.model, changed.text) != (prepared.recipe.model, prepared.recipe.text):
            raise ConfigError("--resume: the model and the text of a training cannot be changed: start a new one.")
        before = prepared.recipe.training
        if changed != prepared.recipe:
            prepared = Prepared(**{**vars(prepared), "recipe": changed})
            save_run(prepared, self.folder)
        built = build(prepared, model)
        state = self._checked_state(prepared, built)
        ends = [(s.updates, s.epochs, s.budget, s.patience) for s in (before, changed.training)]
        if ends[0] != ends[1]:
            state.total, state.stopped_early = None, False
        elif (state.stopped_early or state.update == state.total) and holds_model(self.out):
            raise ModelFolderError(
                f"{self.out}: its training is finished (update {state.update}): to train longer, "
                f"add --set training.updates={2 * state.update}, or start another with --from {self.out}."
            )
        return self.learn(prepared, built, state, own=model is not None)

    def _checked_state(self, prepared: Prepared, model: Model) -> State:
        # The optimizer is built again in `learn`; here its state only passes through.
        model.to(self.device)
        optimizer = build_optimizer(model, prepared.recipe.training)
        state, machine = Checkpoints(self.folder).load(model, optimizer)
        self.optimizer = optimizer
        differences = this_machine(str(self.device)).differences(machine)
        if differences:
            self.reporter.say(f"warning: not the same machine ({differences}): the last bits will differ.")
        self.reporter.say(f"going on after update {state.update}")
        return state

    def learn(self, prepared: Prepared, model: Model, state: State, own: bool) -> Translator:
        """Run the loop and write the model folder."""
        settings = prepared.recipe.training
        model.to(self.device)
        optimizer = self.optimizer if state.update else build_optimizer(model, settings)
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
                plan=BatchPlan(
                    prepared.train,
                    batch_tokens=settings.batch_tokens,
                    batch_sentences=settings.batch_sentences,
                    seed=settings.seed,
                ),
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
            learn(run)
            save(run)
            return finish(run, prepared, own)


def _choose_recipe(
    recipe: Recipe | str | PathLike[str] | None, start_from: str | PathLike[str] | None, overrides: Sequence[str]
) -> tuple[Recipe, Folder | None]:
    """The recipe; the model and text of a folder to start from take the place of its own."""
    folder = None if start_from is None else read_folder(Path(start_from))
    if recipe is None and folder is None:
        raise ConfigError("no recipe was given: name one (see `regard recipes`), or a model with --from.")
    if isinstance(recipe, Recipe):
        chosen = with_overrides(recipe, overrides)
    elif recipe is not None:
        chosen = load_recipe(Path(recipe), overrides)
    else:
        assert folder is not None
        chosen = with_overrides(folder.recipe, overrides)
    if folder is None:
        return chosen, None
    return chosen.model_copy(update={"model": folder.recipe.model, "text": folder.recipe.text}), folder


def check_out(out: Path, overwrite: bool) -> None:
    """Refuse a folder that is not free."""
    if out.exists() and not out.is_dir():
        raise ModelFolderError(f"{out}: is a file: choose another --out folder.")
    if overwrite:
        return
    if holds_model(out):
        raise ModelFolderError(
            f"{out}: holds a model already: choose another --out, add --overwrite, or --resume to train it longer."
        )
    if (out / "training" / RUN).exists():
        raise ModelFolderError(
            f"{out}: holds an unfinished training: go on with `regard train --resume {out}`, or add --overwrite."
        )


@contextmanager
def _unless_started(out: Path, interrupts: Interrupts) -> Iterator[None]:
    """Leave nothing behind if it ends before the first checkpoint."""
    there_before = out.exists()
    training_before = (out / "training").exists()
    try:
        yield
    except BaseException:
        shutil.rmtree(out / ".training.part", ignore_errors=True)
        if interrupts.nothing_to_save and not training_before:
            shutil.rmtree(out if not there_before else out / "training", ignore_errors=True)
        raise


def start_model(prepared: Prepared, model: MakeModel | None, start: Folder | None, reporter: Reporter) -> Model:
    """A model with its first weights: from the seed, from pretrained vectors, or from another model."""
    built = build(prepared, model)
    if start is not None:
        load_tensors(built, start.weights(), start.path)
    elif model is None:
        _start_vectors(prepared, built, reporter)
    parameters = sum(parameter.numel() for parameter in built.parameters())
    reporter.say(f"{type(built).__name__} with {parameters:,} parameters")
    return built


def build(prepared: Prepared, model: MakeModel | None) -> Model:
    """The recipe's model, or the user's own; weights drawn from the seed."""
    source, target = prepared.tokenizers.source.size, prepared.tokenizers.target.size
    torch.manual_seed(seed_of(prepared.recipe.training.seed, 0))
    if model is None:
        from regard.models import build_model

        return build_model(prepared.recipe.model, source, target)
    built = model if isinstance(model, Model) else model(source, target)
    if not isinstance(built, Model):
        raise ContractError(f"{type(built).__name__} is no regard.contract.Model: derive it from that class.")
    if built.vocabulary_size != target:
        raise ContractError(
            f"the model has {built.vocabulary_size} output words, the target vocabulary {target}: "
            "pass model=lambda source, target: YourModel(source, target), which is called with the right sizes."
        )
    return built


@torch.no_grad()
def _start_vectors(prepared: Prepared, model: Model, reporter: Reporter) -> None:
    """Put pretrained vectors into the embeddings, for the pieces that have one."""
    settings = prepared.recipe.model
    tensors = model_tensors(model)
    for side, path in (("source", settings.source_vectors), ("target", settings.target_vectors)):
        if path is None:
            continue
        from regard.text.vectors import read_vectors

        tokenizer = prepared.tokenizers.source if side == "source" else prepared.tokenizers.target
        raise NotImplementedError((tokenizer, tensors, read_vectors, reporter, side))
