"""Images that are ready to be learned from, in OUT/training, so that resuming needs no more.

run.json                               the recipe, the classes, what the data was; written last
train.images.npy, train.labels.npy     bytes, memory-mapped; valid.… alike
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard import __version__
from regard.config.classification import ClassifierRecipe, ImageTrainingSettings
from regard.config.recipes import check_as
from regard.data.images.image_set import ImageSet, Split, check_set, describe, read_images
from regard.errors import DataError, ModelFolderError
from regard.models.contract import Batch
from regard.storage.files import write_json
from regard.storage.folder import read_json
from regard.training.prepare import RUN

Data = str | Path | ImageSet
"""A folder, toy:two-ears, or images in memory."""

KEPT: tuple[Split, ...] = ("train", "valid")


@dataclass(frozen=True)
class Prepared:
    """Images to learn from and to validate on."""

    recipe: ClassifierRecipe
    train: ImageSet
    valid: ImageSet
    data: dict[str, Any]  # what the images were, for the model card


def prepare(recipe: ClassifierRecipe, data: Data, valid: Data | None) -> Prepared:
    """Read and check all images; where there are none to validate on, some are held out."""
    train = open_split(recipe, data, "train")
    held = open_split(recipe, valid, "valid") if valid is not None else _own_valid(recipe, data)
    if train is None:
        raise DataError(f"{data}: has no images to train on (no train-images-idx3-ubyte, no train/): add them.")
    if held is None:
        train, held = _hold_out(train, recipe.images.hold_out, recipe.training.seed)
    if (held.shape, held.classes) != (train.shape, train.classes):
        raise DataError(
            f"the validation images are {describe(held.shape)} of {len(held.classes)} classes, the others "
            f"{describe(train.shape)} of {len(train.classes)}: make them alike."
        )
    told = {"train": {"data": _name(data), "images": len(train)}, "valid": {"data": _name(valid), "images": len(held)}}
    if valid is None:
        told["valid"]["data"] = _name(data)
    return Prepared(recipe, train, held, told)


def open_split(recipe: ClassifierRecipe, data: Data, split: Split) -> ImageSet | None:
    """The images of a split as the recipe wants them; an ImageSet is taken as it is."""
    if isinstance(data, ImageSet):
        return check_set(data, "the images")
    settings = recipe.images
    return read_images(data, split, channels=settings.channels, size=settings.size, classes=settings.classes)


def _own_valid(recipe: ClassifierRecipe, data: Data) -> ImageSet | None:
    return None if isinstance(data, ImageSet) else open_split(recipe, data, "valid")


def _hold_out(images: ImageSet, share: float, seed: int) -> tuple[ImageSet, ImageSet]:
    """Training and validation images, drawn from the seed."""
    order = np.random.Generator(np.random.PCG64([seed, len(images)])).permutation(len(images))
    count = max(1, round(share * len(images)))
    if count >= len(images):
        raise DataError("there is a single image: give more, to learn from and to validate on.")
    return images.select(np.sort(order[count:])), images.select(np.sort(order[:count]))


def _name(data: Data | None) -> str:
    return "images from Python" if isinstance(data, ImageSet) else Path(str(data)).name


# --- on disk ------------------------------------------------------------------------------------------------------


def save_prepared(prepared: Prepared, folder: Path) -> None:
    """Write the images and, last, run.json."""
    folder.mkdir(parents=True)
    for split in KEPT:
        images: ImageSet = getattr(prepared, split)
        np.save(folder / f"{split}.images.npy", images.images, allow_pickle=False)
        np.save(folder / f"{split}.labels.npy", images.labels, allow_pickle=False)
    save_run(prepared, folder)


def save_run(prepared: Prepared, folder: Path) -> None:
    """Write run.json."""
    recipe = prepared.recipe.model_dump(mode="json")
    record = {"version": __version__, "recipe": recipe, "classes": prepared.train.classes, "data": prepared.data}
    write_json(folder / RUN, record)


def load_prepared(folder: Path) -> Prepared:
    """Read it again."""
    record = read_run(folder)
    recipe = check_as(ClassifierRecipe, record["recipe"], str(folder / RUN))
    train, valid = (_load(folder, split, record["classes"]) for split in KEPT)
    return Prepared(recipe, train, valid, record["data"])


def read_run(folder: Path) -> dict[str, Any]:
    """run.json, checked for its version, whatever the model is."""
    if not (folder / RUN).exists():
        raise ModelFolderError(
            f"{folder.parent}: holds no unfinished training: start one with "
            "`regard vision train RECIPE --data … --out …`."
        )
    record = read_json(folder / RUN)
    if record.get("version") != __version__:
        raise ModelFolderError(
            f"{folder / RUN}: was written by Regard {record.get('version')}, and this is {__version__}: "
            "resume with that version, or start anew."
        )
    return record


def _load(folder: Path, split: Split, classes: Sequence[str]) -> ImageSet:
    try:
        images = np.load(folder / f"{split}.images.npy", mmap_mode="r", allow_pickle=False)
        labels = np.load(folder / f"{split}.labels.npy", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise DataError(f"{folder}: its {split} images cannot be read ({error}): start training anew.") from None
    return ImageSet(images, labels, tuple(classes))


# --- batches ------------------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """One batch of an epoch."""

    indices: npt.NDArray[np.int64]
    seed: tuple[int, ...]  # what its flips and shifts follow from


class ImagePlan:
    """Which images are learned together, epoch by epoch; batches differ by one image at most."""

    def __init__(self, images: ImageSet, settings: ImageTrainingSettings, *, shuffle: bool = True) -> None:
        self.images = images
        self.settings = settings
        self.shuffle = shuffle

    def epoch(self, number: int) -> list[Place]:
        """The batches of an epoch."""
        order = np.arange(len(self.images))
        if self.shuffle:
            order = np.random.Generator(np.random.PCG64([self.settings.seed, number])).permutation(order)
        # Even parts: a batch of one image would be a mean and variance of nothing to batch normalisation.
        count = max(1, -(-len(order) // self.settings.batch_images))
        parts = np.array_split(order, count)
        return [Place(part, (self.settings.seed, number, place)) for place, part in enumerate(parts)]

    def batch(self, item: Place) -> Batch:
        """The images of a batch, moved and mirrored where they are learned from."""
        images = torch.from_numpy(self.images.images[item.indices])
        if self.shuffle:
            images = augment(images, self.settings, np.random.Generator(np.random.PCG64(item.seed)))
        labels = torch.from_numpy(self.images.labels[item.indices]).unsqueeze(1)
        everywhere = torch.ones_like(labels, dtype=torch.bool)
        return Batch(images, None, torch.zeros_like(labels), labels, everywhere, tuple(item.indices.tolist()))


def augment(images: Tensor, settings: ImageTrainingSettings, generator: np.random.Generator) -> Tensor:
    """Images (B, C, H, W) of which half are mirrored and all are moved, black where they have left the frame."""
    if settings.flip:
        mirrored = torch.from_numpy(generator.random(len(images)) < 0.5)
        images = torch.where(mirrored[:, None, None, None], images.flip(3), images)
    if settings.shift:
        most = settings.shift
        padded = torch.nn.functional.pad(images, (most, most, most, most))
        top, left = torch.from_numpy(generator.integers(0, 2 * most + 1, (2, len(images), 1)))
        rows = top + torch.arange(images.size(2))  # (B, H)
        columns = left + torch.arange(images.size(3))  # (B, W)
        each = torch.arange(len(images))[:, None, None]
        images = padded.permute(0, 2, 3, 1)[each, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
    return images


def channel_statistics(images: ImageSet) -> tuple[Tensor, Tensor]:
    """Mean and deviation (C, 1, 1) of the bytes of each channel; a channel without any change keeps its scale."""
    pixels = images.images[:: max(1, len(images) // 10_000)]
    mean = pixels.mean((0, 2, 3), dtype=np.float64)
    deviation = pixels.std((0, 2, 3), dtype=np.float64)
    deviation[deviation == 0] = 1.0
    as_tensor = [torch.tensor(values, dtype=torch.float32)[:, None, None] for values in (mean, deviation)]
    return cast("tuple[Tensor, Tensor]", tuple(as_tensor))
