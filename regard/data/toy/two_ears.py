"""Two ears: an embedded set whose answer depends on two distant places together.

A head with an ear at either side of the picture. Each ear wears one of eight patterns, and the class is whether both
wear the same. What one ear wears says nothing about the class: each pattern is as frequent among the same as among the
different. A network that sees only a neighbourhood at a time and adds up what it sees (a convolutional network with a
mean at its end, whose receptive field is narrower than the head) can hardly do better than chance; one in which distant
places meet can be right every time.

How well can it do at most? It adds up a number u for the left ear and v for the right one and says "same" above some
threshold. If it is right about both (a, a) and (b, b), then u_a + v_b or u_b + v_a is above the threshold too, so it is
wrong about (a, b) or (b, a). Right about all that is the same, it is wrong about half of what is different: 75 %.
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
JITTER = 2  # pixels by which an ear may lie off its place
NOISE = 20.0  # standard deviation, in grey levels
TOGETHER = 1000  # images made at a time
LEFT, RIGHT, TOP = 7, 32, 9  # the centres
GAP = RIGHT - LEFT - 2 * JITTER - EAR  # pixels between the ears, at least: the narrowest neighbourhood that sees both

Patch = npt.NDArray[np.float32]


def patterns() -> Patch:
    """The eight patterns (8, EAR, EAR), each with values 0 and 1, and about half of each."""
    row, column = np.mgrid[0:EAR, 0:EAR]
    centre = EAR // 2
    ring = np.maximum(abs(row - centre), abs(column - centre))
    drawn = [
        row % 4 < 2,  # lying stripes
        column % 4 < 2,  # standing stripes
        (row + column) % 4 < 2,  # stripes that fall, and that rise
        (row - column) % 4 < 2,
        (row // 2 + column // 2) % 2 == 0,  # a chessboard
        ring % 2 == 0,  # squares within squares
        abs(row - centre) + abs(column - centre) > 4,  # a diamond
        (abs(row - centre) < 2) | (abs(column - centre) < 2),  # a cross
    ]
    return np.stack(drawn).astype(np.float32)


def two_ears(split: Split, count: int, seed: int = 0) -> ImageSet:
    """So many images; the same for the same split and seed, and no image of one split in another."""
    generator = np.random.Generator(np.random.PCG64([seed, zlib.crc32(split.encode())]))
    ears = patterns()
    labels = generator.integers(0, 2, count)
    left = generator.integers(0, len(ears), count)
    other = (left + generator.integers(1, len(ears), count)) % len(ears)
    right = np.where(labels == 1, left, other)
    images = np.empty((count, 1, SIZE, SIZE), np.uint8)
    for start in range(0, count, TOGETHER):
        part = slice(start, min(start + TOGETHER, count))
        canvas = _heads(part.stop - start, generator)
        _wear(canvas, ears[left[part]], LEFT, generator)
        _wear(canvas, ears[right[part]], RIGHT, generator)
        canvas += NOISE * generator.standard_normal(canvas.shape, np.float32)
        images[part, 0] = canvas.round().clip(0, 255)
    return ImageSet(images, labels, CLASSES)


def _heads(count: int, generator: np.random.Generator) -> Patch:
    """Dark grounds (count, SIZE, SIZE) with a head that tells nothing: it lies anywhere between and below the ears."""
    row, column = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32)
    y, x, height, width, grey = generator.uniform((24, 17, 8, 7, 90), (28, 22, 11, 9, 170), (count, 5)).T[
        ..., None, None
    ]
    inside = ((row - y) / height) ** 2 + ((column - x) / width) ** 2 < 1
    return np.where(inside, grey, 40.0).astype(np.float32)


def _wear(canvas: Patch, worn: Patch, x: int, generator: np.random.Generator) -> None:
    """Put an ear on each picture, near its place, in its own brightness."""
    offsets = generator.integers(-JITTER, JITTER + 1, (len(canvas), 2))
    dark, light = generator.uniform((0, 180), (60, 255), (len(canvas), 2)).T[..., None, None]
    drawn = dark + (light - dark) * worn
    for picture, ear, (dx, dy) in zip(canvas, drawn, offsets.tolist(), strict=True):
        left, top = x + dx - EAR // 2, TOP + dy - EAR // 2
        picture[top : top + EAR, left : left + EAR] = ear


def embedded(name: str, split: Split) -> ImageSet:
    """The set that a user names as toy:two-ears or toy:two-ears:COUNT."""
    match = re.fullmatch(r"toy:two-ears(?::(\d+))?", name)
    if match is None or match[1] == "0":
        raise DataError(f"{name}: is no embedded set of images: write toy:two-ears or toy:two-ears:COUNT.")
    count = int(match[1]) if match[1] and split == "train" else COUNTS[split]
    return two_ears(split, count)
