"""Which code a model runs through, for `regard info`: a fast path where there is one, the readable one otherwise."""

from __future__ import annotations

from typing import NamedTuple

STEPS = "readable: word by word"
WHOLE = "fast: whole sentences at once, nothing computed for padding"


class Paths(NamedTuple):
    """The paths of encoder and decoder in training, and of the decoder in translation."""

    encoder: str
    decoder: str
    translating: str = STEPS


def layer_path(is_fast: bool) -> str:
    """The path of recurrent layers that run over whole sentences."""
    if is_fast:
        return "fast: a layer at a time over whole sentences, gradients written by hand"
    return "readable: a layer at a time, word by word"
