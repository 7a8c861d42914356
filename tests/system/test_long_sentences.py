"""What the field discovered: one fixed vector cannot carry a long sentence, and attention can.

Slow: `make test-slow` runs it. Two models of one size are trained alike on `phrases`, most of them short, and tested
by length.
"""

from pathlib import Path

import pytest

import regard
from regard.config.recipes import check_recipe
from regard.data.toy import toy_corpus
from regard.evaluation.scores import corpus_scores

pytestmark = pytest.mark.slow

MODELS: dict[str, dict[str, object]] = {
    "fixed vector": {"kind": "seq2seq"},
    "attention": {"kind": "luong", "score": "general", "input_feeding": False},
}
CORPUS = toy_corpus("phrases", "en-fr")
SHORT, ANY = 120_000, 15_000  # pairs of up to 10 words, and of 3 to 60


def training_text() -> list[tuple[str, str]]:
    """Mostly short sentences, which a fixed vector can learn, and long ones that show both models such lengths."""
    short = CORPUS.generate("train", SHORT, max_words=10)
    return [(pair.source, pair.target) for pairs in (short, CORPUS.generate("train", ANY, seed=1)) for pair in pairs]


def bleu_by_length(model: dict[str, object], out: Path, threads: int | None = None) -> tuple[float, float]:
    """BLEU on sentences of up to 10 words, and on those of 40 to 60."""
    shared = {"cell": "lstm", "layers": 1, "reverse_source": True, "embedding_size": 128, "hidden_size": 256}
    table = {
        "model": {**shared, "dropout": 0.05, **model},
        "text": {"vocabulary_size": 3000},
        "training": {
            "epochs": 5,
            "batch_tokens": 1000,
            "learning_rate": 3e-3,
            "schedule": "linear",
            "warmup": 200,
            "label_smoothing": 0.0,
            "validation_bleu": False,
            "select_by": "loss",
        },
    }
    valid = [(pair.source, pair.target) for pair in CORPUS.generate("valid", 200, max_words=10)]
    translator = regard.train(
        check_recipe(table, "test"), train=training_text(), valid=valid, out=out, progress=False, threads=threads
    )
    short = list(CORPUS.generate("test", 300, max_words=10))
    long = list(CORPUS.generate("long", 150, min_words=40, max_words=60))
    found = []
    for pairs in (short, long):
        hypotheses = [translation.text for translation in translator.translate([pair.source for pair in pairs])]
        found.append(corpus_scores(hypotheses, [pair.target for pair in pairs], metrics=("bleu",))["bleu"].value)
    return found[0], found[1]


def test_attention_carries_long_sentences_and_a_fixed_vector_does_not(tmp_path: Path) -> None:
    results = {name: bleu_by_length(model, tmp_path / name) for name, model in MODELS.items()}
    for short, _ in results.values():
        assert short >= 85
    assert results["attention"][1] >= results["fixed vector"][1] + 30
