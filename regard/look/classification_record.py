"""What a classifier saw as one JSON document; docs/look-format.md tells of every field."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from regard.data.images.pixels import png_of
from regard.inference.classifier import Classification
from regard.nn.image.attention_map import Cells, Seen

FORMAT = "regard-seen/1"

Map = npt.NDArray[np.float64]


def classification_record(found: Classification) -> dict[str, Any]:
    """Plain values: the image as the model read it, the classes, and what each module did; to 6 digits."""
    channels, height, width = found.image.shape
    pixels = found.image[0] if channels == 1 else found.image.transpose(1, 2, 0)
    return {
        "format": FORMAT,
        "image": {"width": width, "height": height, "png": png_of(np.ascontiguousarray(pixels))},
        "label": found.label,
        "probabilities": {label: _short(value) for label, value in found.probabilities.items()},
        "modules": [_module(seen) for seen in found.seen],
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
    }


def _nested(values: Map) -> Any:
    return [_nested(part) for part in values] if values.ndim > 1 else [_short(value) for value in values.tolist()]


def _short(value: float) -> float:
    return value if value == 0 or not math.isfinite(value) else float(f"{value:.6g}")
