"""Classifier: a trained network with its classes.

classifier = regard.load("models/fashion")
found = classifier.classify("photo.png")
print(found.label, found.probability)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.config.classification import ClassifierRecipe
from regard.data.images.image_set import COLOURS, SPLITS, ImageSet, Split, describe, read_image, read_images
from regard.data.images.pixels import Picture, Pixels, as_tensor, check_pixels
from regard.errors import DataError, ModelFolderError, NoAttention, did_you_mean
from regard.evaluation.accuracy import Accuracy, accuracy
from regard.evaluation.object_mass import object_mass
from regard.inference.box import model_folder
from regard.inference.representation import model_line
from regard.look.classification import Classification
from regard.models.image_classifier import Network, channels_last, joined_attention
from regard.nn.image.attention_map import Cells, Seen
from regard.process import usable_device
from regard.storage.card import classifier_card
from regard.storage.folder import CONFIG, WEIGHTS, read_config, read_metrics, write_model
from regard.storage.reading import RESTORE
from regard.storage.weights import build_checked, load_tensors, model_tensors, read_tensors

TOGETHER = 256  # images classified at once
MAX_SIDE = 4096  # pixels; as `images.size` allows
FIT = "convert it, or use `regard look --fit`"


class Classifier:
    """A trained classifier."""

    def __init__(
        self,
        network: Network,
        recipe: ClassifierRecipe,
        shape: tuple[int, int, int],
        classes: tuple[str, ...],
        *,
        metrics: Mapping[str, Any] | None = None,
        device: str | torch.device = "cpu",
        name: str = "",
    ) -> None:
        self.device = usable_device(device)
        self.network = network.to(self.device).eval()
        self.recipe = recipe
        self.shape = shape
        self.classes = classes
        self.metrics: dict[str, Any] = dict(metrics or {})
        self.name = name or recipe.model.kind

    def __repr__(self) -> str:
        facts = [f"{len(self.classes)} classes", " x ".join(map(str, self.shape)), str(self.device)]
        return model_line("Classifier", self.name, self.recipe.model.kind, self.network, facts)

    # --- folders --------------------------------------------------------------------------------------------------

    @classmethod
    def load(cls, folder: str | Path, device: str | torch.device = "cpu") -> Classifier:
        """The classifier of a folder that `regard train` wrote, or an installed one."""
        device, folder = usable_device(device), model_folder(folder)
        recipe, about = read_config(folder, ClassifierRecipe)
        shape, classes = _shape(folder, about.get("input")), _classes(folder, about.get("classes"))
        network = channels_last(build_checked(lambda: Network(recipe.model, shape, len(classes)), folder / WEIGHTS))
        load_tensors(network, read_tensors(folder / WEIGHTS), folder / WEIGHTS)
        name = folder.resolve().name
        return cls(network, recipe, shape, classes, metrics=read_metrics(folder), device=device, name=name)

    def save(self, folder: str | Path) -> None:
        """Write the model folder; an existing model is replaced."""
        folder = Path(folder)
        write_model(
            folder,
            recipe=self.recipe,
            weights=model_tensors(self.network),
            metrics=self.metrics,
            card=classifier_card(self.recipe, self.metrics, folder.resolve().name, self.shape, self.classes),
            files={},
            about={"input": list(self.shape), "classes": list(self.classes)},
        )

    # --- images ---------------------------------------------------------------------------------------------------

    @overload
    def classify(self, image: Picture, *, fit: bool = ...) -> Classification: ...

    @overload
    def classify(self, image: list[Picture] | tuple[Picture, ...], *, fit: bool = ...) -> list[Classification]: ...

    def classify(
        self, image: Picture | list[Picture] | tuple[Picture, ...], *, fit: bool = False
    ) -> Classification | list[Classification]:
        """Classify one image or several.

        An image must have the size and channels of the training images, unless `fit` converts it.
        """
        if not isinstance(image, list | tuple):
            return self.classify([image], fit=fit)[0]
        found: list[Classification] = []
        stream = iter(image)
        while chunk := [self.read(each, fit=fit) for each in islice(stream, TOGETHER)]:
            logits = self._logits(torch.stack([as_tensor(pixels) for pixels in chunk]))
            found += [self._told(*row) for row in zip(chunk, logits.softmax(-1), strict=True)]
        return found

    @torch.inference_mode()
    def look(self, image: Picture, *, fit: bool = False) -> Classification:
        """Classify an image and record every attention module of the network."""
        pixels = self.read(image, fit=fit)
        seen: list[Seen] = []
        logits = self.network.project(self.network.features(as_tensor(pixels)[None].to(self.device), seen))
        if not seen:
            raise NoAttention(
                f"{self.name}: a {self.recipe.model.kind} without attention has nothing to look at: "
                "train one with, such as `regard train bam`."
            )
        return self._told(pixels, logits[0].softmax(-1), tuple(seen))

    def read(self, image: Picture, *, fit: bool = False) -> Pixels:
        """The bytes of an image as the model needs them: (H, W, 3), or (H, W) for a model that reads grey images."""
        channels, height, width = self.shape
        size = self.recipe.images.size or (height if fit and height == width else None)
        convert = fit or self.recipe.images.channels is not None
        if isinstance(image, str | PathLike):
            where, pixels = str(image), read_image(Path(image), channels, size, convert=convert, remedy=FIT)
        else:
            where, pixels = "the image", check_pixels(image, channels)
        if pixels.shape[:2] != (height, width):
            raise DataError(
                f"{where}: is {describe((channels, *pixels.shape[:2]))}; the model reads {describe(self.shape)}: bring "
                "it to that, or let it be made to fit (--fit)."
            )
        return pixels

    def _told(self, image: Pixels, probabilities: Tensor, seen: tuple[Seen, ...] = ()) -> Classification:
        order = probabilities.argsort(descending=True, stable=True).tolist()
        values = {self.classes[number]: float(probabilities[number]) for number in order}
        weights = {kind: each[0].cpu().numpy() for kind, each in joined_attention(seen).items()}
        cells = next((each for each in seen if isinstance(each, Cells)), None)
        return Classification(
            label=self.classes[order[0]],
            probabilities=values,
            image=image,
            seen=seen,
            attention=weights or None,
            grid=None if cells is None else cells.grid,
            class_token=False if cells is None else cells.class_token,
        )

    # --- how good it is -------------------------------------------------------------------------------------------

    def evaluate(self, images: ImageSet) -> Accuracy:
        """Accuracy and loss on labelled images; where their objects are known, the attention inside them too."""
        if images.shape != self.shape or images.classes != self.classes:
            raise DataError(
                f"the images are {describe(images.shape)} of the classes {', '.join(images.classes)}; the model knows "
                f"{describe(self.shape)} of {', '.join(self.classes)}: evaluate it on such."
            )
        loss, predicted = predict(self.network, images, self.device)
        mass = object_mass(self.network, images, self.device)
        return accuracy(predicted, images.labels, self.classes, loss, mass)

    def labelled_images(self, data: str | Path, split: str = "test") -> ImageSet:
        """One split of the images that a user names, as the model reads them."""
        chosen: Split | None = next((known for known in SPLITS if known == split), None)
        if chosen is None:
            raise DataError(f"split {split!r}: there is no such part of the images: {did_you_mean(split, SPLITS)}")
        settings = self.recipe.images
        images = read_images(data, chosen, channels=settings.channels, size=settings.size, classes=self.classes)
        if images is None:
            raise DataError(f"{data}: has no {split} images: choose another with --split.")
        return images

    @torch.inference_mode()
    def _logits(self, images: Tensor) -> Tensor:
        return self.network.project(self.network.features(images.to(self.device))).cpu()


@torch.inference_mode()
def predict(
    network: Network, images: ImageSet, device: torch.device, between: Callable[[], None] = lambda: None
) -> tuple[float, npt.NDArray[np.int64]]:
    """The mean loss (natural logarithm, without smoothing), and the likeliest class (N,) of each image."""
    total, predicted = 0.0, np.empty(len(images), np.int64)
    for start in range(0, len(images), TOGETHER):
        between()
        part = slice(start, start + TOGETHER)
        pixels = torch.from_numpy(np.array(images.images[part])).to(device)
        labels = torch.from_numpy(images.labels[part]).to(device)
        logits = network.project(network.features(pixels)).float()
        total += float(torch.nn.functional.cross_entropy(logits, labels, reduction="sum"))
        predicted[part] = logits.argmax(-1).cpu().numpy()
    return total / len(images), predicted


def _shape(folder: Path, given: object) -> tuple[int, int, int]:
    """Channels, height and width that config.json names."""
    if isinstance(given, list) and len(given) == 3 and all(type(side) is int for side in given):
        channels, height, width = given
        if channels in COLOURS and 1 <= height <= MAX_SIDE and 1 <= width <= MAX_SIDE:
            return channels, height, width
    raise ModelFolderError(
        f"{folder / CONFIG}: input = {str(given)[:60]} is no shape of images (1 or 3 channels, height and width up to "
        f"{MAX_SIDE:,}): {RESTORE}."
    )


def _classes(folder: Path, given: object) -> tuple[str, ...]:
    """The distinct class names in config.json."""
    if not isinstance(given, list) or not given or not all(isinstance(name, str) and name for name in given):
        raise ModelFolderError(f"{folder / CONFIG}: classes is no list of names: {RESTORE}.")
    if len(set(given)) < len(given):
        raise ModelFolderError(f"{folder / CONFIG}: names a class twice: {RESTORE}.")
    return tuple(given)
