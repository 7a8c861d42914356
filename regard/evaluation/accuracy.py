"""Accuracy of a classifier, by class, with its confusions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.evaluation.object_mass import ObjectMass


@dataclass(frozen=True)
class Accuracy:
    """Accuracy and confusion matrix of a classifier."""

    images: int
    loss: float
    accuracy: float
    by_class: Mapping[str, float]
    confusions: npt.NDArray[np.int64]  # (classes, classes): true class by row, predicted class by column
    object_mass: ObjectMass | None = None  # for an image set with known objects and a network with attention

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "images": self.images,
            "loss": self.loss,
            "accuracy": self.accuracy,
            "by_class": dict(self.by_class),
            "confusions": self.confusions.tolist(),
            **({} if self.object_mass is None else {"map_mass_inside_object": self.object_mass.to_dict()}),
        }


def accuracy(
    predicted: npt.NDArray[np.int64],
    labels: npt.NDArray[np.int64],
    classes: Sequence[str],
    loss: float,
    mass: ObjectMass | None = None,
) -> Accuracy:
    """Compare predictions (N,) with labels (N,); `loss` is the mean over the images."""
    confusions = np.zeros((len(classes), len(classes)), np.int64)
    np.add.at(confusions, (labels, predicted), 1)
    counts = confusions.sum(1)
    shares = {
        name: float(confusions[number, number] / counts[number])
        for number, name in enumerate(classes)
        if counts[number]
    }
    return Accuracy(len(labels), loss, float((predicted == labels).mean()), shares, confusions, mass)
