"""A small corpus and small recipes for the tests of training."""

import random
from typing import Any

from regard.config.recipes import check_recipe
from regard.config.settings import Recipe

SIZES: dict[str, dict[str, Any]] = {
    "seq2seq": {"layers": 1},
    "bahdanau": {"attention_size": 12, "maxout_size": 12},
    "luong": {"layers": 1},
    "gnmt": {"layers": 3, "attention_size": 12},
    "transformer": {
        "encoder_layers": 1,
        "decoder_layers": 2,
        "heads": 2,
        "feedforward_size": 24,
        "tie_embeddings": "target",
    },
}


def pairs(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Letters, and the same letters in reverse."""
    generator = random.Random(seed)
    lines = []
    for _ in range(count):
        letters = [generator.choice("abcdefgh") for _ in range(generator.randint(2, 7))]
        lines.append((" ".join(letters), " ".join(reversed(letters))))
    return lines


def recipe(kind: str = "bahdanau", model: dict[str, Any] | None = None, joint: bool = False, **training: Any) -> Recipe:
    """A recipe that trains in a second."""
    sizes = {"hidden_size": 16} if kind == "transformer" else {"embedding_size": 12, "hidden_size": 16}
    table = {
        "model": {"kind": kind, **sizes, **SIZES[kind], **(model or {})},
        "text": {"tokenizer": "word", "min_frequency": 1, "joint": joint},
        "training": {
            "updates": 12,
            "batch_tokens": 128,
            "warmup": 3,
            "log_every": 4,
            "learning_rate": 0.01,
            "validation_sentences": 20,
            **training,
        },
    }
    return check_recipe(table, "test")
