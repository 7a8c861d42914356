"""Classifier: a trained network with its classes, from images to what they show.

classifier = regard.load("models/fashion")
found = classifier.classify("photo.png")
print(found.label, found.probability)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, overload

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.config.classification import ClassifierRecipe
from regard.data.images.image_set import ImageSet, describe, read_image
from regard.errors import DataError, NoAttention
from regard.models.image_classifier import Network, channels_last, joined_attention
from regard.nn.attention.intervention import Kind
from regard.nn.image.attention_map import Cells, Seen
from regard.process import usable_device
from regard.storage.classifier_card import classifier_card
from regard.storage.folder import (
    METRICS,
    WEIGHTS,
    load_tensors,
    model_tensors,
    read_config,
    read_json,
    read_tensors,
    write_model,
)

TOGETHER = 256  # images classified at once

Picture = str | Path | npt.NDArray[np.uint8] | Tensor
"""A PNG or JPEG file, or bytes (C, H, W), or (H, W) if they are grey."""


@dataclass(frozen=True)
class Classification:
    """What a classifier says of an image, and what its attention modules did, layer by layer, if somebody looked."""

    label: str
    probabilities: Mapping[str, float]  # of every class, the likeliest first
    image: npt.NDArray[np.uint8]  # (C, H, W)
    seen: tuple[Seen, ...] = ()  # B = 1
    attention: Mapping[Kind, npt.NDArray[np.float32]] | None = None  # (layers, heads, T, S), as in the contract
    grid: tuple[int, int] | None = None  # rows and columns of the cells that T and S count
    class_token: bool = False  # whether position 0 of T and S is the class token

    @property
    def probability(self) -> float:
        """Of the label."""
        return self.probabilities[self.label]

    def __str__(self) -> str:
        return self.label


@dataclass(frozen=True)
class Accuracy:
    """How often a classifier is right."""

    images: int
    loss: float
    accuracy: float
    by_class: Mapping[str, float]
    confusions: npt.NDArray[np.int64]  # (classes, classes): how often one (row) was taken for another (column)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "images": self.images,
            "loss": self.loss,
            "accuracy": self.accuracy,
            "by_class": dict(self.by_class),
            "confusions": self.confusions.tolist(),
        }


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
        self.name = name

    # --- folders --------------------------------------------------------------------------------------------------

    @classmethod
    def load(cls, folder: str | Path, device: str | torch.device = "cpu") -> Classifier:
        """The classifier of a folder that `regard vision train` wrote."""
        device, folder = usable_device(device), Path(folder)
        recipe, about = read_config(folder, ClassifierRecipe)
        shape, classes = tuple(about["input"]), tuple(about["classes"])
        network = channels_last(Network(recipe.model, shape, len(classes)))
        load_tensors(network, read_tensors(folder / WEIGHTS), folder / WEIGHTS)
        metrics = read_json(folder / METRICS) if (folder / METRICS).exists() else {}
        name = folder.resolve().name
        return cls(
            network, recipe, cast("tuple[int, int, int]", shape), classes, metrics=metrics, device=device, name=name
        )

    def save(self, folder: str | Path) -> None:
        """Write the model folder; a model that was there is replaced."""
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
        """What an image shows, or each of several.

        An image must have the size and the colours that the model learned from, unless it may be made to `fit`.
        """
        if not isinstance(image, list | tuple):
            return self.classify([image], fit=fit)[0]
        read = (self.read(each, fit=fit) for each in image)
        found: list[Classification] = []
        for images in _chunks(read):
            logits = self._logits(images)
            found += [self._told(*row) for row in zip(images, logits.softmax(-1), strict=True)]
        return found

    @torch.inference_mode()
    def look(self, image: Picture, *, fit: bool = False) -> Classification:
        """What an image shows, with what every attention module of the network did to see it."""
        pixels = self.read(image, fit=fit)
        seen: list[Seen] = []
        logits = self.network.project(self.network.features(pixels[None].to(self.device), seen))
        if not seen:
            raise NoAttention(
                f"{self.name or 'the model'}: a {self.recipe.model.kind} without attention has nothing to look at: "
                "train one with, such as `regard vision train bam`."
            )
        return self._told(pixels, logits[0].softmax(-1), tuple(seen))

    def read(self, image: Picture, *, fit: bool = False) -> Tensor:
        """The bytes (C, H, W) of an image as the model needs them."""
        channels, height, width = self.shape
        size = self.recipe.images.size or (height if fit and height == width else None)
        convert = fit or self.recipe.images.channels is not None
        if isinstance(image, str | Path):
            where, pixels = str(image), read_image(image, channels, size, convert=convert)
        else:
            where, pixels = "the image", torch.as_tensor(image)
            pixels = pixels[None] if pixels.dim() == 2 else pixels
        if pixels.dtype != torch.uint8:
            raise DataError(f"{where}: has numbers of the type {pixels.dtype}: give bytes, 0 to 255.")
        if tuple(pixels.shape) != self.shape:
            raise DataError(
                f"{where}: is {describe(pixels.shape) if pixels.dim() == 3 else tuple(pixels.shape)}; the model reads "
                f"{describe(self.shape)}: bring it to that, or let it be made to fit (--fit)."
            )
        return pixels

    def _told(self, image: Tensor, probabilities: Tensor, seen: tuple[Seen, ...] = ()) -> Classification:
        order = probabilities.argsort(descending=True, stable=True).tolist()
        values = {self.classes[number]: float(probabilities[number]) for number in order}
        weights = {kind: each[0].cpu().numpy() for kind, each in joined_attention(seen).items()}
        cells = next((each for each in seen if isinstance(each, Cells)), None)
        return Classification(
            label=self.classes[order[0]],
            probabilities=values,
            image=image.cpu().numpy(),
            seen=seen,
            attention=weights or None,
            grid=None if cells is None else cells.grid,
            class_token=False if cells is None else cells.class_token,
        )

    # --- how good it is -------------------------------------------------------------------------------------------

    def evaluate(self, images: ImageSet) -> Accuracy:
        """Accuracy and loss on labelled images."""
        if images.shape != self.shape or images.classes != self.classes:
            raise DataError(
                f"the images are {describe(images.shape)} of the classes {', '.join(images.classes)}; the model knows "
                f"{describe(self.shape)} of {', '.join(self.classes)}: evaluate it on such."
            )
        loss, predicted = predict(self.network, images, self.device)
        confusions = np.zeros((len(self.classes), len(self.classes)), np.int64)
        np.add.at(confusions, (images.labels, predicted), 1)
        counts = confusions.sum(1)
        shares = {
            name: float(confusions[number, number] / counts[number])
            for number, name in enumerate(self.classes)
            if counts[number]
        }
        return Accuracy(len(images), loss, float((predicted == images.labels).mean()), shares, confusions)

    @torch.inference_mode()
    def _logits(self, images: Tensor) -> Tensor:
        return self.network.project(self.network.features(images.to(self.device))).cpu()


def _chunks(images: Iterable[Tensor]) -> Iterable[Tensor]:
    held: list[Tensor] = []
    for image in images:
        held.append(image)
        if len(held) == TOGETHER:
            yield torch.stack(held)
            held = []
    if held:
        yield torch.stack(held)


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
