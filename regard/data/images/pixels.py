"""The two layouts of an image: (H, W, C) pixels of Pillow and NumPy, and (C, H, W) tensors for models."""

from __future__ import annotations

import base64
import io
from os import PathLike

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from regard.errors import DataError

Pixels = npt.NDArray[np.uint8]
"""(H, W, 3), or (H, W) for grey."""

Picture = str | PathLike[str] | Image.Image | Pixels
"""An image given by a user: a PNG or JPEG file, a Pillow image, or uint8 (H, W, 3) or (H, W)."""


def as_tensor(pixels: Pixels, size: int | None = None) -> Tensor:
    """uint8 (C, H, W), resized to (C, size, size) if a size is given."""
    if size is not None and pixels.shape[:2] != (size, size):
        pixels = np.asarray(Image.fromarray(pixels).resize((size, size), Image.Resampling.BILINEAR))
    planes = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    return torch.from_numpy(np.array(planes, order="C"))


def check_pixels(picture: Image.Image | Pixels, channels: int) -> Pixels:
    """The pixels of an image in memory; raises if the shape or type does not fit the model."""
    pixels = np.asarray(picture)
    wanted = 3 if channels == 3 else 2
    if pixels.dtype != np.uint8 or pixels.ndim != wanted or 0 in pixels.shape or pixels.shape[2:] not in ((), (3,)):
        form = "(height, width, 3)" if channels == 3 else "(height, width)"
        raise DataError(
            f"an image of shape {pixels.shape} and type {pixels.dtype}: this model needs uint8 {form}; "
            f'convert it, for example with Pillow: image.convert("{"RGB" if channels == 3 else "L"}").'
        )
    return pixels


def png_of(pixels: Pixels) -> str:
    """The image as a PNG file in base64."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()
