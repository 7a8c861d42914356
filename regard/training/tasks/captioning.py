"""Captioning as a task of the training loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.config.captioning import CaptionRecipe
from regard.config.recipes import with_overrides
from regard.config.settings import SearchSettings
from regard.config.vocabulary import BOS, EOS
from regard.data.images.batches import CaptionBatchPlan
from regard.data.images.captions import CaptionCorpus, Captioned, is_scenes, open_captions
from regard.data.text.sources import FilePath, choose_tokenizer, spread
from regard.data.text.tokenizer import Tokenizer
from regard.decoding.search import search
from regard.errors import ConfigError
from regard.evaluation.scores import corpus_scores
from regard.inference.captioner import Captioner
from regard.models.contract import Model
from regard.models.show_attend_tell import ShowAttendTell
from regard.storage.files import write_bytes
from regard.storage.folder import JOINT
from regard.storage.run import read_run, write_run
from regard.training.distributed import Group
from regard.training.loop import Run, seed_of
from regard.training.progress import Reporter
from regard.training.start import count_parameters
from regard.training.task import PreparedTask, Task
from regard.training.validation import SAMPLES, Validation, in_order, mean_loss


@dataclass(frozen=True)
class CaptioningTask(Task[Captioner]):
    """Images with captions, and the recipe's model."""

    recipe: CaptionRecipe
    train: FilePath | None = None
    valid: FilePath | None = None

    def prepare(self, folder: Path, reporter: Reporter) -> Model:
        """Read the images, learn the subwords of the captions, and build the model."""
        if self.train is None:
            raise ConfigError("no images were given: name them with --train (or train=), such as toy:scenes.")
        data: dict[str, Any] = {}
        for split, source in _sources(self.recipe, self.train, self.valid).items():
            reporter.say(f"reading {source.description}")

            def progress(count: int) -> None:
                reporter.working(f"reading, {count:,} images")

            data[split] = CaptionCorpus.write(source, folder / split, self.recipe.model.image_size, progress)
        captions = CaptionCorpus.open(folder / "train").texts()
        tokenizer = choose_tokenizer(self.recipe.text.target_tokenizer, captions, self.recipe.text)
        write_bytes(folder / JOINT, tokenizer.to_json().encode())
        write_run(folder, self.recipe, data=data)
        model = self.open(folder).build()
        train = data["train"]
        reporter.say(
            f"{train['images']:,} images with {train['captions']:,} captions (skipped {train['skipped_blank']:,} blank "
            f"ones); vocabulary of {tokenizer.size:,}; {type(model).__name__} with {count_parameters(model):,} "
            "parameters"
        )
        return model

    def open(self, folder: Path) -> PreparedCaptioning:
        """The images as uint8, with their captions."""
        recipe, about = read_run(folder)
        assert isinstance(recipe, CaptionRecipe)
        return PreparedCaptioning(
            recipe,
            Tokenizer.load(folder / JOINT),
            CaptionCorpus.open(folder / "train"),
            CaptionCorpus.open(folder / "valid") if (folder / "valid").exists() else None,
            about["data"],
        )


def _sources(recipe: CaptionRecipe, data: FilePath, valid: FilePath | None) -> dict[str, Captioned]:
    channels, training = recipe.model.image_channels, recipe.training
    if is_scenes(data) and channels != 3:
        raise ConfigError("model.image_channels = 1: the embedded scenes have colours; set it to 3.")
    train = open_captions(data, "train", channels)
    assert train is not None
    # A validation file is read as it is; folders and the scenes have a validation split.
    named = open_captions(valid, "train" if Path(valid).is_file() else "valid", channels) if valid else None
    held_out = named or open_captions(data, "valid", channels)
    if held_out is None and (training.patience or training.schedule == "plateau" or training.average == "best"):
        raise ConfigError("patience, plateau and averaging the best need validation images: add a valid.tsv.")
    return {"train": train} | ({} if held_out is None else {"valid": held_out})


@dataclass(frozen=True)
class PreparedCaptioning(PreparedTask[Captioner]):
    """Captioned images in OUT/training, and the recipe's model."""

    examples = "captions"

    recipe: CaptionRecipe
    tokenizer: Tokenizer
    train: CaptionCorpus
    valid: CaptionCorpus | None
    data: dict[str, Any]  # description of the images, for the model card

    def build(self) -> Model:
        """The recipe's model."""
        torch.manual_seed(seed_of(self.recipe.training.seed, 0))
        return ShowAttendTell(self.recipe.model, self.tokenizer.size)

    def plan(self) -> CaptionBatchPlan:
        """Shuffled batches."""
        settings = self.recipe.training
        return CaptionBatchPlan(self.train, self.tokenizer, settings.batch_images, settings.seed)

    def validator(self, device: torch.device, group: Group) -> CaptionValidator | None:
        """Loss and BLEU."""
        return None if self.valid is None else CaptionValidator(self, self.valid, device, group)

    def changed(self, overrides: Sequence[str]) -> PreparedCaptioning:
        """Model and text settings cannot change."""
        recipe = with_overrides(self.recipe, overrides)
        if (recipe.model, recipe.text) != (self.recipe.model, self.recipe.text):
            raise ConfigError("--resume: model and text of a training cannot be changed: start a new one.")
        return replace(self, recipe=recipe)

    def save_recipe(self, folder: Path) -> None:
        """Write run.json."""
        write_run(folder, self.recipe, data=self.data)

    def finish(self, run: Run, metrics: dict[str, Any]) -> Captioner:
        """A folder that `regard.load` reads."""
        assert isinstance(run.model, Model)
        metrics |= {"target_vocabulary": self.tokenizer.size, "data": self.data}
        name = run.out.resolve().name
        captioner = Captioner(run.model, self.recipe, self.tokenizer, metrics=metrics, device=run.device, name=name)
        if run.group.leads:
            captioner.save(run.out)
        return captioner


class CaptionValidator:
    """Loss of the reference captions, and BLEU of greedy captions against all references of an image."""

    def __init__(self, task: PreparedCaptioning, corpus: CaptionCorpus, device: torch.device, group: Group) -> None:
        settings = task.recipe.training
        self.plan = CaptionBatchPlan(corpus, task.tokenizer, settings.batch_images, 0, shuffle=False)
        self.items = self.plan.epoch(0)
        self.images = corpus.images[: settings.validation_captions]
        self.references = corpus.references(len(self.images))
        self.search = SearchSettings(**{**task.recipe.search.model_dump(), "beam": 1, "n_best": 1, "sample": False})
        self.tokenizer = task.tokenizer
        self.settings = settings
        self.device = device
        self.group = group
        words = sum(len(ids) for ids in self.plan.ids)
        # A forward pass costs a third of an update, and so does captioning an image.
        self.cost_tokens = words / 3 * (1 + len(self.images) / len(self.plan.ids))

    def use_part(self, share: float) -> None:
        """Subsample captions and captioned images to this share."""
        self.items = spread(self.items, max(1, round(share * len(self.items))))
        self.images = self.images[: max(1, round(share * len(self.images)))]
        self.references = [texts[: len(self.images)] for texts in self.references]
        self.cost_tokens *= share

    def __call__(self, model: Model, between: Callable[[], None] = lambda: None, /) -> Validation:
        """Validate; `between` is called between batches and may raise to abort."""
        training = model.training
        model.eval()
        try:
            batches = (self.plan.batch(item).to(self.device) for item in self.items[self.group.part])
            loss, tokens = mean_loss(model, batches, between, self.group)
            if not self.references:
                return Validation(loss, tokens, select_by="loss")
            captions = self._captions(model, between)
        finally:
            model.train(training)
        bleu = corpus_scores(captions, self.references, metrics=("bleu",), tokenize="auto")["bleu"]
        samples = tuple(
            {"reference": reference, "caption": caption}
            for reference, caption in spread(list(zip(self.references[0], captions, strict=True)), SAMPLES)
        )
        return Validation(loss, tokens, round(bleu.value, 6), bleu.signature, self.settings.select_by, samples)

    def _captions(self, model: Model, between: Callable[[], None]) -> list[str]:
        mine, texts = self.images[self.group.part], []
        for first in range(0, len(mine), self.settings.batch_images):
            between()
            images = torch.from_numpy(np.array(mine[first : first + self.settings.batch_images]))
            found = search(model, images.to(self.device), None, self.search, bos=BOS, eos=EOS)
            texts += [self.tokenizer.decode(hypotheses[0].ids) for hypotheses in found]
        return in_order(range(len(self.images)), self.group.gather(texts))
