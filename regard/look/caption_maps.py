"""Attention maps of the words of a caption, from the look record."""

from __future__ import annotations

import base64
import io

import numpy as np
import numpy.typing as npt
from PIL import Image

from regard.data.images.pixels import Pixels
from regard.errors import DataError
from regard.evaluation.alignment import word_attention
from regard.look.record import Look


def word_maps(look: Look) -> npt.NDArray[np.float64]:
    """The weights (units, rows, columns): the mean over a unit's pieces."""
    if look.image is None or look.alignment is None:
        raise DataError("this look is not of an image: look at one with a captioner.")
    rows, columns = look.image.rows, look.image.columns
    flat = np.asarray(look.alignment, dtype=np.float64)  # (T, S)
    by_word = word_attention(
        flat,
        list(range(rows * columns)),
        [piece.unit for piece in look.target.pieces],
        source_length=rows * columns,
        target_length=len(look.target.units),
    )
    return by_word.reshape(-1, rows, columns)


def shown_image(look: Look) -> Pixels:
    """The image in the record: (H, W, 3), or (H, W) if it is grey."""
    if look.image is None:
        raise DataError("this look is not of an image: look at one with a captioner.")
    with Image.open(io.BytesIO(base64.b64decode(look.image.png))) as opened:
        return np.asarray(opened)
