"""The report of a model, held against models whose attention and probabilities are known beforehand."""

import json
import math

import pytest
import torch
from torch.nn import functional

from regard.config.recipes import check_recipe
from regard.config.settings import SearchSettings
from regard.data.text.hashes import fingerprint
from regard.data.text.parallel import Pair
from regard.data.text.tokenizer import Tokenizer
from regard.errors import ConfigError, DataError, NoAttention
from regard.evaluation.alignment import GoldLinks
from regard.evaluation.forced_references import force_references, why_no_alignment
from regard.evaluation.report import evaluate
from regard.evaluation.text_report import render
from regard.inference.translator import Translator
from regard.models.contract import Model, State, Step
from regard.nn.attention.memory import Memory

SOURCES = ["the cat sees a dog", "a dog", "", "the dog sees the cat and the cat sees the dog"]


class Copier(Model):
    """Says the source again; at step t it looks at source position t - delay, or nowhere."""

    def __init__(self, vocabulary, delay=0, uniform=False):
        super().__init__()
        self.vocabulary_size, self.delay, self.uniform = vocabulary, delay, uniform

    def encode(self, source, source_mask=None, *, attention=False, intervention=None):
        values = functional.one_hot(source, self.vocabulary_size).float()  # (B, S, V)
        return Memory(source_mask, source_mask.sum(1), (), values=values)

    def start(self, memory):
        return State((torch.zeros(memory.sentences, 1),))

    def step(self, token, state, memory, *, attention=False, trace=False, intervention=None):
        beams = token.size(0) // memory.sentences
        here = self._place(state.position, memory.lengths)
        hidden = memory.values[torch.arange(memory.sentences), here]  # (B, V)
        weights = None
        if attention and self.delay is not None:
            looked = self._place(state.position - self.delay, memory.lengths)
            weights = functional.one_hot(looked, memory.mask.size(1)).float()  # (B, S)
            weights = {"cross": weights.repeat_interleave(beams, 0)[:, None, None, None]}
        advanced = state.advance(state.tensors)
        return Step(hidden.repeat_interleave(beams, 0), advanced, weights if attention else None)

    def _place(self, position, lengths):
        return torch.full_like(lengths, max(0, position)).minimum(lengths - 1)

    def project(self, hidden, columns=None):
        return hidden * (0 if self.uniform else 50)


def make_translator(kind="word", **settings):
    """A Copier with one vocabulary for both sides."""
    text = {"tokenizer": kind, "min_frequency": 1, "joint": True}
    table = {"model": {"kind": "bahdanau"}, "text": text, "training": {"updates": 1}, "search": {"beam": 2}}
    recipe = check_recipe(table, "test")
    tokenizer = Tokenizer.train(SOURCES, recipe.text)
    return Translator(Copier(tokenizer.size, **settings), recipe, tokenizer, tokenizer)


def diagonal(sources):
    """Gold links i-i."""
    links = [frozenset((word, word) for word in range(len(line.split()))) for line in sources]
    return [GoldLinks(each, each) for each in links]


def test_links_of_both_directions_are_merged():
    late, right = make_translator(delay=1), make_translator(delay=0)
    alone = evaluate(late, SOURCES, SOURCES, gold=diagonal(SOURCES)).alignment
    assert alone.both_directions is None
    merged = evaluate(late, SOURCES, SOURCES, gold=diagonal(SOURCES), backward=right)
    both = merged.alignment.both_directions
    assert merged.alignment.this_step == alone.this_step
    assert both.recall == 1  # what the first missed comes from the second
    assert alone.this_step.recall < 1
    assert both.aer < alone.this_step.aer
    assert "both directions" in render(merged)
    assert merged.to_dict()["alignment"]["both_directions"]["recall"] == 1
    # a link of the second is turned round before it is merged
    twice = evaluate(late, SOURCES, SOURCES, gold=diagonal(SOURCES), backward=late).alignment.both_directions
    assert twice.links > alone.this_step.links


@pytest.mark.parametrize(
    ("delay", "gold", "message"),
    [(0, False, "needs gold alignments"), (None, True, "the reverse direction: .*attention")],
)
def test_a_model_of_the_other_direction_needs_gold_links_and_attention(delay, gold, message):
    with pytest.raises(ConfigError, match=message):
        evaluate(
            make_translator(),
            SOURCES,
            SOURCES,
            gold=diagonal(SOURCES) if gold else None,
            backward=make_translator(delay=delay),
        )


def test_a_perfect_copy_is_scored_as_one():
    report = evaluate(make_translator(), SOURCES, SOURCES)
    assert list(report.hypotheses) == SOURCES
    assert report.scores["bleu"].value == pytest.approx(100)
    assert report.scores["ter"].value == 0
    assert [row.label for row in report.by_length] == ["0", "1-10", "11-20"]
    assert report.likelihood.perplexity == pytest.approx(1, abs=1e-6)
    assert report.search.beam == 2
    assert report.alignment is None
    assert report.no_alignment is None
    assert report.speed.sentences == 4


@pytest.mark.parametrize("kind", ["word", "character"])
def test_the_reading_at_this_step_finds_attention_without_delay(kind):
    report = evaluate(make_translator(kind, delay=0), SOURCES, SOURCES, gold=diagonal(SOURCES))
    assert report.alignment.this_step.aer == 0
    assert report.alignment.this_step.links == sum(len(line.split()) for line in SOURCES)
    if kind == "word":
        assert report.alignment.shifted.aer > 0.5


@pytest.mark.parametrize("kind", ["word", "character"])
def test_the_shifted_reading_finds_attention_that_is_one_step_late(kind):
    report = evaluate(make_translator(kind, delay=1), SOURCES, SOURCES, gold=diagonal(SOURCES))
    assert report.alignment.shifted.aer == 0
    if kind == "word":
        assert report.alignment.this_step.aer > 0.5
        assert "shifted reading is better" in render(report)


def test_links_are_those_of_the_reference_and_not_of_the_translation():
    references = [line and line.rsplit(maxsplit=1)[0] for line in SOURCES]  # one word less than the copy
    report = evaluate(make_translator(), SOURCES, references, gold=diagonal(references))
    assert report.alignment.this_step.aer == 0
    assert report.alignment.this_step.links == sum(len(line.split()) for line in references)


def test_perplexity_of_a_uniform_model_is_its_vocabulary():
    translator = make_translator(uniform=True)
    report = evaluate(translator, SOURCES, SOURCES, search=SearchSettings(beam=1, max_length_ratio=0.1))
    tokens = sum(len(line.split()) + 1 for line in SOURCES if line)
    assert report.likelihood.tokens == tokens
    assert report.likelihood.perplexity == pytest.approx(translator.model.vocabulary_size, rel=1e-5)
    scores = list(translator.score_pairs([Pair(line, line) for line in SOURCES if line]))
    assert report.likelihood.log_probability == pytest.approx(math.fsum(score.log_probability for score in scores))


def test_many_batches_keep_the_order_of_the_pairs(monkeypatch):
    translator = make_translator()
    tokenizers = (translator.source_tokenizer, translator.target_tokenizer)
    together = force_references(translator.model, tokenizers, SOURCES, SOURCES, readings=True)
    monkeypatch.setattr("regard.evaluation.forced_references.TOKENS_TOGETHER", 1)
    seen = []
    alone = force_references(translator.model, tokenizers, SOURCES, SOURCES, readings=True, on_progress=seen.append)
    assert seen == [2, 3, 4]  # the blank pair needs no model
    assert [pair.tokens for pair in alone] == [6, 3, 0, 12]
    assert [pair.readings for pair in alone] == [pair.readings for pair in together]


def test_without_attention_there_are_scores_and_a_reason():
    translator = make_translator(delay=None)
    report = evaluate(translator, SOURCES, SOURCES, gold=diagonal(SOURCES))
    assert report.alignment is None
    assert report.scores["bleu"].value == pytest.approx(100)
    assert "no attention" in report.no_alignment
    assert f"no word alignment: {report.no_alignment}" in render(report)
    assert why_no_alignment(make_translator().model) is None
    with pytest.raises(NoAttention):
        translator.model.alignment(None)


def test_given_translations_are_scored_without_a_model():
    report = evaluate(None, SOURCES, [SOURCES, SOURCES], hypotheses=SOURCES)
    assert "nrefs:2" in report.scores["bleu"].signature
    assert report.likelihood is None
    assert report.speed is None
    assert "sentences/s" not in render(report)


def test_given_translations_are_not_translated_again(monkeypatch):
    translator = make_translator()
    monkeypatch.setattr(translator, "translate_lines", None)
    report = evaluate(translator, SOURCES, SOURCES, hypotheses=["a"] * 4, gold=diagonal(SOURCES))
    assert report.scores["bleu"].value < 100
    assert report.alignment.this_step.aer == 0
    assert report.search is None


def test_sentences_of_the_training_text_are_counted():
    report = evaluate(make_translator(), SOURCES, SOURCES, training=fingerprint(["a  dog", "other"]))
    assert report.overlap.in_training == 1


def test_the_report_is_plain_json_and_narrow_text():
    report = evaluate(make_translator(), SOURCES, SOURCES, gold=diagonal(SOURCES))
    values = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert values["alignment"]["this_step"]["aer"] == 0
    assert values["bleu"]["signature"].startswith("nrefs:1|")
    assert values["likelihood"]["tokens"] == 21
    assert values["search"]["beam"] == 2
    text = render(report, width=60, ascii_only=True)
    assert text.isascii()
    unsigned = [line for line in text.splitlines() if "nrefs:" not in line]
    assert max(map(len, unsigned)) <= 60
    assert "█" in render(report)


def test_progress_is_told_to_the_end():
    seen = []
    evaluate(make_translator(), SOURCES, SOURCES, on_progress=lambda *now: seen.append(now))
    assert ("translating", 4, 4) in seen
    assert seen[-1] == ("forced decoding", 4, 4)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"references": SOURCES[:2]}, DataError, "lines"),
        ({"gold": diagonal(SOURCES)[:1]}, DataError, "1 lines of links for 4 source"),
        ({"gold": diagonal([line + " x" for line in SOURCES])}, DataError, "gold alignments, line 1: link 5-5"),
        ({"tokenize": "13b"}, ConfigError, "13a"),
        ({"method": "argmin"}, ConfigError, "argmax"),
        ({"metrics": ("bleu", "ter", "blue")}, ConfigError, "bleu"),
        ({"translator": None}, ConfigError, "neither a model nor"),
        ({"translator": None, "hypotheses": SOURCES, "gold": diagonal(SOURCES)}, ConfigError, "give a model"),
    ],
)
def test_mistakes_are_refused_before_anything_is_translated(monkeypatch, changes, error, message):
    translator = make_translator()
    monkeypatch.setattr(translator, "translate_lines", None)
    arguments = {"translator": translator, "sources": SOURCES, "references": SOURCES} | changes
    with pytest.raises(error, match=message):
        evaluate(**arguments)
