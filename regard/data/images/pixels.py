"""Between the bytes of a picture, as Pillow and NumPy have them, and those that a model reads."""

from __future__ import annotations

import base64
import io

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

Pixels = npt.NDArray[np.uint8]
"""(H, W, 3), or (H, W) if it is grey."""


def as_tensor(pixels: Pixels, size: int) -> Tensor:
    """Bytes (C, size, size), the whole picture stretched to them."""
    if pixels.shape[:2] != (size, size):
        pixels = np.asarray(Image.fromarray(pixels).resize((size, size), Image.Resampling.BILINEAR))
    planes = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    return torch.from_numpy(planes.copy())


def as_pixels(image: Tensor) -> Pixels:
    """The picture of bytes (C, H, W)."""
    planes: Pixels = image.numpy()
    return planes[0] if planes.shape[0] == 1 else np.ascontiguousarray(planes.transpose(1, 2, 0))


def png_of(pixels: Pixels) -> str:
    """A PNG file in base64."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()
