"""Corpus scores: against a BLEU written from its definition, and the errors a user can meet."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections import Counter

import pytest

from regard.errors import ConfigError, DataError
from regard.evaluation.scores import corpus_scores, fitting_tokenizer, perplexity

REFERENCES = ["the cat sat on the mat", "there is a small house by the sea", "we read the red book today"]
HYPOTHESES = ["the cat sat on a mat", "there is a house by the sea", "we read the red book today"]


def plain_bleu(hypotheses: list[str], references: list[str]) -> float:
    """BLEU of Papineni et al. 2002, without smoothing, for text without punctuation."""
    log_precision = 0.0
    hypothesis_words = [line.split() for line in hypotheses]
    reference_words = [line.split() for line in references]
    for order in range(1, 5):
        matches = total = 0
        for hypothesis, reference in zip(hypothesis_words, reference_words, strict=True):
            found = Counter(zip(*(hypothesis[k:] for k in range(order)), strict=False))
            known = Counter(zip(*(reference[k:] for k in range(order)), strict=False))
            matches += sum((found & known).values())
            total += sum(found.values())
        log_precision += math.log(matches / total) / 4
    shorter = sum(map(len, reference_words)) / sum(map(len, hypothesis_words))
    return 100 * math.exp(log_precision + min(0.0, 1 - shorter))


def test_bleu_is_the_definition_and_carries_its_signature() -> None:
    score = corpus_scores(HYPOTHESES, REFERENCES)["bleu"]
    assert score.value == pytest.approx(plain_bleu(HYPOTHESES, REFERENCES))
    assert "tok:13a" in score.signature
    assert "nrefs:1" in score.signature


def test_perfect_and_hopeless_translations() -> None:
    perfect = corpus_scores(REFERENCES, REFERENCES)
    assert [perfect[m].value for m in ("bleu", "chrf", "ter")] == pytest.approx([100, 100, 0])
    assert corpus_scores(["x y z w v"] * 3, REFERENCES)["chrf"].value < 5


def test_several_references_can_only_help() -> None:
    one = corpus_scores(HYPOTHESES, REFERENCES)
    two = corpus_scores(HYPOTHESES, [REFERENCES, HYPOTHESES])
    assert two["bleu"].value == pytest.approx(100)
    assert two["bleu"].value > one["bleu"].value
    assert "nrefs:2" in two["bleu"].signature


def test_lowercase_reaches_every_metric() -> None:
    upper = [line.upper() for line in REFERENCES]
    scores = corpus_scores(upper, REFERENCES, lowercase=True)
    assert [scores[m].value for m in ("bleu", "chrf", "ter")] == pytest.approx([100, 100, 0])
    assert all("case:lc" in scores[m].signature for m in ("bleu", "chrf", "ter"))


def test_ter_ignores_case_as_tercom_and_sacrebleu_do():
    scores = corpus_scores(["The Cat sat"], ["the cat sat"])
    assert scores["ter"].value == 0
    assert "case:lc" in scores["ter"].signature
    assert "case:mixed" in scores["bleu"].signature


def test_scores_fit_into_json() -> None:
    values = json.loads(json.dumps(corpus_scores(HYPOTHESES, REFERENCES, metrics=("bleu",)).to_dict()))
    assert values["sentences"] == 3
    assert set(values) == {"sentences", "bleu"}


def test_auto_tokenizer_follows_the_script() -> None:
    assert fitting_tokenizer(["나는 오늘 학교에 갔다."]) == "13a"
    assert fitting_tokenizer(["我今天去了学校。"]) == "zh"
    assert fitting_tokenizer(["わたしは今日学校に行きました。"]) == "char"
    assert fitting_tokenizer(["", "123"]) == "13a"
    score = corpus_scores(["我今天去学校。"], ["我今天去了学校。"], tokenize="auto", metrics=("bleu",))["bleu"]
    assert "tok:zh" in score.signature
    assert score.value > 0


def test_blank_lines_are_scored_without_error() -> None:
    assert corpus_scores([""], [""], metrics=("bleu", "chrf", "ter"))["bleu"].value == 0


@pytest.mark.parametrize(
    ("hypotheses", "references", "words"),
    [
        (["a", "b"], ["a"], ["2 lines", "has 1", "same number"]),
        (["a"], [["a"], ["a", "b"]], ["reference 2 of 2 has 2"]),
        ([], [], ["no translations"]),
        (["a"], [], ["no references"]),
        ("a", ["a"], ["wrap it in a list"]),
        (["a"], ["a", ["a"]], ["mix"]),
    ],
)
def test_texts_that_do_not_fit(hypotheses: list[str], references: list[str], words: list[str]) -> None:
    with pytest.raises(DataError) as caught:
        corpus_scores(hypotheses, references)
    assert all(word in str(caught.value) for word in words)
    assert "\n" not in str(caught.value)


def test_unknown_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'bleu'"):
        corpus_scores(HYPOTHESES, REFERENCES, metrics=("blue",))
    with pytest.raises(ConfigError, match="did you mean 'intl'"):
        corpus_scores(HYPOTHESES, REFERENCES, tokenize="int")
    with pytest.raises(ConfigError, match="unknown"):
        corpus_scores(HYPOTHESES, REFERENCES, tokenize="flores200")


def test_perplexity() -> None:
    assert perplexity(5 * math.log(1 / 8), 5) == pytest.approx(8)
    assert perplexity(0.0, 3) == 1
    assert perplexity(-1e6, 1) == math.inf
    with pytest.raises(DataError, match="0 tokens"):
        perplexity(0.0, 0)


def test_importing_scores_is_light() -> None:
    code = "import sys, regard.evaluation.scores as s; print({'torch', 'sacrebleu'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
