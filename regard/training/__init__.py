"""Training: `train` takes a recipe and text, and returns a Translator of the model folder it wrote."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from regard.config.settings import Recipe
from regard.data.text.sources import (
    NO_VALIDATION,
    Given,
    Tokenizers,
    check_valid_is_there,
    hold_out,
    is_toy,
    open_text,
    own_valid,
)
from regard.errors import ConfigError
from regard.inference.translator import Translator
from regard.models.contract import MakeModel, Model
from regard.process import tune_process, usable_device, usable_precision
from regard.storage.folder import Folder
from regard.training.dry_run import DryRun, measure
from regard.training.interrupt import Interrupted
from regard.training.prepare import Prepared, load_prepared, prepare, save_prepared
from regard.training.progress import Reporter, check_tensorboard, choose_reporter
from regard.training.session import Session, own_random_numbers
from regard.training.start import FilePath, check_out, choose_recipe, start_model
from regard.training.tasks.translation import TextTask, batch_plan, translator_of
from regard.training.watch import Watched, check_sentences, load_sentences, save_sentences

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
    watch: Sequence[Watched] = (),
) -> Translator:
    """Train a model by a recipe and write its folder.

    `train` and `valid` are a pair of aligned files, a TSV file, "toy:phrases:en-fr", or an iterable of (source,
    target); an embedded corpus brings its own validation split, from others a small share is held out unless `valid`
    is "none". `model` is your own model of the contract (the
    recipe's [model] is then not used). `start_from` is a model folder whose pieces and weights are the start.
    `resume` goes on with the training in `out`; it needs no recipe and no text. Ctrl-C saves and raises
    `Interrupted`, a KeyboardInterrupt. `watch` are sentences, or (sentence, reference), whose attention is kept at
    each validation, for `regard look --over-time`.
    """
    tune_process(threads)
    out, target = Path(out), usable_device(device)
    if tensorboard:
        check_tensorboard()
    reporter = choose_reporter(progress)

    def reopen(folder: Path) -> TextTask:
        return TextTask(load_prepared(folder), model, load_sentences(folder))

    with Session.opened(out, target, reporter, tensorboard) as session:
        if resume:
            if watch:
                raise ConfigError("a resumed training watches what it watched before: leave `watch` out.")
            return session.resume(reopen, overrides)
        chosen, folder = choose_recipe(recipe, start_from, overrides)
        session.check_precision(chosen.training)
        text, valid_text = _texts(chosen, train, valid)
        check_out(out, overwrite)

        def begin(fresh: Path) -> Model:
            prepared = _prepare(chosen, text, valid_text, folder, fresh, reporter)
            built = start_model(prepared, model, folder, reporter)
            if watch:
                check_sentences(translator_of(prepared, built, out, target), watch)
                save_sentences(watch, fresh)
            save_prepared(prepared, fresh)
            return built

        return session.start(begin, reopen)


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
        with own_random_numbers(target), tempfile.TemporaryDirectory(prefix="regard-dry-run-") as scratch:
            chosen, folder = choose_recipe(recipe, start_from, overrides)
            usable_precision(chosen.training.precision, target)
            train, valid = _texts(chosen, train, valid)
            prepared = _prepare(chosen, train, valid, folder, Path(scratch) / "training", reporter)
            built = start_model(prepared, model, folder, reporter)
            return measure(prepared, built, batch_plan(prepared, chosen.training), target)
    finally:
        reporter.close()


def _texts(recipe: Recipe, train: Given | None, valid: Given | None) -> tuple[Given, Given | None]:
    """What to learn from and to validate on; no text for the latter is one that is held out, NO_VALIDATION is none."""
    if train is None:
        raise ConfigError("no training text was given: name it with --train (or train=).")
    if valid is None and is_toy(train):
        valid = own_valid(train)
    check_valid_is_there(recipe, None if _is_none(valid) else "given or held out")
    return train, valid


def _is_none(valid: Given | None) -> bool:
    return isinstance(valid, str) and valid == NO_VALIDATION


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
    text = open_text(train, "train")
    valid_text = None if valid is None or _is_none(valid) else open_text(valid, "valid")
    if valid is None:
        if (held := hold_out(text)) is not None:
            text, valid_text, said = held
            reporter.say(said)
        else:
            check_valid_is_there(recipe, None)
            reporter.say("warning: too few pairs to hold some out: there is no validation.")
    return prepare(recipe, text, valid_text, folder, tokenizers, reporter)
