"""Translating as a task of the training loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from regard.config.recipes import with_overrides
from regard.config.settings import Recipe, TrainingSettings
from regard.data.text.batches import BatchPlan
from regard.errors import ConfigError
from regard.inference.translator import Translator
from regard.look.moments import keep_moment
from regard.models.contract import MakeModel, Model
from regard.storage.card import model_card
from regard.storage.folder import model_tensors, write_folder
from regard.training.loop import Run
from regard.training.prepare import Prepared, save_run
from regard.training.schedule import sampling_share
from regard.training.start import build
from regard.training.task import Task
from regard.training.validation import Validator
from regard.training.watch import Watched, look_at_sentences


class TextTask(Task[Translator]):
    """Sentence pairs that are prepared in OUT/training, and the recipe's model or the user's own."""

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

    def validator(self, device: torch.device) -> Validator | None:
        """Loss and BLEU."""
        prepared = self.prepared
        if prepared.valid is None:
            return None
        return Validator(prepared.valid, prepared.valid_pairs, prepared.tokenizers, self.recipe.training, device)

    def changed(self, overrides: Sequence[str]) -> TextTask:
        """Model and text stay as they are."""
        recipe = with_overrides(self.recipe, overrides)
        if (recipe.model, recipe.text) != (self.recipe.model, self.recipe.text):
            raise ConfigError("--resume: model and text of a training cannot be changed: start a new one.")
        if recipe.training.guided_attention and self.prepared.guide is None:
            raise ConfigError("--resume: this training began without guided attention: start a new one.")
        return TextTask(replace(self.prepared, recipe=recipe), self.own, self.watched)

    def save_recipe(self, folder: Path) -> None:
        """Write run.json."""
        save_run(self.prepared, folder)

    def share_of_own_words(self, update: int, total: int | None) -> float:
        """Scheduled sampling."""
        return sampling_share(self.recipe.training, update, total)

    def watch(self, run: Run) -> None:
        """Keep what the model attends to in the watched sentences."""
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
        write_folder(
            run.out,
            recipe=self.recipe,
            source_tokenizer=source,
            target_tokenizer=target,
            weights=model_tensors(model),
            metrics=metrics,
            card=model_card(self.recipe, metrics, run.out.resolve().name, model_class),
            fingerprint=prepared.hashes,
            model_class=model_class,
        )
        return Translator(
            model,
            self.recipe,
            source,
            target,
            metrics=metrics,
            device=run.device,
            name=run.out.resolve().name,
            folder=run.out if self.own is None else None,
        )


def translator_of(prepared: Prepared, model: Model, out: Path, device: torch.device) -> Translator:
    """A translator with a model that is still learning, in evaluation mode from now on."""
    tokenizers = prepared.tokenizers
    name = out.resolve().name
    return Translator(model, prepared.recipe, tokenizers.source, tokenizers.target, device=device, name=name)


def batch_plan(prepared: Prepared, settings: TrainingSettings) -> BatchPlan:
    """The batches that the settings ask for."""
    return BatchPlan(
        prepared.train,
        batch_tokens=settings.batch_tokens,
        batch_sentences=settings.batch_sentences,
        seed=settings.seed,
        guide=prepared.guide if settings.guided_attention else None,
    )
