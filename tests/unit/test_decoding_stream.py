"""The token stream: what the search finds, as it is found, with the same settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from regard.config.recipes import check_recipe
from regard.config.vocabulary import UNK
from regard.data.text.tokenizer import Tokenizer
from regard.decoding.shortlist import Shortlist
from regard.inference.translator import Translator
from regard.models import build_model
from regard.nn import linear

LINES = ["the small house stands here", "a green tree", "the cat saw a small dog and a tree"]
SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "shortlist": {"shortlist": True},
    "int8": {"int8": True},
    "sample": {"sample": True, "temperature": 1.5, "seed": 7},
    "coverage": {"coverage_penalty": 0.4},
    "no repetition": {"no_repeat_ngram": 2},
}


@pytest.fixture(scope="module", params=["word", "bpe"])
def translator(request: pytest.FixtureRequest) -> Translator:
    recipe = check_recipe(
        {
            "model": {"kind": "bahdanau", "hidden_size": 256, "embedding_size": 64, "tie_embeddings": "none"},
            "text": {"tokenizer": request.param, "vocabulary_size": 300, "min_frequency": 1, "joint": True},
            "training": {"updates": 1},
            "search": {"max_length_extra": 5, "max_length_ratio": 1.0},
        },
        "test",
    )
    tokenizer = Tokenizer.train(LINES, recipe.text)
    torch.manual_seed(3)
    model = build_model(recipe.model, tokenizer.size, tokenizer.size)
    likely = np.arange(tokenizer.size, dtype=np.int32)[:, None]
    shortlist = Shortlist(np.arange(6), likely, "")
    return Translator(model, recipe, tokenizer, tokenizer, shortlist=shortlist)


@pytest.mark.parametrize("name", SETTINGS)
def test_it_says_what_the_search_finds(translator: Translator, name: str) -> None:
    for line in LINES:
        (found,) = translator.translate([line], search=SETTINGS[name], beam=1)
        pieces = list(translator.stream(line, search=SETTINGS[name]))
        piece = translator.target_tokenizer.piece
        assert [each.piece for each in pieces] == [piece(token.id) for token in found.tokens]
        assert pieces[-1].text == found.text
        assert [each.ended for each in pieces] == [False] * (len(pieces) - 1) + [True]
        assert pieces[-1].score == pytest.approx(found.score)


def test_unknown_words_are_replaced_as_they_come(translator: Translator) -> None:
    if not translator.target_tokenizer.says_unknown:
        pytest.skip("its pieces spell every word")
    bias = translator.model.get_parameter("embeddings.output_bias")
    with torch.no_grad():
        bias[UNK] += 50
    try:
        (found,) = translator.translate(LINES[:1], beam=1)
        last = list(translator.stream(LINES[0]))[-1]
    finally:
        with torch.no_grad():
            bias[UNK] -= 50
    assert "<unk>" not in found.text
    assert last.text == found.text


def test_nothing_of_the_search_reaches_the_listener(translator: Translator) -> None:
    for _ in translator.stream(LINES[0], search={"int8": True}):
        assert not torch.is_inference_mode_enabled()
        assert linear._CURRENT.get() is None
