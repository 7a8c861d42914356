"""Classification as a task of the training loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from regard.config.classification import ClassifierRecipe
from regard.config.recipes import with_overrides
from regard.data.images.batches import ImageBatchPlan, channel_statistics
from regard.data.images.image_set import ImageSet, describe
from regard.errors import ConfigError, TrainingError
from regard.inference.classifier import Classifier, predict
from regard.models.image_classifier import Network, channels_last
from regard.training.distributed import Group
from regard.training.loop import Run, seed_of
from regard.training.progress import Reporter
from regard.training.start import count_parameters
from regard.training.task import PreparedTask, Task
from regard.training.tasks.prepared_images import (
    Images,
    PreparedImages,
    load_prepared,
    prepare,
    save_prepared,
    save_run,
)


@dataclass(frozen=True)
class ClassificationTask(Task[Classifier]):
    """Labelled images, and the recipe's network."""

    unit = "images"

    recipe: ClassifierRecipe
    train: Images | None = None
    valid: Images | None = None

    def prepare(self, folder: Path, reporter: Reporter) -> Network:
        """Read the images, hold out a validation set if there is none, and build the network."""
        if self.train is None:
            raise ConfigError("no images were given: name them with --train (or train=), such as toy:two-ears.")
        reporter.working("reading")
        prepared = prepare(self.recipe, self.train, self.valid)
        network = _build(prepared)
        reporter.say(
            f"{len(prepared.train):,} images to learn from and {len(prepared.valid):,} to validate on; "
            f"{describe(prepared.train.shape)}; {len(prepared.train.classes)} classes"
        )
        reporter.say(f"{self.recipe.model.kind} with {count_parameters(network):,} parameters")
        save_prepared(prepared, folder)
        return network

    def open(self, folder: Path) -> PreparedClassification:
        """The images as uint8."""
        return PreparedClassification(load_prepared(folder))


class PreparedClassification(PreparedTask[Classifier]):
    """Labelled images in OUT/training, and the recipe's network."""

    unit = "images"
    examples = "images"

    recipe: ClassifierRecipe

    def __init__(self, prepared: PreparedImages) -> None:
        self.prepared = prepared
        self.recipe = prepared.recipe

    def build(self) -> Network:
        """The recipe's network."""
        return _build(self.prepared)

    def plan(self) -> ImageBatchPlan:
        """Shuffled batches."""
        return ImageBatchPlan(self.prepared.train, self.recipe.training)

    def validator(self, device: torch.device, group: Group) -> ImageValidator:
        """Loss and accuracy."""
        return ImageValidator(self.prepared.valid, device, self.recipe.training.select_by, group)

    def changed(self, overrides: Sequence[str]) -> PreparedClassification:
        """Model and image settings cannot change."""
        recipe = with_overrides(self.recipe, overrides)
        if (recipe.model, recipe.images) != (self.recipe.model, self.recipe.images):
            raise ConfigError("--resume: model and images of a training cannot be changed: start a new one.")
        return PreparedClassification(replace(self.prepared, recipe=recipe))

    def save_recipe(self, folder: Path) -> None:
        """Write run.json."""
        save_run(self.prepared, folder)

    def finish(self, run: Run, metrics: dict[str, Any]) -> Classifier:
        """A folder that `regard look` reads."""
        network, images = run.model, self.prepared.train
        assert isinstance(network, Network)
        metrics |= {"data": self.prepared.data}
        name = run.out.resolve().name
        classifier = Classifier(
            network, self.recipe, images.shape, images.classes, metrics=metrics, device=run.device, name=name
        )
        if run.group.leads:
            classifier.save(run.out)
        return classifier


@dataclass(frozen=True)
class ImageValidation:
    """The result; loss per image, natural logarithm, without smoothing."""

    loss: float
    accuracy: float
    images: int
    select_by: Literal["accuracy", "loss"]
    samples: tuple[Mapping[str, str], ...] = ()

    @property
    def score(self) -> float:
        """Score for selecting checkpoints."""
        return self.accuracy if self.select_by == "accuracy" else -self.loss

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"loss": self.loss, "accuracy": self.accuracy, "images": self.images}


class ImageValidator:
    """A validation set of images."""

    def __init__(
        self, images: ImageSet, device: torch.device, select_by: Literal["accuracy", "loss"], group: Group
    ) -> None:
        self.images = images
        self.device = device
        self.group = group
        self.select_by = select_by
        self.cost_tokens = len(images) / 3  # forward pass only

    def use_part(self, share: float) -> None:
        """Subsample the images to this share."""
        count = max(1, round(share * len(self.images)))
        self.images = self.images.select(np.arange(count) * len(self.images) // count)
        self.cost_tokens *= share

    def __call__(self, model: Network, between: Callable[[], None] = lambda: None) -> ImageValidation:
        """Validate; `between` is called between batches and may raise to abort."""
        training = model.training
        model.eval()
        try:
            mine = self.images.select(self.group.part)
            loss, predicted = predict(model, mine, self.device, between) if len(mine) else (0.0, mine.labels)
        finally:
            model.train(training)
        total, correct = self.group.sum(loss * len(mine), float((predicted == mine.labels).sum()))
        if not total < float("inf"):
            raise TrainingError("the validation loss is not finite: lower training.learning_rate.")
        count = len(self.images)
        return ImageValidation(total / count, correct / count, count, self.select_by)


def _build(prepared: PreparedImages) -> Network:
    """The recipe's network, initialised from the seed, with mean and deviation of the training images."""
    torch.manual_seed(seed_of(prepared.recipe.training.seed, 0))
    network = Network(prepared.recipe.model, prepared.train.shape, len(prepared.train.classes))
    network.mean, network.deviation = channel_statistics(prepared.train)
    return channels_last(network)
