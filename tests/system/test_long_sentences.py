"""What the field discovered: one fixed vector cannot carry a long sentence, and attention can.

Slow: `make test-slow` runs it. Two models of one size are trained alike on `phrases` and tested by length.
"""

from pathlib import Path

import pytest

import regard
from regard.config import check_recipe
from regard.evaluation.scores import corpus_scores
from regard.text.toy import toy_corpus

pytestmark = pytest.mark.slow

MODELS: dict[str, dict[str, object]] = {
    "fixed vector": {"kind": "seq2seq", "cell": "lstm", "layers": 1, "reverse_source": True},
    "attention": {"kind": "luong", "cell": "lstm", "layers": 1, "score": "general", "reverse_source": True},
}


def bleu_by_length(model: dict[str, object], out: Path) -> tuple[float, float]:
    """BLEU on sentences of up to 10 words, and on those of 40 to 60."""
    table = {
        "model": {"embedding_size": 128, "hidden_size": 256, "dropout": 0.1, **model},
        "text": {"vocabulary_size": 3000},
        "training": {
            "epochs": 3,
            "batch_tokens": 1500,
            "learning_rate": 3e-3,
            "schedule": "linear",
            "warmup": 200,
            "label_smoothing": 0.05,
            "validation_bleu": False,
            "select_by": "loss",
        },
    }
    corpus = toy_corpus("phrases", "en-fr")
    translator = regard.train(check_recipe(table, "test"), train="toy:phrases:en-fr:60000", out=out, progress=False)
    short = list(corpus.generate("test", 300, max_words=10))
    long = list(corpus.generate("long", 150, min_words=40, max_words=60))
    found = []
    for pairs in (short, long):
        hypotheses = [translation.text for translation in translator.translate([pair.source for pair in pairs])]
        found.append(corpus_scores(hypotheses, [pair.target for pair in pairs], metrics=("bleu",))["bleu"].value)
    return found[0], found[1]


def test_attention_carries_long_sentences_and_a_fixed_vector_does_not(tmp_path: Path) -> None:
    results = {name: bleu_by_length(model, tmp_path / name) for name, model in MODELS.items()}
    print(results)
    for short, _ in results.values():
        assert short >= 85
    assert results["attention"][1] >= results["fixed vector"][1] + 30
