"""The code paths of a model, fast or readable, for `regard info`."""

from __future__ import annotations

from typing import NamedTuple

STEPS = "readable: word by word"
WHOLE = "fast: all positions of a sentence in parallel, without padding"


class Paths(NamedTuple):
    """Paths of encoder and decoder in training, and of the decoder in translation."""

    encoder: str
    decoder: str
    translating: str = STEPS


def layer_path(is_fast: bool) -> str:
    """The path of recurrent layers over whole sentences."""
    if is_fast:
        return "fast: a layer at a time over whole sentences, handwritten backward pass"
    return "readable: a layer at a time, word by word"
