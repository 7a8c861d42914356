"""Translation as a task of the training loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.config.languages import languages_of_text
from regard.config.recipes import with_overrides
from regard.config.settings import Recipe, TrainingSettings
from regard.data.text.batches import BatchPlan
from regard.data.text.overlap import load_fingerprint
from regard.data.text.sources import (
    NO_VALIDATION,
    Given,
    Mix,
    Tokenizers,
    check_valid_is_there,
    hold_out,
    is_toy,
    open_text,
    own_valid,
    spread,
)
from regard.errors import ConfigError
from regard.inference.folder import Folder, write_folder
from regard.inference.translator import Translator
from regard.look.moments import keep_moment
from regard.models.contract import Batch, MakeModel, Model, Output
from regard.storage.card import translator_card
from regard.storage.folder import WORDS_FILE
from regard.storage.weights import model_tensors
from regard.training.distributed import Group
from regard.training.int8 import measure_int8
from regard.training.loop import Run
from regard.training.prepare import Prepared, load_prepared, prepare, save_prepared, save_run
from regard.training.progress import Reporter
from regard.training.task import PreparedTask, Task
from regard.training.tasks.guided_attention import guided_output
from regard.training.tasks.initial_model import build, initial_model
from regard.training.tasks.scheduled_sampling import sample_inputs, sampling_share
from regard.training.validation import Validator
from regard.training.watch import Watched, check_sentences, load_sentences, look_at_sentences, save_sentences


@dataclass(frozen=True)
class TranslationTask(Task[Translator]):
    """Parallel text, and the recipe's model or the user's own."""

    goes_on = True
    recipe: Recipe
    train: Given | Mix | None = None
    valid: Given | Mix | None = None
    model: MakeModel | None = None  # the user's own
    start_from: Folder | None = None  # a model to fine-tune
    watch: Sequence[Watched] = ()

    def prepare(self, folder: Path, reporter: Reporter) -> Model:
        """Train the subword tokenizer, encode the text, and build the model."""
        prepared = self.read(folder, reporter)
        built = initial_model(prepared, self.model, self.start_from, reporter)
        if self.watch:
            check_sentences(translator_of(prepared, built, folder.parent, torch.device("cpu")), self.watch)
            save_sentences(self.watch, folder)
        save_prepared(prepared, folder)
        return built

    def read(self, folder: Path, reporter: Reporter) -> Prepared:
        """Read the text into the folder."""
        train, valid = self.train, self.valid
        if train is None:
            raise ConfigError("no training text was given: name it with --train (or train=).")
        if valid is None and not isinstance(train, Mix) and is_toy(train):
            valid = own_valid(train)
        without = isinstance(valid, str) and valid == NO_VALIDATION
        check_valid_is_there(self.recipe, None if without else "given or held out")
        text = open_text(train, "train")
        recipe = with_languages(self.recipe, text.description)
        valid_text = None if valid is None or without else open_text(valid, "valid")
        if valid is None:
            if (held := hold_out(text)) is not None:
                text, valid_text, said = held
                reporter.say(said)
            else:
                check_valid_is_there(self.recipe, None)
                reporter.say("warning: too few pairs to hold some out: there is no validation.")
        start = self.start_from
        tokenizers = None if start is None else Tokenizers(start.source_tokenizer, start.target_tokenizer)
        prepared = prepare(recipe, text, valid_text, folder, tokenizers, reporter)
        if start is None or prepared.words is None:
            return prepared
        before = load_fingerprint(start.path, WORDS_FILE)
        return replace(prepared, words=None if before is None else np.union1d(before, prepared.words))

    def open(self, folder: Path) -> PreparedTranslation:
        """The encoded text."""
        return PreparedTranslation(load_prepared(folder), self.model, load_sentences(folder))


class PreparedTranslation(PreparedTask[Translator]):
    """Encoded text in OUT/training, and the recipe's model or the user's own."""

    recipe: Recipe

    def __init__(self, prepared: Prepared, model: MakeModel | None = None, watched: Sequence[Watched] = ()) -> None:
        self.prepared = prepared
        self.recipe = prepared.recipe
        self.own = model
        self.watched = watched

    def build(self) -> Model:
        """The recipe's model, or the user's own."""
        return build(self.prepared, self.own)

    def plan(self) -> BatchPlan:
        """Batches of similar length."""
        return batch_plan(self.prepared, self.recipe.training)

    def validator(self, device: torch.device, group: Group) -> Validator | None:
        """Loss and BLEU."""
        prepared = self.prepared
        if prepared.valid is None:
            return None
        return Validator(prepared.valid, prepared.valid_pairs, prepared.tokenizers, self.recipe.training, device, group)

    def forward(self, model: Model, batch: Batch, update: int, total: int | None) -> tuple[Batch, Output]:
        """Teacher forcing, with scheduled sampling and guided attention if the recipe asks for them."""
        settings = self.recipe.training
        if (share := sampling_share(settings.scheduled_sampling, update, total)) > 0:
            batch = sample_inputs(model, batch, share)
        if batch.guide is None:
            return super().forward(model, batch, update, total)
        batch = batch.twice() if settings.r_drop else batch
        return batch, guided_output(model, batch, settings.guided_attention)

    def changed(self, overrides: Sequence[str]) -> PreparedTranslation:
        """Model and text settings cannot change."""
        recipe = with_overrides(self.recipe, overrides)
        if (recipe.model, recipe.text) != (self.recipe.model, self.recipe.text):
            raise ConfigError("--resume: model and text of a training cannot be changed: start a new one.")
        if recipe.training.guided_attention and self.prepared.guide is None:
            raise ConfigError("--resume: this training began without guided attention: start a new one.")
        return PreparedTranslation(replace(self.prepared, recipe=recipe), self.own, self.watched)

    def save_recipe(self, folder: Path) -> None:
        """Write run.json."""
        save_run(self.prepared, folder)

    def watch(self, run: Run) -> None:
        """Record the attention of the watched sentences."""
        if not self.watched:
            return
        assert isinstance(run.model, Model)
        training = run.model.training
        try:
            translator = translator_of(self.prepared, run.model, run.out, run.device)
            keep_moment(run.out, run.state.update, look_at_sentences(translator, self.watched))
        finally:
            run.model.train(training)

    def finish(self, run: Run, metrics: dict[str, Any]) -> Translator:
        """A folder that `regard translate` reads."""
        prepared, model = self.prepared, run.model
        assert isinstance(model, Model)
        source, target = prepared.tokenizers.source, prepared.tokenizers.target
        metrics |= {"source_vocabulary": source.size, "target_vocabulary": target.size, "data": prepared.data}
        kind = type(model)
        model_class = None if self.own is None else f"{kind.__module__}.{kind.__qualname__}"
        name = run.out.resolve().name
        if run.group.leads:
            if measured := self._int8(run, model, metrics):
                metrics["int8"] = measured
            write_folder(
                run.out,
                recipe=self.recipe,
                source_tokenizer=source,
                target_tokenizer=target,
                weights=model_tensors(model),
                metrics=metrics,
                card=translator_card(self.recipe, metrics, name, model_class),
                fingerprint=prepared.hashes,
                words=prepared.words,
                model_class=model_class,
            )
        folder = run.out if self.own is None else None
        if folder is not None and run.group.leads and not metrics.get("unfinished"):
            self._compile(run)
        return Translator(
            model,
            self.recipe,
            source,
            target,
            metrics=metrics,
            device=run.device,
            name=name,
            folder=folder,
            seen_words=prepared.words,
        )

    def _int8(self, run: Run, model: Model, metrics: dict[str, Any]) -> dict[str, Any] | None:
        """BLEU in float32 and int8 on the validation sentences, of a finished model whose recipe leaves it open."""
        settings, search = self.recipe.training, self.recipe.search
        open_question = search.int8 == "auto" and search.engine != "torch" and settings.validation_bleu
        if self.own is not None or metrics.get("unfinished") or not open_question or self.prepared.valid is None:
            return None
        pairs = spread(self.prepared.valid_pairs, settings.validation_sentences)
        try:
            return measure_int8(translator_of(self.prepared, model, run.out, run.device), pairs)
        except ConfigError as error:  # such as a processor without the instructions
            run.reporter.say(str(error))
            return None

    def _compile(self, run: Run) -> None:
        """Make the compiled copy for the engine of the recipe, so that the first translation need not."""
        if self.recipe.search.engine == "torch":
            return
        try:
            Translator.load(run.out).prepare()
        except ConfigError as error:  # such as a missing package; the model is whole without it
            run.reporter.say(str(error))


def with_languages(recipe: Recipe, description: str) -> Recipe:
    """The recipe with the languages that the description of the text tells, unless it has them."""
    languages = recipe.text.languages or languages_of_text(description)
    return recipe.model_copy(update={"text": recipe.text.model_copy(update={"languages": languages})})


def translator_of(prepared: Prepared, model: Model, out: Path, device: torch.device) -> Translator:
    """A translator with the model in training, switched to evaluation mode."""
    tokenizers = prepared.tokenizers
    name = out.resolve().name
    return Translator(model, prepared.recipe, tokenizers.source, tokenizers.target, device=device, name=name)


def batch_plan(prepared: Prepared, settings: TrainingSettings) -> BatchPlan:
    """The batches of the settings."""
    return BatchPlan(
        prepared.train,
        batch_tokens=settings.batch_tokens,
        batch_sentences=settings.batch_sentences,
        seed=settings.seed,
        guide=prepared.guide if settings.guided_attention else None,
    )
