"""One file per architecture, each faithful to its paper; `build_model` makes the one that a recipe names."""

from __future__ import annotations

from collections.abc import Callable

from regard.config.models import ModelConfig
from regard.models.bahdanau import Bahdanau
from regard.models.contract import Model
from regard.models.gnmt import Gnmt
from regard.models.luong import Luong
from regard.models.seq2seq import Seq2Seq
from regard.models.transformer import Transformer

MODELS: dict[str, Callable[..., Model]] = {
    "seq2seq": Seq2Seq,
    "bahdanau": Bahdanau,
    "luong": Luong,
    "gnmt": Gnmt,
    "transformer": Transformer,
}


def build_model(settings: ModelConfig, source_vocabulary: int, target_vocabulary: int) -> Model:
    """A freshly started model; seed torch's generator before, to get the same one again."""
    return MODELS[settings.kind](settings, source_vocabulary, target_vocabulary)


__all__ = ["MODELS", "Bahdanau", "Gnmt", "Luong", "Seq2Seq", "Transformer", "build_model"]
