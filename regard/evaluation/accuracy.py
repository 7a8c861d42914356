"""How good a classifier is on labelled images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.data.images.image_set import SPLITS, ImageSet, Split, read_images
from regard.errors import DataError, did_you_mean
from regard.inference.classifier import Classifier
from regard.process import tune_process


def evaluate_classifier(
    folder: str | Path, *, data: str | Path, split: str = "test", device: str = "cpu", threads: int | None = None
) -> dict[str, Any]:
    """Accuracy, loss, accuracy by class and confusions on one split of the images."""
    tune_process(threads)
    classifier = Classifier.load(folder, device)
    return classifier.evaluate(labelled_images(classifier, data, split)).to_dict()


def labelled_images(classifier: Classifier, data: str | Path, split: str = "test") -> ImageSet:
    """One split of what a user names, as the classifier reads it."""
    chosen: Split | None = next((known for known in SPLITS if known == split), None)
    if chosen is None:
        raise DataError(f"split {split!r}: there is no such part of the images: {did_you_mean(split, SPLITS)}")
    settings = classifier.recipe.images
    images = read_images(data, chosen, channels=settings.channels, size=settings.size, classes=classifier.classes)
    if images is None:
        raise DataError(f"{data}: has no {split} images: choose another with --split.")
    return images
