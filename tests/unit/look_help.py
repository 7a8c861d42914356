"""A look made by hand, and a tiny model to look into."""

from __future__ import annotations

from typing import Any

import torch

from regard.config.recipes import check_recipe
from regard.data.text.tokenizer import Tokenizer
from regard.inference.translator import Translator
from regard.look.record import About, Dimensions, HeadCount, Look, Matrix, Piece, Side, Unit
from regard.models import build_model

LINES = ["the small house", "a green tree stands here", "the cat saw a small dog", "작은 고양이"] * 3


def side(text: str, *pieces: tuple[str, int | None]) -> Side:
    """A sentence of (piece, word); </s> is added."""
    return Side(
        text=text,
        words=text.split(),
        units=[Unit(text=word, word=number) for number, word in enumerate(text.split())],
        pieces=[
            Piece(text=piece, surface=piece, word=word, unit=word, id=9) for piece, word in (*pieces, ("</s>", None))
        ],
    )


def look_of(
    source: Side, target: Side, alignment: Matrix | None, fixed_vector: list[float] | None = None, **more: Any
) -> Look:
    """A look with one layer and one head."""
    return Look(
        model=About(
            name="hand", kind="bahdanau", attention={"cross": HeadCount(layers=1, heads=1)} if alignment else {}
        ),
        source=source,
        target=target,
        score=-1.0,
        log_probability=-2.0,
        finished=True,
        forced=False,
        alignment=alignment,
        attention={"cross": [[alignment]]} if alignment else {},
        steps=[],
        shown_dimensions=8,
        dimensions=Dimensions(query=8, value=8, summary=8),
        fixed_vector=fixed_vector,
        **more,
    )


def black_cat() -> Look:
    """black cat, chat noir."""
    weights = [[0.05, 0.95, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    return look_of(side("black cat", ("black", 0), ("cat", 1)), side("chat noir", ("chat", 0), ("noir", 1)), weights)


def translator_of(model: dict[str, Any], seed: int = 1) -> Translator:
    """An untrained model of few numbers, with weights large enough for its attention to differ."""
    sizes = {"hidden_size": 12} if model["kind"] == "transformer" else {"embedding_size": 8, "hidden_size": 12}
    table = {
        "model": {**sizes, **model},
        "text": {"vocabulary_size": 320, "joint": True, "min_frequency": 1},
        "training": {"updates": 1},
        "search": {"beam": 3, "max_length_extra": 4, "max_length_ratio": 1.0},
    }
    recipe = check_recipe(table, "test")
    tokenizer = Tokenizer.train(LINES, recipe.text)
    torch.manual_seed(seed)
    built = build_model(recipe.model, tokenizer.size, tokenizer.size)
    for parameter in built.parameters():
        parameter.data *= 3
    return Translator(built, recipe, tokenizer, tokenizer, name="tiny")
