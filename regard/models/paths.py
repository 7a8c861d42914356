"""Which code a model runs through, for `regard info`: a fast path where there is one, the readable one otherwise."""

from __future__ import annotations

from typing import NamedTuple

from regard.config.models import BahdanauSettings, GnmtSettings, LuongSettings, ModelConfig, Seq2SeqSettings

SEQUENCE = "fast: a layer at a time over whole sentences, gradients written by hand"
STEPS = "readable: word by word"
WHOLE = "fast: whole sentences at once, nothing computed for padding"
READABLE_LAYERS = "readable: a layer at a time, word by word"


class Paths(NamedTuple):
    """What encoder and decoder do while training; and while translating, where the encoder does the same."""

    encoder: str
    decoder: str
    translating: str = STEPS


def paths(settings: ModelConfig) -> Paths:
    """The paths that a model with these settings takes."""
    match settings:
        case Seq2SeqSettings():
            layers = _layers(settings.cell, settings.layer_norm)
            return Paths(layers, layers if settings.context == "start" else STEPS)
        case BahdanauSettings():
            readable = settings.layer_norm or settings.encoder_reset == "before"
            return Paths(READABLE_LAYERS if readable else SEQUENCE, STEPS)
        case LuongSettings():
            layers = _layers(settings.cell, settings.layer_norm)
            context_in_step = settings.query == "previous" and settings.context_to == "step"
            at_once = not settings.input_feeding and not context_in_step
            return Paths(layers, layers if at_once else STEPS)
        case GnmtSettings():
            layers = _layers("lstm", settings.layer_norm)
            bottom = "" if settings.context_to == "upper" else "; the bottom layer word by word"
            return Paths(layers, layers + bottom)
        case _:
            return Paths(WHOLE, WHOLE, f"{STEPS}, with a cache of keys and values")


def _layers(cell: str, layer_norm: bool) -> str:
    return READABLE_LAYERS if layer_norm or cell == "rnn" else SEQUENCE
