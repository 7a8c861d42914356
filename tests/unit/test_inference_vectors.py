"""The fixed vector of a model without attention, against a slow loop over its equations; gold links in the record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.config.recipes import check_recipe
from regard.data.text.sources import described_toy, open_text
from regard.data.text.tokenizer import Tokenizer
from regard.data.toy import toy_corpus
from regard.errors import ConfigError
from regard.models import build_model
from regard.serve.examples import examples_of

LINES = ["ba go da du ki", "ki ma ne", "ne ba ma go"]


def untrained(kind: str, **settings: Any) -> regard.Translator:
    table = {
        "model": {"kind": kind, "hidden_size": 6, "embedding_size": 5, **settings},
        "text": {"tokenizer": "word", "min_frequency": 1},
        "training": {"updates": 1},
    }
    recipe = check_recipe(table, "test")
    tokenizer = Tokenizer.train(LINES, recipe.text)
    torch.manual_seed(2)
    model = build_model(recipe.model, tokenizer.size, tokenizer.size)
    return regard.Translator(model, recipe, tokenizer, tokenizer)


def by_hand(translator: regard.Translator, text: str) -> np.ndarray:
    """h and c of an LSTM after the source, which it reads from its end."""
    named = {name: value.detach().double().numpy() for name, value in translator.model.named_parameters()}
    inner, outer, bias = (named[f"encoder.layers.0.{part}"] for part in ("weight_input", "weight_hidden", "bias"))
    *words, end = translator.source_tokenizer.encode(text)
    hidden = cell = np.zeros(6)
    for number in [*words[::-1], end]:
        joined = inner @ named["embeddings.source.weight"][number] + outer @ hidden + bias
        gate_in, forget, new, out = joined.reshape(4, 6)
        cell = cell / (1 + np.exp(-forget)) + np.tanh(new) / (1 + np.exp(-gate_in))
        hidden = np.tanh(cell) / (1 + np.exp(-out))
    return np.concatenate([hidden, cell])


def test_the_distance_is_that_of_a_loop_over_the_equations() -> None:
    translator = untrained("seq2seq", layers=1, reverse_source=True)
    others = ["ba go da du", "ki ma ne", LINES[0]]
    first, *rest = (by_hand(translator, text) for text in (LINES[0], *others))
    moves = translator.vector_moves(LINES[0], others)
    assert [move.text for move in moves] == others
    for move, other in zip(moves, rest, strict=True):
        assert move.distance == pytest.approx(np.linalg.norm(other - first) / np.linalg.norm(first), abs=1e-5)
        assert move.cosine == pytest.approx(other @ first / np.linalg.norm(other) / np.linalg.norm(first), abs=1e-5)
    assert moves[0].distance > 0.01
    assert (moves[2].distance, moves[2].cosine) == (0, pytest.approx(1))


def test_models_with_attention_and_empty_sentences_are_refused() -> None:
    with pytest.raises(ConfigError, match="has attention"):
        untrained("bahdanau").vector_moves("ba go", ["ba"])
    with pytest.raises(ConfigError, match="empty"):
        untrained("seq2seq").vector_moves("ba go", [" "])


def test_a_look_of_a_known_sentence_has_its_gold_links() -> None:
    translator = untrained("bahdanau")
    assert translator.look("ba go da").gold is None
    translator.metrics["data"] = {"train": {"text": open_text("toy:reverse", "train").description}}
    gold = translator.look("ba go da").gold
    assert gold is not None
    assert (gold.target, gold.sure) == ("da go ba", [(0, 2), (1, 1), (2, 0)])
    assert translator.look("no syllables").gold is None


@pytest.mark.parametrize(("name", "pair"), [("phrases", "en-ko"), ("dates", "en-iso"), ("sort", "syllables")])
def test_a_corpus_finds_its_sentences_by_their_source(name: str, pair: str) -> None:
    corpus = toy_corpus(name, pair)
    for known in corpus.generate("test", 5):
        found = corpus.find(known.source)
        assert found is not None
        assert (found.source, found.target, found.sure) == (known.source, known.target, known.sure)
    assert corpus.find("Nothing of the kind in 1998.") is None
    described = described_toy(open_text(f"toy:{name}:{pair}", "train").description)
    assert described == corpus
    (example,) = (
        each for each in examples_of("und", (), f"embedded corpus {name} {pair}, x") if each["kind"] == "gold"
    )
    assert corpus.find(example["text"]) is not None


def test_other_text_is_no_embedded_corpus() -> None:
    for description in (
        "corpus.de, corpus.en",
        "embedded corpus nothing en-fr, train",
        "embedded corpus phrases de-fr, x",
        "",
    ):
        assert described_toy(description) is None
