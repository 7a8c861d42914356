"""Recipes on images: the only home of every setting, its default and its documentation; needs no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from regard.config.base import Settings
from regard.config.captioning import CaptionRecipe
from regard.config.recipes import check_as, read_recipe
from regard.config.settings import AnyRecipe, LoopSettings

SHELF = "vision"  # the folder of these recipes among the others

ModuleName = Literal["none", "se", "cbam", "bam", "self_attention"]


class ResNetSettings(Settings):
    """A small residual network with a place for attention at its bottlenecks."""

    title: ClassVar[str] = "small residual network, attention of any kind at its bottlenecks"
    paper: ClassVar[str] = "He et al. 2016; BAM: Park et al. 2018"
    published: ClassVar[str] = "CIFAR-100 error of ResNet 50: 21.49 %, with BAM 20.00 %"

    kind: Literal["resnet"] = "resnet"
    attention: ModuleName = Field("none", description="the module at each bottleneck")
    channels: tuple[int, ...] = Field(
        (16, 32, 64), min_length=1, description="of each stage; each but the first halves"
    )
    blocks: int = Field(2, ge=1, le=64, description="residual blocks in each stage, of two convolutions each")
    places: tuple[int, ...] | None = Field(
        None,
        description="stages, from 1, that the module stands after (default: all but the last; self_attention: one)",
    )
    reduction: int | None = Field(None, ge=1, description="r (default: 16; self_attention: 8)")
    min_hidden: int = Field(6, ge=1, description="of BAM: least hidden channels, where channels / r is fewer")
    dilation: int = Field(4, ge=1, description="d of BAM")
    variant: Literal["paper", "released"] = Field("paper", description="of BAM: the paper's, or the authors' code")
    dropout: float = Field(0.0, ge=0, lt=1, description="share of units dropped before the last layer while training")

    @property
    def module_places(self) -> tuple[int, ...]:
        """The stages, from 1, that the module stands after."""
        last = max(1, len(self.channels) - 1)
        if self.attention == "none":
            return ()
        if self.places is not None:
            return self.places
        return (last,) if self.attention == "self_attention" else tuple(range(1, last + 1))

    @model_validator(mode="after")
    def _places_are_there(self) -> ResNetSettings:
        for place in self.module_places:
            if not 1 <= place <= len(self.channels):
                raise ValueError(f"places: there is no stage {place}: channels has {len(self.channels)}")
        if self.attention == "self_attention" and len(self.module_places) != 1:
            raise ValueError('attention = "self_attention" needs one place: cells of two sizes make no one map')
        return self


class ViTSettings(Settings):
    """Patches as words, and nothing but attention between them."""

    title: ClassVar[str] = "patches, a class token and multi-head self-attention"
    paper: ClassVar[str] = "Dosovitskiy et al. 2021"
    published: ClassVar[str] = "ImageNet 77.9 % (base, patches of 16, trained on ImageNet alone)"

    kind: Literal["vit"] = "vit"
    patch_size: int = Field(4, ge=1, description="height and width of a patch, in pixels; must divide those of images")
    hidden_size: int = Field(96, ge=2, description="size of a patch's vector and of every layer's output")
    layers: int = Field(6, ge=1, le=64, description="depth")
    heads: int = Field(4, ge=1, description="heads of every attention; they share hidden_size evenly")
    feedforward_size: int = Field(192, ge=1, description="size of the inner layer of the feed-forward networks")
    dropout: float = Field(0.1, ge=0, lt=1, description="share of units dropped after each sub-layer while training")

    @model_validator(mode="after")
    def _sizes_fit(self) -> ViTSettings:
        if self.hidden_size % self.heads:
            raise ValueError(f"hidden_size = {self.hidden_size} is no multiple of heads = {self.heads}: change one")
        return self


class ImageSettings(Settings):
    """How pictures become input."""

    size: int | None = Field(None, ge=1, le=4096, description="stretch pictures to size x size (default: as they are)")
    channels: Literal[1, 3] | None = Field(None, description="make pictures grey (1) or coloured (3)")
    classes: tuple[str, ...] = Field((), description="names of the classes 0, 1, … of IDX files")
    hold_out: float = Field(0.05, gt=0, lt=1, description="share kept for validation where the data has no such split")


class ImageTrainingSettings(LoopSettings):
    """How a classifier learns."""

    batch_images: int = Field(128, ge=2, description="images in a batch")
    flip: bool = Field(False, description="mirror half of the training images, left for right")
    shift: int = Field(0, ge=0, description="move training images by up to so many pixels")
    select_by: Literal["accuracy", "loss"] = Field("accuracy", description="what the best checkpoint is best at")
    betas: tuple[float, float] = Field((0.9, 0.99), description="Adam's averaging")
    epsilon: float = Field(1e-8, gt=0, description="Adam's epsilon")


ClassifierSettings = Annotated[ResNetSettings | ViTSettings, Field(discriminator="kind")]


class ClassifierRecipe(AnyRecipe):
    """One reproducible classifier."""

    models: ClassVar[Mapping[str, type[Settings]]] = {"resnet": ResNetSettings, "vit": ViTSettings}

    model: ClassifierSettings
    images: ImageSettings = ImageSettings()
    training: ImageTrainingSettings


VisionRecipe = ClassifierRecipe | CaptionRecipe

# model.kind -> the recipe it stands in
RECIPES: dict[str, type[ClassifierRecipe] | type[CaptionRecipe]] = {
    "resnet": ClassifierRecipe,
    "vit": ClassifierRecipe,
    "captioner": CaptionRecipe,
}


def load_vision_recipe(name: str | Path, overrides: Sequence[str] = ()) -> VisionRecipe:
    """The recipe of a name (`bam`) or a file, with `table.key=value` overrides."""
    table, path = read_recipe(name, SHELF)
    return check_as(recipe_kind(table), table, str(path), overrides)


def recipe_kind(table: Mapping[str, Any]) -> type[ClassifierRecipe] | type[CaptionRecipe]:
    """The kind of recipe that a table is, by its model.kind; an unknown one is left to the check to refuse."""
    model = table.get("model")
    return RECIPES.get(str(model.get("kind")), ClassifierRecipe) if isinstance(model, dict) else ClassifierRecipe
