"""One file per architecture, each faithful to its paper; `build_model` builds the model of a recipe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from regard.config.models import ModelConfig
from regard.models import bahdanau, gnmt, luong, seq2seq, transformer
from regard.models.bahdanau import Bahdanau
from regard.models.contract import Model
from regard.models.gnmt import Gnmt
from regard.models.luong import Luong
from regard.models.seq2seq import Seq2Seq
from regard.models.transformer import Transformer
from regard.models.wiring import Wiring

MODELS: dict[str, Callable[..., Model]] = {
    "seq2seq": Seq2Seq,
    "bahdanau": Bahdanau,
    "luong": Luong,
    "gnmt": Gnmt,
    "transformer": Transformer,
}

WIRES: dict[str, Callable[[Wiring, Any], None]] = {
    "seq2seq": seq2seq.wire,
    "bahdanau": bahdanau.wire,
    "luong": luong.wire,
    "gnmt": gnmt.wire,
    "transformer": transformer.wire,
}
"""The wiring of each model, for `regard diagram`."""


def build_model(settings: ModelConfig, source_vocabulary: int, target_vocabulary: int) -> Model:
    """A newly initialised model; seed torch's generator first for reproducible weights."""
    return MODELS[settings.kind](settings, source_vocabulary, target_vocabulary)


__all__ = ["MODELS", "WIRES", "Bahdanau", "Gnmt", "Luong", "Seq2Seq", "Transformer", "build_model"]
