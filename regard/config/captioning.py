"""The recipe of a captioner: the only home of its settings, their defaults and their documentation; needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field, PositiveInt, model_validator

from regard.config.base import Settings
from regard.config.settings import AnyRecipe, LoopSettings, SearchSettings, TextSettings


class CaptionerSettings(Settings):
    """Show, Attend and Tell: a CNN reads the image, an LSTM looks at its cells and tells what it sees."""

    title: ClassVar[str] = "convolutional encoder, gated additive attention over image cells, LSTM decoder"
    paper: ClassVar[str] = "Xu et al. 2015"
    published: ClassVar[str] = "COCO BLEU-4 24.3 (soft), 25.0 (hard)"

    kind: Literal["captioner"] = "captioner"
    image_size: int = Field(64, ge=8, le=1024, description="height and width to which images are brought, in pixels")
    image_channels: Literal[1, 3] = Field(3, description="1 for grey images, 3 for colour")
    channels: tuple[PositiveInt, ...] = Field(
        (32, 64, 128), min_length=1, description="of the convolutions; each one halves height and width"
    )
    coordinates: bool = Field(True, description="tell where each pixel and cell lies (not in the paper)")
    embedding_size: int = Field(128, ge=1, description="size of a word's vector")
    hidden_size: int = Field(256, ge=1, description="size of the LSTM")
    attention_size: int = Field(128, ge=1, description="size of the additive score's hidden layer")
    attention: Literal["soft", "hard"] = Field(
        "soft", description="weigh all cells, or look at a single one (sampled while training, else the likeliest)"
    )
    doubly_stochastic: float = Field(
        0.0, ge=0, description="lambda: how much every cell should be looked at once over the whole caption"
    )
    dropout: float = Field(0.2, ge=0, lt=1, description="share of units dropped at the output while training")
    word_dropout: float = Field(0.0, ge=0, lt=1, description="share of words hidden from the decoder while training")

    @property
    def grid(self) -> int:
        """Rows, and columns, of the cells that are looked at."""
        return self.image_size >> len(self.channels)

    @property
    def cell_size(self) -> int:
        """The size of a cell's vector."""
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
    """How a captioner learns."""

    batch_images: int = Field(64, ge=1, description="images, each with one caption, learned from together")
    validation_captions: int = Field(500, ge=0, description="images captioned at each validation for BLEU; 0: none")
    select_by: Literal["bleu", "loss"] = Field("loss", description="what the best checkpoint is best at")

    @model_validator(mode="after")
    def _bleu_is_there(self) -> CaptionTraining:
        if self.select_by == "bleu" and not self.validation_captions:
            raise ValueError('select_by = "bleu" needs validation_captions')
        return self


class CaptionRecipe(AnyRecipe):
    """One reproducible captioner."""

    models: ClassVar[Mapping[str, type[Settings]]] = {"captioner": CaptionerSettings}

    description: str = Field("", description="what it is, in one line")
    paper: str = Field("", description="where it comes from")
    published: str = Field("", description="the score that was published for it")
    model: CaptionerSettings
    text: TextSettings = TextSettings(tokenizer="word", min_frequency=1)
    training: CaptionTraining
    search: SearchSettings = SearchSettings(max_length_ratio=1.0, replace_unknown=False)
