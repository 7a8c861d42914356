"""Two ears: an embedded image set whose class depends on two distant regions together.

Each image shows a head with an ear at either side. Each ear has one of eight patterns; the class is whether both have
the same. One ear alone carries no information: every pattern is equally frequent in both classes. A convolutional
network with global average pooling whose receptive field is narrower than the head only sums local evidence, and
hardly exceeds chance. A network that relates distant positions can reach 100 %.

The upper bound of summed local evidence: the network adds u for the left ear and v for the right one, and answers
"same" above a threshold. If (a, a) and (b, b) are right, then u_a + v_b or u_b + v_a exceeds the threshold too, so
(a, b) or (b, a) is wrong. With every "same" right, half of "different" is wrong: 75 %.
"""

from __future__ import annotations

import re
import zlib

import numpy as np
import numpy.typing as npt

from regard.data.images.image_set import ImageSet, Split
from regard.errors import DataError

SIZE = 40
EAR = 9  # height and width of an ear
CLASSES = ("different", "same")
COUNTS: dict[Split, int] = {"train": 20_000, "valid": 1_000, "test": 5_000}
JITTER = 2  # maximum offset of an ear, in pixels
NOISE = 20.0  # standard deviation, in grey levels
TOGETHER = 1000  # images generated at a time
LEFT, RIGHT, TOP = 7, 32, 9  # the centres
GAP = RIGHT - LEFT - 2 * JITTER - EAR  # minimum pixels between the ears: a receptive field must exceed it to see both

Patch = npt.NDArray[np.float32]


def patterns() -> Patch:
    """The eight patterns (8, EAR, EAR), with values 0 and 1 about equally often."""
    row, column = np.mgrid[0:EAR, 0:EAR]
    centre = EAR // 2
    ring = np.maximum(abs(row - centre), abs(column - centre))
    drawn = [
        row % 4 < 2,  # horizontal stripes
        column % 4 < 2,  # vertical stripes
        (row + column) % 4 < 2,  # diagonal stripes, in both directions
        (row - column) % 4 < 2,
        (row // 2 + column // 2) % 2 == 0,  # a chessboard
        ring % 2 == 0,  # squares within squares
        abs(row - centre) + abs(column - centre) > 4,  # a diamond
        (abs(row - centre) < 2) | (abs(column - centre) < 2),  # a cross
    ]
    return np.stack(drawn).astype(np.float32)


def two_ears(split: Split, count: int, seed: int = 0) -> ImageSet:
    """`count` images, deterministic by split and seed; splits share no image."""
    generator = np.random.Generator(np.random.PCG64([seed, zlib.crc32(split.encode())]))
    ears = patterns()
    labels = generator.integers(0, 2, count)
    left = generator.integers(0, len(ears), count)
    other = (left + generator.integers(1, len(ears), count)) % len(ears)
    right = np.where(labels == 1, left, other)
    images = np.empty((count, 1, SIZE, SIZE), np.uint8)
    objects = np.zeros((count, SIZE, SIZE), np.bool_)  # the ears: the head says nothing
    for start in range(0, count, TOGETHER):
        part = slice(start, min(start + TOGETHER, count))
        canvas = _heads(part.stop - start, generator)
        _wear(canvas, objects[part], ears[left[part]], LEFT, generator)
        _wear(canvas, objects[part], ears[right[part]], RIGHT, generator)
        canvas += NOISE * generator.standard_normal(canvas.shape, np.float32)
        images[part, 0] = canvas.round().clip(0, 255)
    return ImageSet(images, labels, CLASSES, objects)


def _heads(count: int, generator: np.random.Generator) -> Patch:
    """Dark backgrounds (count, SIZE, SIZE) with an uninformative head, placed randomly between and below the ears."""
    row, column = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32)
    y, x, height, width, grey = generator.uniform((24, 17, 8, 7, 90), (28, 22, 11, 9, 170), (count, 5)).T[
        ..., None, None
    ]
    inside = ((row - y) / height) ** 2 + ((column - x) / width) ** 2 < 1
    return np.where(inside, grey, 40.0).astype(np.float32)


def _wear(canvas: Patch, objects: npt.NDArray[np.bool_], worn: Patch, x: int, generator: np.random.Generator) -> None:
    """Draw an ear on each image, with random offset and brightness, and mark it in `objects`."""
    offsets = generator.integers(-JITTER, JITTER + 1, (len(canvas), 2))
    dark, light = generator.uniform((0, 180), (60, 255), (len(canvas), 2)).T[..., None, None]
    drawn = dark + (light - dark) * worn
    for picture, mask, ear, (dx, dy) in zip(canvas, objects, drawn, offsets.tolist(), strict=True):
        left, top = x + dx - EAR // 2, TOP + dy - EAR // 2
        picture[top : top + EAR, left : left + EAR] = ear
        mask[top : top + EAR, left : left + EAR] = True


def embedded(name: str, split: Split) -> ImageSet:
    """The image set named toy:two-ears or toy:two-ears:COUNT."""
    match = re.fullmatch(r"toy:two-ears(?::(\d+))?", name)
    if match is None or match[1] == "0":
        raise DataError(f"{name}: is not an embedded image set: write toy:two-ears or toy:two-ears:COUNT.")
    count = int(match[1]) if match[1] and split == "train" else COUNTS[split]
    return two_ears(split, count)
