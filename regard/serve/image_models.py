"""Image models of a server: captioners and classifiers."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from regard.errors import ConfigError, NoAttention
from regard.nn.attention.intervention import Intervention

if TYPE_CHECKING:
    from regard.data.images.pixels import Pixels
    from regard.inference.captioner import Captioner
    from regard.inference.classifier import Classifier

Sample = Literal["scenes", "two-ears"]
"""Kinds of sample images that the server can draw."""


@dataclass(frozen=True)
class ImageQuestion:
    """An encoded image with the options of its request."""

    content: bytes
    most_pixels: int
    most_side: int
    reference: str | None = None
    prefix: Sequence[int] = ()
    ban: Sequence[int] = ()
    beam: int | None = None
    candidates: int = 5

    @property
    def about_words(self) -> bool:
        """Whether it sets options that only captioners support."""
        return self.reference is not None or self.beam is not None or bool(self.prefix or self.ban)

    def decode(self, channels: int, size: int | None = None) -> Pixels:
        """Its pixels, with the model's channels and size."""
        from regard.data.images.image_set import decode_image

        return decode_image(
            io.BytesIO(self.content),
            "the image",
            channels,
            size,
            convert=True,
            most=self.most_pixels,
            most_side=self.most_side,
        )


@dataclass(frozen=True)
class ServedImageModel(ABC):
    """An image model and its name in requests."""

    task: ClassVar[Literal["caption", "classify"]]

    name: str

    @property
    @abstractmethod
    def model(self) -> Captioner | Classifier:
        """The network."""

    @property
    @abstractmethod
    def parameters(self) -> int:
        """Number of parameters."""

    @property
    @abstractmethod
    def sample(self) -> Sample | None:
        """The kind of sample image that fits it."""

    @abstractmethod
    def attention(self) -> dict[str, dict[str, int]]:
        """Kinds of attention with their layers and heads, found with a black image."""

    @abstractmethod
    def look(self, asked: ImageQuestion) -> dict[str, Any]:
        """The record of an image."""


@dataclass(frozen=True)
class ServedCaptioner(ServedImageModel):
    """A captioner; images are resized and converted to its channels."""

    task = "caption"

    captioner: Captioner

    @property
    def model(self) -> Captioner:
        return self.captioner

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.captioner.model.parameters())

    @property
    def sample(self) -> Sample | None:
        return "scenes"

    def attention(self) -> dict[str, dict[str, int]]:
        settings = self.captioner.recipe.model
        empty = blank((settings.image_channels, settings.image_size, settings.image_size))
        look = self.captioner.look(empty, beam=1, candidates=0)
        return {kind: heads.model_dump() for kind, heads in look.model.attention.items()}

    def look(self, asked: ImageQuestion) -> dict[str, Any]:
        channels = self.captioner.recipe.model.image_channels
        pixels = asked.decode(channels)
        record = self.captioner.look(
            pixels,
            reference=asked.reference,
            prefix=asked.prefix,
            beam=asked.beam,
            candidates=asked.candidates,
            intervention=Intervention(tuple(asked.ban)) if asked.ban else None,
        ).to_dict()
        record["model"]["name"] = self.name
        return record


@dataclass(frozen=True)
class ServedClassifier(ServedImageModel):
    """A classifier; images are resized to its size and converted to its channels."""

    task = "classify"

    classifier: Classifier

    @property
    def model(self) -> Classifier:
        return self.classifier

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.classifier.network.parameters())

    @property
    def sample(self) -> Sample | None:
        learned = str(self.classifier.metrics.get("data", {}).get("train", {}).get("data", ""))
        return "two-ears" if learned.startswith("toy:two-ears") else None

    def attention(self) -> dict[str, dict[str, int]]:
        try:
            found = self.classifier.look(blank(self.classifier.shape))
        except NoAttention:
            return {}
        return {
            kind: {"layers": int(weights.shape[0]), "heads": int(weights.shape[1])}
            for kind, weights in (found.attention or {}).items()
        }

    def look(self, asked: ImageQuestion) -> dict[str, Any]:
        if asked.about_words:
            raise ConfigError("a classifier generates no text: leave out reference, prefix, ban and beam.")
        channels, height, width = self.classifier.shape
        size = height if height == width else None
        pixels = asked.decode(channels, size)
        try:
            found = self.classifier.look(pixels)
        except NoAttention:
            found = self.classifier.classify(pixels)
        about = {"name": self.name, "kind": self.classifier.recipe.model.kind}
        return {**found.to_dict(), "model": about}


def served_images(name: str, model: Captioner | Classifier) -> ServedImageModel:
    """An image model of a server."""
    from regard.inference.captioner import Captioner

    return ServedCaptioner(name, model) if isinstance(model, Captioner) else ServedClassifier(name, model)


def blank(shape: tuple[int, int, int]) -> Pixels:
    """A black image of C channels, H rows and W columns."""
    channels, height, width = shape
    return np.zeros((height, width) if channels == 1 else (height, width, channels), np.uint8)
