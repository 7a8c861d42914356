"""The recipe of a captioner: its settings with their defaults and documentation; needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field, PositiveInt, model_validator

from regard.config.base import Architecture
from regard.config.settings import AnyRecipe, LoopSettings, SearchSettings, TextSettings


class CaptionerSettings(Architecture):
    """Show, Attend and Tell: a CNN encodes the image, an LSTM with attention over its cells writes the caption."""

    title: ClassVar[str] = "convolutional encoder, gated additive attention over image cells, LSTM decoder"
    paper: ClassVar[str] = "Xu et al. 2015"
    published: ClassVar[str] = "COCO BLEU-4 24.3 (soft), 25.0 (hard)"

    kind: Literal["captioner"] = "captioner"
    image_size: int = Field(64, ge=8, le=1024, description="height and width that images are resized to, in pixels")
    image_channels: Literal[1, 3] = Field(3, description="1 for grey images, 3 for colour")
    channels: tuple[PositiveInt, ...] = Field(
        (32, 64, 128), min_length=1, description="output channels of each convolution; each one halves height and width"
    )
    coordinates: bool = Field(True, description="add x and y channels to pixels and cells (not in the paper)")
    embedding_size: int = Field(128, ge=1, description="size of a word embedding")
    hidden_size: int = Field(256, ge=1, description="hidden size of the LSTM")
    attention_size: int = Field(128, ge=1, description="size of the additive score's hidden layer")
    attention: Literal["soft", "hard"] = Field(
        "soft",
        description="soft: weighted mean of all cells; hard: one cell, sampled in training, argmax in inference",
    )
    doubly_stochastic: float = Field(
        0.0, ge=0, description="weight (lambda) of the penalty on cells whose attention over the caption is not 1"
    )
    dropout: float = Field(0.2, ge=0, lt=1, description="dropout rate at the output layer")
    word_dropout: float = Field(0.0, ge=0, lt=1, description="dropout rate of whole input words of the decoder")

    @property
    def grid(self) -> int:
        """Rows, and columns, of the grid of cells."""
        return self.image_size >> len(self.channels)

    @property
    def cell_size(self) -> int:
        """Size of an annotation vector."""
        return self.channels[-1] + 2 * self.coordinates

    @model_validator(mode="after")
    def _cells_are_whole(self) -> CaptionerSettings:
        if self.image_size % (1 << len(self.channels)) or self.grid < 2:
            raise ValueError(
                f"image_size = {self.image_size} cannot be halved {len(self.channels)} times (once for each of "
                "channels) into 2 x 2 cells or more: change one of them"
            )
        return self


class CaptionTraining(LoopSettings):
    """Training settings of a captioner."""

    batch_images: int = Field(64, ge=1, description="images in a batch, each with one caption")
    validation_captions: int = Field(500, ge=0, description="images captioned at each validation for BLEU; 0: none")
    select_by: Literal["bleu", "loss"] = Field("loss", description="metric that selects the best checkpoint")

    @model_validator(mode="after")
    def _bleu_is_there(self) -> CaptionTraining:
        if self.select_by == "bleu" and not self.validation_captions:
            raise ValueError('select_by = "bleu" needs validation_captions')
        return self


class CaptionRecipe(AnyRecipe):
    """One reproducible captioner."""

    models: ClassVar[Mapping[str, type[Architecture]]] = {"captioner": CaptionerSettings}

    model: CaptionerSettings
    text: TextSettings = TextSettings(tokenizer="word", min_frequency=1)
    training: CaptionTraining
    search: SearchSettings = SearchSettings(max_length_ratio=1.0, replace_unknown=False)
