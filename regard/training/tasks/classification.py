"""Training on images: `train` takes a recipe and images, and returns a Classifier of the model folder it wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from regard.config.classification import ClassifierRecipe, load_vision_recipe
from regard.config.recipes import with_overrides
from regard.data.images.image_set import ImageSet, describe
from regard.errors import ConfigError, TrainingError
from regard.inference.classifier import Classifier, predict
from regard.models.image_classifier import Network, channels_last
from regard.process import tune_process, usable_device
from regard.training.loop import Run, seed_of
from regard.training.progress import check_tensorboard, choose_reporter
from regard.training.session import Session
from regard.training.start import FilePath, check_out, count_parameters
from regard.training.task import Task
from regard.training.tasks.classification_data import (
    Data,
    ImagePlan,
    Prepared,
    channel_statistics,
    load_prepared,
    prepare,
    save_prepared,
    save_run,
)


def train(
    recipe: ClassifierRecipe | FilePath | None = None,
    *,
    data: Data | None = None,
    valid: Data | None = None,
    out: FilePath,
    resume: bool = False,
    overwrite: bool = False,
    device: str = "cpu",
    threads: int | None = None,
    overrides: Sequence[str] = (),
    progress: bool = True,
    tensorboard: bool = False,
) -> Classifier:
    """Train a classifier by a recipe and write its folder.

    `data` is a folder of IDX files or of pictures by class, "toy:two-ears", or an ImageSet; `valid` alike, where the
    data brings no split of its own and none is to be held out. `resume` goes on with the training in `out`; it needs
    no recipe and no images. Ctrl-C saves and raises `Interrupted`, a KeyboardInterrupt.
    """
    tune_process(threads)
    if tensorboard:
        check_tensorboard()
    reporter = choose_reporter(progress, ImageTask.unit)
    with Session.opened(Path(out), usable_device(device), reporter, tensorboard) as session:
        if resume:
            return session.resume(ImageTask.open, overrides)
        chosen = _recipe(recipe, overrides)
        session.check_precision(chosen.training)
        if data is None:
            raise ConfigError("no images were given: name them with --data (or data=), such as toy:two-ears.")
        check_out(Path(out), overwrite, ImageTask.command)

        def begin(fresh: Path) -> Network:
            reporter.working("reading")
            prepared = prepare(chosen, data, valid)
            network = _build(prepared)
            reporter.say(
                f"{len(prepared.train):,} images to learn from and {len(prepared.valid):,} to validate on; "
                f"{describe(prepared.train.shape)}; {len(prepared.train.classes)} classes"
            )
            reporter.say(f"{chosen.model.kind} with {count_parameters(network):,} parameters")
            save_prepared(prepared, fresh)
            return network

        return session.start(begin, ImageTask.open)


def _recipe(recipe: ClassifierRecipe | FilePath | None, overrides: Sequence[str]) -> ClassifierRecipe:
    if recipe is None:
        raise ConfigError("no recipe was given: name one, such as bam (see `regard vision recipes`).")
    if isinstance(recipe, ClassifierRecipe):
        return with_overrides(recipe, overrides)
    loaded = load_vision_recipe(Path(recipe), overrides)
    if not isinstance(loaded, ClassifierRecipe):
        raise ConfigError(f"{recipe}: is the recipe of a {loaded.model.kind}, not of a classifier.")
    return loaded


def _build(prepared: Prepared) -> Network:
    """The recipe's network; weights drawn from the seed, mean and deviation of the training images."""
    torch.manual_seed(seed_of(prepared.recipe.training.seed, 0))
    network = Network(prepared.recipe.model, prepared.train.shape, len(prepared.train.classes))
    network.mean, network.deviation = channel_statistics(prepared.train)
    return channels_last(network)


class ImageTask(Task[Classifier]):
    """Images that are prepared in OUT/training, and the recipe's network."""

    unit: ClassVar[str] = "images"
    examples: ClassVar[str] = "images"
    command: ClassVar[str] = "regard vision train"

    recipe: ClassifierRecipe

    def __init__(self, prepared: Prepared) -> None:
        self.prepared = prepared
        self.recipe = prepared.recipe

    @classmethod
    def open(cls, folder: Path) -> ImageTask:
        """The task in OUT/training."""
        return cls(load_prepared(folder))

    def build(self) -> Network:
        """The recipe's network."""
        return _build(self.prepared)

    def plan(self) -> ImagePlan:
        """Batches at random."""
        return ImagePlan(self.prepared.train, self.recipe.training)

    def validator(self, device: torch.device) -> Validator:
        """Loss and accuracy."""
        return Validator(self.prepared.valid, device, self.recipe.training.select_by)

    def changed(self, overrides: Sequence[str]) -> ImageTask:
        """Model and images stay as they are."""
        recipe = with_overrides(self.recipe, overrides)
        if (recipe.model, recipe.images) != (self.recipe.model, self.recipe.images):
            raise ConfigError("--resume: model and images of a training cannot be changed: start a new one.")
        return ImageTask(replace(self.prepared, recipe=recipe))

    def save_recipe(self, folder: Path) -> None:
        """Write run.json."""
        save_run(self.prepared, folder)

    def finish(self, run: Run, metrics: dict[str, Any]) -> Classifier:
        """A folder that `regard vision` reads."""
        network, images = run.model, self.prepared.train
        assert isinstance(network, Network)
        metrics |= {"data": self.prepared.data}
        name = run.out.resolve().name
        classifier = Classifier(
            network, self.recipe, images.shape, images.classes, metrics=metrics, device=run.device, name=name
        )
        classifier.save(run.out)
        return classifier


@dataclass(frozen=True)
class Validation:
    """The result; loss per image, natural logarithm, without smoothing."""

    loss: float
    accuracy: float
    images: int
    select_by: Literal["accuracy", "loss"]
    samples: tuple[Mapping[str, str], ...] = ()

    @property
    def score(self) -> float:
        """What checkpoints are compared by."""
        return self.accuracy if self.select_by == "accuracy" else -self.loss

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"loss": self.loss, "accuracy": self.accuracy, "images": self.images}


class Validator:
    """Images to validate on."""

    def __init__(self, images: ImageSet, device: torch.device, select_by: Literal["accuracy", "loss"]) -> None:
        self.images = images
        self.device = device
        self.select_by = select_by
        self.cost_tokens = len(images) / 3  # forwards only

    def use_part(self, share: float) -> None:
        """Use only this share of the images."""
        count = max(1, round(share * len(self.images)))
        self.images = self.images.select(np.arange(count) * len(self.images) // count)
        self.cost_tokens *= share

    def __call__(self, model: Network, between: Callable[[], None] = lambda: None) -> Validation:
        """Validate; `between` is called between batches and may raise to break off."""
        training = model.training
        model.eval()
        try:
            loss, predicted = predict(model, self.images, self.device, between)
        finally:
            model.train(training)
        if not loss < float("inf"):
            raise TrainingError("the validation loss is not finite: lower training.learning_rate.")
        accuracy = float((predicted == self.images.labels).mean())
        return Validation(loss, accuracy, len(self.images), self.select_by)
