"""What a training is about: the interface between the loop, which knows no text and no images, and what is learned.

The loop and the session that starts and resumes it are the same for translation, classification and captioning. A
Task prepares the data in OUT/training; a PreparedTask gives the loop its batches, model, loss, validation and result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

import torch

from regard.config.settings import AnyRecipe, LoopSettings
from regard.models.contract import Batch, Output, Predictor

if TYPE_CHECKING:
    from regard.training.loop import Run
    from regard.training.progress import Reporter

Learned = TypeVar("Learned", covariant=True)


class EpochPlan(Protocol):
    """Which examples are learned together, epoch by epoch; the same for the same seed and epoch, always."""

    def epoch(self, number: int) -> Sequence[Any]:
        """One item for each batch of an epoch."""

    def batch(self, item: Any, /) -> Batch:
        """The tensors of an item; the same whenever they are asked for."""


class Measured(Protocol):
    """The result of a validation."""

    @property
    def loss(self) -> float:
        """Per token or image, natural logarithm, without smoothing."""

    @property
    def score(self) -> float:
        """What checkpoints are compared by; higher is better."""

    @property
    def samples(self) -> Sequence[Mapping[str, str]]:
        """Texts by their names, such as source, reference and translation of a sentence; for the log and the eye."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for the log, metrics.json and the line a person reads (see `progress.QUALITIES`)."""


class Validates(Protocol):
    """A validation set, ready to be used again and again."""

    @property
    def cost_tokens(self) -> float:
        """The work of one validation, as tokens (or images) of training."""

    def use_part(self, share: float) -> None:
        """From now on use only this share of the set, evenly spread over it; called once."""

    def __call__(self, model: Any, between: Callable[[], None], /) -> Measured:
        """Validate; `between` is called between batches and may raise to break off."""


class Task(ABC, Generic[Learned]):
    """What to learn: a recipe and the data that a user names; `Learned` is what the training returns.

    `prepare` is called once, in a new training; `open` in every one, new or resumed.
    """

    recipe: AnyRecipe
    unit: ClassVar[str] = "tokens"  # what the loss is an average over

    @abstractmethod
    def prepare(self, folder: Path, reporter: Reporter) -> Predictor:
        """Check all data, write what resuming needs into the folder, run.json last; the model with initial weights."""

    @abstractmethod
    def open(self, folder: Path) -> PreparedTask[Learned]:
        """The data that `prepare` wrote into the folder, ready for the loop."""


class PreparedTask(ABC, Generic[Learned]):
    """The data of a task as it lies in OUT/training: all that the loop knows of what is learned."""

    unit: ClassVar[str] = "tokens"  # what the loss is an average over
    examples: ClassVar[str] = "sentence pairs"  # what a batch is made of

    recipe: AnyRecipe

    @property
    def settings(self) -> LoopSettings:
        """How to learn."""
        return self.recipe.training

    @abstractmethod
    def build(self) -> Predictor:
        """The model with weights drawn from the seed, for a checkpoint's to be put into."""

    @abstractmethod
    def plan(self) -> EpochPlan:
        """The batches."""

    @abstractmethod
    def validator(self, device: torch.device) -> Validates | None:
        """The validation, if there is anything to validate on."""

    def forward(self, model: Any, batch: Batch, update: int, total: int | None) -> tuple[Batch, Output]:
        """The model's output for a batch in an update of `total`; a task may change the batch or add a loss."""
        return batch, model(batch)

    @abstractmethod
    def changed(self, overrides: Sequence[str]) -> Self:
        """The same with settings changed, to be resumed; what cannot be changed any more is refused."""

    @abstractmethod
    def save_recipe(self, folder: Path) -> None:
        """Write the changed recipe into OUT/training."""

    @abstractmethod
    def finish(self, run: Run, metrics: dict[str, Any]) -> Learned:
        """Write the model folder with the run's chosen weights, and open it."""

    def watch(self, run: Run) -> None:
        """Look at the model once at each validation; nothing, for most tasks."""
