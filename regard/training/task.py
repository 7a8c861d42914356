"""The task interface: everything about text or images that the training loop does not know.

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
    from regard.training.distributed import Group
    from regard.training.loop import Run
    from regard.training.progress import Reporter

Learned = TypeVar("Learned", covariant=True)


class EpochPlan(Protocol):
    """The batches of each epoch; deterministic given seed and epoch."""

    def epoch(self, number: int) -> Sequence[Any]:
        """One item for each batch of an epoch."""

    def batch(self, item: Any, /) -> Batch:
        """The tensors of an item; deterministic."""


class Measured(Protocol):
    """The result of a validation."""

    @property
    def loss(self) -> float:
        """Cross-entropy per token or image, natural logarithm, without smoothing."""

    @property
    def score(self) -> float:
        """Score for selecting checkpoints; higher is better."""

    @property
    def samples(self) -> Sequence[Mapping[str, str]]:
        """Sample outputs by name, such as source, reference and translation; for log and terminal."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for the log, metrics.json and the terminal (see `progress.QUALITIES`)."""


class Validates(Protocol):
    """A validation set, prepared for repeated use."""

    @property
    def cost_tokens(self) -> float:
        """Cost of one validation, in training tokens (or images)."""

    def use_part(self, share: float) -> None:
        """Subsample the set to this share, evenly spread; called once."""

    def __call__(self, model: Any, between: Callable[[], None], /) -> Measured:
        """Validate; `between` is called between batches and may raise to abort."""


class Task(ABC, Generic[Learned]):
    """A recipe and the user's data; `Learned` is the type of model that training returns.

    `prepare` is called once, in a new training; `open` in new and resumed ones.
    """

    recipe: AnyRecipe
    unit: ClassVar[str] = "tokens"  # what the loss is an average over
    goes_on: ClassVar[bool] = False  # whether `prepare` uses what an interrupted one left in the folder

    @abstractmethod
    def prepare(self, folder: Path, reporter: Reporter) -> Predictor:
        """Check all data, write everything needed to resume, run.json last; returns the initialised model."""

    @abstractmethod
    def open(self, folder: Path) -> PreparedTask[Learned]:
        """The data that `prepare` wrote into the folder, ready for the loop."""


class PreparedTask(ABC, Generic[Learned]):
    """The prepared data of a task in OUT/training, with its model, loss and validation."""

    unit: ClassVar[str] = "tokens"  # what the loss is an average over
    examples: ClassVar[str] = "sentence pairs"  # what a batch is made of

    recipe: AnyRecipe

    @property
    def settings(self) -> LoopSettings:
        """Settings of the training loop."""
        return self.recipe.training

    @abstractmethod
    def build(self) -> Predictor:
        """The model, initialised from the seed; a checkpoint's weights are loaded into it."""

    @abstractmethod
    def plan(self) -> EpochPlan:
        """The batches."""

    @abstractmethod
    def validator(self, device: torch.device, group: Group) -> Validates | None:
        """The validation set, if there is one; each rank of the group takes a share of it."""

    def forward(self, model: Any, batch: Batch, update: int, total: int | None) -> tuple[Batch, Output]:
        """The model's output for a batch in an update of `total`; a task may change the batch or add a loss.

        With R-Drop both hold the rows twice.
        """
        batch = batch.twice() if self.settings.r_drop else batch
        return batch, model(batch)

    @abstractmethod
    def changed(self, overrides: Sequence[str]) -> Self:
        """The same with changed settings, on resume; settings that cannot change are refused."""

    @abstractmethod
    def save_recipe(self, folder: Path) -> None:
        """Write the changed recipe into OUT/training."""

    @abstractmethod
    def finish(self, run: Run, metrics: dict[str, Any]) -> Learned:
        """Write the model folder with the selected weights, and load it."""

    def watch(self, run: Run) -> None:
        """Hook called at each validation; most tasks do nothing."""
