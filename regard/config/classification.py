"""The recipe of a classifier: every setting with its default and documentation; needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from regard.config.base import Architecture, Settings
from regard.config.settings import AnyRecipe, LoopSettings

ModuleName = Literal["none", "se", "cbam", "bam", "self_attention"]


class ResNetSettings(Architecture):
    """A small residual network with an attention module at its bottlenecks."""

    title: ClassVar[str] = "small residual network, an attention module at its bottlenecks"
    paper: ClassVar[str] = "He et al. 2016; BAM: Park et al. 2018"
    published: ClassVar[str] = "CIFAR-100 error of ResNet 50: 21.49 %, with BAM 20.00 %"

    kind: Literal["resnet"] = "resnet"
    attention: ModuleName = Field("none", description="attention module at each bottleneck")
    channels: tuple[int, ...] = Field(
        (16, 32, 64), min_length=1, description="channels of each stage; all but the first halve height and width"
    )
    blocks: int = Field(2, ge=1, le=64, description="residual blocks in each stage, of two convolutions each")
    places: tuple[int, ...] | None = Field(
        None,
        description="stages, from 1, followed by the module (default: all but the last; self_attention: one)",
    )
    reduction: int | None = Field(None, ge=1, description="channel reduction ratio r (default: 16; self_attention: 8)")
    min_hidden: int = Field(6, ge=1, description="BAM: minimum of hidden channels where channels / r is smaller")
    dilation: int = Field(4, ge=1, le=64, description="BAM: dilation d of its 3x3 convolutions")
    variant: Literal["paper", "released"] = Field("paper", description="BAM: as in the paper or in the authors' code")
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout rate before the last layer")

    @property
    def module_places(self) -> tuple[int, ...]:
        """The stages, from 1, followed by the module."""
        last = max(1, len(self.channels) - 1)
        if self.attention == "none":
            return ()
        if self.places is not None:
            return self.places
        return (last,) if self.attention == "self_attention" else tuple(range(1, last + 1))

    @property
    def receptive_field(self) -> int:
        """Height and width, in pixels, that a cell of the last map depends on through convolutions alone."""
        field, step = 3, 1  # of the stem
        for stage in range(len(self.channels)):
            for block in range(self.blocks):
                field += 2 * step
                step *= 2 if stage and not block else 1
                field += 2 * step
        return field

    @model_validator(mode="after")
    def _places_are_there(self) -> ResNetSettings:
        for place in self.module_places:
            if not 1 <= place <= len(self.channels):
                raise ValueError(f"places: there is no stage {place}: channels has {len(self.channels)}")
        if self.attention == "self_attention" and len(self.module_places) != 1:
            raise ValueError('attention = "self_attention" needs one place: maps of two grid sizes cannot be joined')
        return self


class ViTSettings(Architecture):
    """Vision Transformer: self-attention over image patches."""

    title: ClassVar[str] = "patches, a class token and multi-head self-attention"
    paper: ClassVar[str] = "Dosovitskiy et al. 2021"
    published: ClassVar[str] = "ImageNet 77.9 % (base, patches of 16, trained on ImageNet alone)"

    kind: Literal["vit"] = "vit"
    patch_size: int = Field(4, ge=1, description="height and width of a patch, in pixels; must divide the image size")
    hidden_size: int = Field(96, ge=2, description="size of patch embeddings and of every layer's output")
    layers: int = Field(6, ge=1, le=64, description="number of layers")
    heads: int = Field(4, ge=1, description="attention heads, each of size hidden_size / heads")
    feedforward_size: int = Field(192, ge=1, description="size of the inner layer of the feed-forward networks")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout rate after each sub-layer")

    @model_validator(mode="after")
    def _sizes_fit(self) -> ViTSettings:
        if self.hidden_size % self.heads:
            raise ValueError(f"hidden_size = {self.hidden_size} is not a multiple of heads = {self.heads}: change one")
        return self


class ImageSettings(Settings):
    """Preprocessing of images."""

    size: int | None = Field(None, ge=1, le=4096, description="resize images to size x size (default: keep their size)")
    channels: Literal[1, 3] | None = Field(None, description="convert images to grey (1) or colour (3)")
    classes: tuple[str, ...] = Field((), description="class names of IDX labels 0, 1, …")
    hold_out: float = Field(0.05, gt=0, lt=1, description="validation share where the data has no validation split")


class ImageTrainingSettings(LoopSettings):
    """Training settings of a classifier."""

    batch_images: int = Field(128, ge=2, description="images in a batch")
    flip: bool = Field(False, description="flip half of the training images horizontally")
    shift: int = Field(0, ge=0, description="random shift of training images, in pixels at most")
    select_by: Literal["accuracy", "loss"] = Field("accuracy", description="metric that selects the best checkpoint")
    betas: tuple[float, float] = Field((0.9, 0.99), description="Adam's beta1 and beta2")
    epsilon: float = Field(1e-8, gt=0, description="Adam's epsilon")


ClassifierSettings = Annotated[ResNetSettings | ViTSettings, Field(discriminator="kind")]


class ClassifierRecipe(AnyRecipe):
    """One reproducible classifier."""

    models: ClassVar[Mapping[str, type[Architecture]]] = {"resnet": ResNetSettings, "vit": ViTSettings}

    model: ClassifierSettings
    images: ImageSettings = ImageSettings()
    training: ImageTrainingSettings
