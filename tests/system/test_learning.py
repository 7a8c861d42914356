"""Each architecture must learn: reverse (local-m: copy) to 99 % exact, and look where it should while doing so.

Slow: `make test-slow` runs them.
"""

from pathlib import Path

import numpy as np
import pytest

import regard
from regard.config.recipes import check_recipe
from regard.config.settings import Recipe
from regard.data.toy import AlignedPair, toy_corpus
from regard.inference.translator import Translator

pytestmark = pytest.mark.slow

MODELS: dict[str, dict[str, object]] = {
    "seq2seq": {"kind": "seq2seq", "cell": "lstm", "layers": 1, "hidden_size": 256},
    "seq2seq-gru": {"kind": "seq2seq", "cell": "gru", "layers": 1, "hidden_size": 256, "reverse_source": False},
    "seq2seq-cho": {
        "kind": "seq2seq",
        "cell": "gru",
        "layers": 1,
        "context": "every_step",
        "hidden_size": 320,
        "reverse_source": False,  # Cho et al. read forwards
    },
    "attention": {"kind": "luong", "layers": 1, "score": "dot", "input_feeding": False, "reverse_source": False},
    "attention-previous": {"kind": "luong", "layers": 1, "query": "previous", "input_feeding": False},
    "attention-previous-output": {
        "kind": "luong",
        "layers": 1,
        "query": "previous",
        "context_to": "output",
        "input_feeding": False,
    },
    "bahdanau": {"kind": "bahdanau", "attention_size": 64, "maxout_size": 64},
    "bahdanau-appendix": {
        "kind": "bahdanau",
        "attention_size": 64,
        "maxout_size": 64,
        "encoder_reset": "before",
        "maxout_state": "previous",
    },
    "luong-gru-normalised": {"kind": "luong", "layers": 1, "cell": "gru", "layer_norm": True},
    "luong-dot": {"kind": "luong", "layers": 1, "score": "dot"},
    "luong-general": {"kind": "luong", "layers": 2, "score": "general"},
    "luong-concat": {"kind": "luong", "layers": 1, "score": "concat", "attention_size": 64},
    "luong-location": {"kind": "luong", "layers": 1, "score": "location", "max_source_positions": 30},
    "luong-cosine": {"kind": "luong", "layers": 1, "score": "cosine"},
    "luong-local-p": {"kind": "luong", "layers": 1, "window": "local-p", "window_size": 4},
    "luong-local-m": {"kind": "luong", "layers": 1, "window": "local-m", "window_size": 3},
    "gnmt": {"kind": "gnmt", "layers": 3, "attention_size": 64},
    "transformer": {"kind": "transformer"},
    "transformer-pre": {"kind": "transformer", "norm": "pre"},
}
RECURRENT = {"embedding_size": 64, "hidden_size": 128}
TRANSFORMER = {
    "hidden_size": 128,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "heads": 4,
    "feedforward_size": 256,
    "tie_embeddings": "target",
}
TASK = {"luong-local-m": "copy"}  # a monotonic window cannot see the other end of a sentence
FIRST_QUERY = {"gnmt": 1}  # its first query is zero: where it looks then cannot depend on what it is about to say
WORDS = 10  # of the longest sentence
UPDATES = 2500
FIXED_VECTOR_UPDATES = 6000  # without attention, ten words are hard to carry
TRAIN_SENTENCES, TEST_SENTENCES = 60_000, 300


def recipe(model: dict[str, object]) -> Recipe:
    """A small recipe that learns in some minutes on one core."""
    updates = FIXED_VECTOR_UPDATES if model["kind"] == "seq2seq" else UPDATES
    is_transformer = model["kind"] == "transformer"
    table = {
        "model": {**(TRANSFORMER if is_transformer else RECURRENT), "dropout": 0.0, **model},
        "text": {"tokenizer": "word", "vocabulary_size": 200, "min_frequency": 1},
        "training": {
            "updates": updates,
            "batch_tokens": 1000,
            "learning_rate": 1e-3 if is_transformer else 3e-3,
            "schedule": "linear",
            "warmup": 100,
            "label_smoothing": 0.0,
            "validation_bleu": False,
            "select_by": "loss",
        },
    }
    return check_recipe(table, "test")


def learned(name: str, tmp_path: Path) -> tuple[Translator, list[AlignedPair]]:
    """The trained model and unseen sentences of its task."""
    corpus = toy_corpus(TASK.get(name, "reverse"))
    text = [(pair.source, pair.target) for pair in corpus.generate("train", TRAIN_SENTENCES, max_words=WORDS)]
    valid = [(pair.source, pair.target) for pair in corpus.generate("valid", 200, max_words=WORDS)]
    translator = regard.train(
        recipe(MODELS[name]), train=text, valid=valid, out=tmp_path / name, progress=False, threads=1
    )
    return translator, list(corpus.generate("test", TEST_SENTENCES, max_words=WORDS))


@pytest.mark.parametrize("name", MODELS)
def test_learns_its_task_and_looks_where_it_should(name: str, tmp_path: Path) -> None:
    translator, test = learned(name, tmp_path)
    found = translator.translate([pair.source for pair in test], beam=1, attention=True)
    exact = np.mean([translation.text == pair.target for translation, pair in zip(found, test, strict=True)])
    assert exact >= 0.99
    if found[0].alignment is None:
        return  # no attention, nothing to look at
    near = [
        min(abs(int(row.argmax()) - source) for source, target in pair.sure if target == position) <= 1
        for translation, pair in zip(found, test, strict=True)
        if translation.text == pair.target
        for position, row in enumerate(translation.word_alignment())
        if position >= FIRST_QUERY.get(name, 0)
    ]
    assert np.mean(near) >= 0.90
