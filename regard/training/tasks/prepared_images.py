"""Labelled images prepared in OUT/training; resuming needs nothing else.

run.json                               recipe, classes, description of the data; written last
train.images.npy, train.labels.npy     uint8, memory-mapped; likewise valid.…
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from regard.config.classification import ClassifierRecipe
from regard.data.images.image_set import ImageSet, Split, check_set, describe, read_images
from regard.data.text.sources import FilePath
from regard.errors import DataError
from regard.storage.run import read_run, write_run

Images = FilePath | ImageSet
"""A folder, toy:two-ears, or images in memory."""

KEPT: tuple[Split, ...] = ("train", "valid")


@dataclass(frozen=True)
class PreparedImages:
    """Training and validation images."""

    recipe: ClassifierRecipe
    train: ImageSet
    valid: ImageSet
    data: dict[str, Any]  # description of the images, for the model card


def prepare(recipe: ClassifierRecipe, data: Images, valid: Images | None) -> PreparedImages:
    """Read and check all images; hold out a validation set if there is none."""
    train = open_split(recipe, data, "train")
    held = open_split(recipe, valid, "valid") if valid is not None else _own_valid(recipe, data)
    if train is None:
        raise DataError(f"{data}: has no images to train on (no train-images-idx3-ubyte, no train/): add them.")
    if held is None:
        train, held = _hold_out(train, recipe.images.hold_out, recipe.training.seed)
    if (held.shape, held.classes) != (train.shape, train.classes):
        raise DataError(
            f"the validation images are {describe(held.shape)} of {len(held.classes)} classes, the others "
            f"{describe(train.shape)} of {len(train.classes)}: use images of one size and the same classes."
        )
    told = {"train": {"data": _name(data), "images": len(train)}, "valid": {"data": _name(valid), "images": len(held)}}
    if valid is None:
        told["valid"]["data"] = _name(data)
    return PreparedImages(recipe, train, held, told)


def open_split(recipe: ClassifierRecipe, data: Images, split: Split) -> ImageSet | None:
    """The images of a split, converted to the recipe's size and channels; an ImageSet is used as it is."""
    if isinstance(data, ImageSet):
        return check_set(data, "the images")
    settings = recipe.images
    return read_images(
        Path(data) if isinstance(data, PathLike) else data,
        split,
        channels=settings.channels,
        size=settings.size,
        classes=settings.classes,
    )


def _own_valid(recipe: ClassifierRecipe, data: Images) -> ImageSet | None:
    return None if isinstance(data, ImageSet) else open_split(recipe, data, "valid")


def _hold_out(images: ImageSet, share: float, seed: int) -> tuple[ImageSet, ImageSet]:
    """Random split into training and validation images, by the seed."""
    order = np.random.Generator(np.random.PCG64([seed, len(images)])).permutation(len(images))
    count = max(1, round(share * len(images)))
    if count >= len(images):
        raise DataError("there is a single image: give more, to learn from and to validate on.")
    return images.select(np.sort(order[count:])), images.select(np.sort(order[:count]))


def _name(data: Images | None) -> str:
    return "images from Python" if isinstance(data, ImageSet) else Path(str(data)).name


# --- on disk ------------------------------------------------------------------------------------------------------


def save_prepared(prepared: PreparedImages, folder: Path) -> None:
    """Write the images and, last, run.json."""
    folder.mkdir(parents=True)
    for split in KEPT:
        images: ImageSet = getattr(prepared, split)
        np.save(folder / f"{split}.images.npy", images.images, allow_pickle=False)
        np.save(folder / f"{split}.labels.npy", images.labels, allow_pickle=False)
    save_run(prepared, folder)


def save_run(prepared: PreparedImages, folder: Path) -> None:
    """Write run.json."""
    write_run(folder, prepared.recipe, classes=prepared.train.classes, data=prepared.data)


def load_prepared(folder: Path) -> PreparedImages:
    """Read the prepared images."""
    recipe, about = read_run(folder)
    assert isinstance(recipe, ClassifierRecipe)
    train, valid = (_load(folder, split, about["classes"]) for split in KEPT)
    return PreparedImages(recipe, train, valid, about["data"])


def _load(folder: Path, split: Split, classes: Sequence[str]) -> ImageSet:
    try:
        images = np.load(folder / f"{split}.images.npy", mmap_mode="r", allow_pickle=False)
        labels = np.load(folder / f"{split}.labels.npy", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise DataError(f"{folder}: its {split} images cannot be read ({error}): start a new training.") from None
    return ImageSet(images, labels, tuple(classes))
