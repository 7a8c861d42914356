"""The record of a classification, the input of all its views; docs/look-format.md describes every field."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from regard.data.images.pixels import Pixels, png_of
from regard.nn.attention.intervention import Kind
from regard.nn.image.attention_map import Cells, Gates, Seen

FORMAT = "regard-seen/1"

Map = npt.NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class Classification:
    """The class probabilities of an image and, after `look`, the attention of each module."""

    label: str
    probabilities: Mapping[str, float]  # of every class, the likeliest first
    image: Pixels  # (H, W, 3), or (H, W) if it is grey; as the model read it
    seen: tuple[Seen, ...] = ()  # B = 1
    attention: Mapping[Kind, npt.NDArray[np.float32]] | None = None  # (layers, heads, T, S), as in the contract
    grid: tuple[int, int] | None = None  # rows and columns of the cells that T and S count
    class_token: bool = False  # whether position 0 of T and S is the class token

    @property
    def probability(self) -> float:
        """Of the label."""
        return self.probabilities[self.label]

    def __str__(self) -> str:
        return self.label

    def __repr__(self) -> str:
        return f"<Classification {self.label!r}, probability {self.probability:.2f}>"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: the image, the classes, and what each module did; to 6 digits."""
        height, width = self.image.shape[:2]
        return {
            "format": FORMAT,
            "image": {"width": width, "height": height, "png": png_of(self.image)},
            "label": self.label,
            "probabilities": {label: _short(value) for label, value in self.probabilities.items()},
            "modules": [_module(seen) for seen in self.seen],
        }


def only_image(tensor: Tensor) -> Map:
    """The numbers of the only image of a batch."""
    return tensor[0].double().cpu().numpy()


def _module(seen: Seen) -> dict[str, Any]:
    if isinstance(seen, Cells):
        return {
            "kind": "encoder-self",
            "grid": list(seen.grid),
            "class_token": seen.class_token,
            "weights": _nested(only_image(seen.weights)),
        }
    weights = only_image(seen.weights)  # (C, H, W)
    return {
        "kind": "gate",
        "grid": list(seen.before.shape[2:]),
        "weights": _nested(weights.mean(0)),
        "channels": _nested(weights.mean((1, 2))),
        "before": _nested(np.abs(only_image(seen.before)).mean(0)),
        "after": _nested(np.abs(only_image(seen.after)).mean(0)),
        "branches": _branches(seen),
    }


def _branches(seen: Gates) -> dict[str, Any] | None:
    """Channel and spatial attention apart, and how they give the weights; None for a module without both."""
    if seen.channel is None or seen.spatial is None:
        return None
    return {
        "channel": _nested(only_image(seen.channel)),
        "spatial": _nested(only_image(seen.spatial)),
        "join": seen.join,
    }


def _nested(values: Map) -> Any:
    return [_nested(part) for part in values] if values.ndim > 1 else [_short(value) for value in values.tolist()]


def _short(value: float) -> float:
    return value if value == 0 or not math.isfinite(value) else float(f"{value:.6g}")
