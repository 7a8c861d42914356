"""Translator and Translation: from text to text, with small untrained models of every kind."""

from __future__ import annotations

import dataclasses
import json
import pickle
import threading
from typing import Any

import numpy as np
import pytest
import torch

from regard.config.recipes import check_recipe
from regard.config.settings import Recipe, SearchSettings
from regard.config.vocabulary import EOS, UNK
from regard.data.text.parallel import Pair
from regard.data.text.tokenizer import Token, Tokenizer
from regard.decoding.penalties import COVERAGE_FLOOR
from regard.errors import ConfigError, DataError, NoAttention
from regard.inference.translation import Attended, Translation, one_line
from regard.inference.translator import Translator
from regard.models import build_model
from regard.nn.attention.intervention import Intervention
from regard.process import usable_device

LINES = ["the small house", "a green tree stands here", "the cat saw a small dog", "here is the house"] * 3
KINDS = ["seq2seq", "bahdanau", "luong", "gnmt", "transformer"]
SIZES: dict[str, dict[str, object]] = {
    "gnmt": {"layers": 2, "attention_size": 8},
    "bahdanau": {"attention_size": 8},
    "transformer": {"decoder_layers": 2, "encoder_layers": 2, "tie_embeddings": "target"},
}


def recipe_of(kind: str, text: dict[str, object] | None = None) -> Recipe:
    sizes: dict[str, object] = {"kind": kind, "hidden_size": 16, **SIZES.get(kind, {})}
    if kind != "transformer":
        sizes["embedding_size"] = 12
    settings = {"tokenizer": "bpe", "vocabulary_size": 320, "min_frequency": 1, **(text or {})}
    search = {"max_length_extra": 4, "max_length_ratio": 1.0}
    return check_recipe({"model": sizes, "text": settings, "training": {"updates": 1}, "search": search}, "test")


def translator_of(kind: str = "bahdanau", text: dict[str, object] | None = None, seed: int = 3) -> Translator:
    recipe = recipe_of(kind, text)
    tokenizer = Tokenizer.train(LINES, recipe.text)
    torch.manual_seed(seed)
    model = build_model(recipe.model, tokenizer.size, tokenizer.size)
    with torch.no_grad():
        for parameter in model.parameters():  # weights as large as trained ones, so that answers differ
            parameter.mul_(4)
    return Translator(model, recipe, tokenizer, tokenizer, metrics={"bleu": 1.0})


@pytest.fixture(scope="module")
def translator() -> Translator:
    return translator_of()


@pytest.mark.parametrize("kind", KINDS)
def test_translates_a_line_with_tokens_words_and_attention(kind: str) -> None:
    translation = translator_of(kind).translate("the small house", candidates=2, n_best=2)
    assert str(translation) == translation.text
    assert translation.source_words == ("the", "small", "house")
    assert translation.words == tuple(translation.text.split())
    assert len(translation.tokens) == len(translation.candidates) == len(translation.token_log_probabilities)
    assert len(translation.n_best) == 2
    assert translation.n_best[0] is translation
    assert translation.score >= translation.n_best[1].score or not translation.n_best[1].finished
    shape = (len(translation.tokens), len(translation.source_tokens))
    if kind == "seq2seq":
        assert translation.attention is None
        with pytest.raises(NoAttention, match="has no attention: use a model that has it"):
            translation.links()
    else:
        assert translation.attention is not None
        assert translation.alignment is not None
        assert translation.attention["cross"].shape[-2:] == shape
        assert translation.alignment.shape == shape
        np.testing.assert_allclose(translation.alignment.sum(1), 1, atol=1e-5)
        assert translation.word_alignment().shape == (len(translation.words), 3)
        assert all(i < 3 and j < len(translation.words) for i, j in translation.links())


@pytest.mark.parametrize("kind", KINDS)
def test_beams_of_real_models_equal_their_forced_decoding(kind: str) -> None:
    translator = translator_of(kind)
    lines = LINES[:4]
    for line, found in zip(lines, translator.translate(lines, n_best=3, attention=True), strict=True):
        for each in found.n_best:
            ids = [token.id for token in each.tokens]
            if not each.finished or translator.target_tokenizer.encode(each.text) != ids:
                continue  # these pieces are not how the tokenizer would cut the text
            forced = translator.force(line, each.text)
            assert forced.log_probability == pytest.approx(each.log_probability, abs=1e-3)
            assert forced.score == pytest.approx(each.score, abs=1e-3)
            if each.alignment is not None:
                np.testing.assert_allclose(forced.alignment, each.alignment, atol=1e-4)


@pytest.mark.parametrize("kind", ["bahdanau", "gnmt", "transformer"])
def test_a_given_translation_has_the_score_of_the_search_also_with_a_coverage_penalty(kind: str) -> None:
    translator = translator_of(kind, {"tokenizer": "word"})
    bias = torch.zeros(translator.target_tokenizer.size)
    bias[EOS], bias[UNK] = 6.0, -100.0  # translations end, and are what their text is cut into
    translator.model.embeddings.output_bias = torch.nn.Parameter(bias)
    search = {"coverage_penalty": 0.3, "length_penalty": 0.7}
    compared = 0
    for line in LINES[:4]:
        found = translator.translate(line, search={**search, "n_best": 3})
        for each in found.n_best:
            if not each.finished or translator.target_tokenizer.encode(each.text) != [t.id for t in each.tokens]:
                continue  # these pieces are not how the tokenizer would cut the text
            compared += 1
            for attention in (False, True):
                forced = translator.force(line, each.text, attention=attention, search=search)
                assert forced.score == pytest.approx(each.score, abs=1e-3)
                assert (forced.recorded is not None) == attention
            if each.text.strip():
                look = translator.look(line, reference=each.text, search=search)
                assert look.score == pytest.approx(each.score, abs=1e-3)
                usual = translator.force(line, each.text, search={**search, "coverage_penalty": 0.0})
                assert usual.score - forced.score > 0.01
    assert compared > 2


def test_the_help_of_the_coverage_penalty_names_its_floor() -> None:
    described = SearchSettings.model_fields["coverage_penalty"].description
    assert described is not None
    assert f"below {COVERAGE_FLOOR:g}" in described


@pytest.mark.parametrize("kind", KINDS)
def test_as_many_lines_out_as_in_and_in_order(kind: str) -> None:
    translator = translator_of(kind)
    lines = [
        "the cat",
        "",
        "a green tree stands here",
        " \t ",
        "😀 🏠",
        "a\x00b\x07\x1b[31m",
        "here\u2028is",
        "שלום בית",
    ]
    alone = [translator.translate(line, attention=False).text for line in lines]
    for window in (1, 3, 100):
        found = list(translator.translate_lines(iter(lines), window=window))
        assert [each.source for each in found] == lines
        assert [each.text for each in found] == alone
    unordered = dict(translator.translate_unordered(lines))
    assert [unordered[number].text for number in range(len(lines))] == alone
    assert alone[1] == alone[3] == ""
    assert not any(len(text.splitlines()) > 1 for text in alone)


def test_batches_do_not_change_translations(translator: Translator) -> None:
    lines = [" ".join(LINES[: 1 + n % 3]) for n in range(17)]
    few = translator.translate(lines, search={"batch_tokens": 20})
    many = translator.translate(lines, search={"batch_tokens": 100_000})
    assert [each.text for each in few] == [each.text for each in many]


@pytest.mark.parametrize("wrong", [None, 5, b"bytes"])
def test_what_is_not_text_is_refused(translator: Translator, wrong: Any) -> None:
    with pytest.raises(DataError, match="is not text: give a line, of type str, or a list of lines"):
        translator.translate(wrong)
    for call in (
        lambda: translator.look(wrong),
        lambda: list(translator.stream(wrong)),
        lambda: translator.force("here", wrong),
        lambda: translator.score(["here"], [wrong]),
    ):
        with pytest.raises(DataError, match="is not text: give a line, of type str"):
            call()
    with pytest.raises(DataError, match=r"line 2: is of type \w+: give text"):
        translator.translate(["here", wrong])


def test_a_blank_line_is_an_empty_translation_without_the_model(translator: Translator) -> None:
    broken = dataclasses.replace(translator.translate(" "), source="")
    assert broken.text == ""
    assert broken.words == ()
    assert broken.links() == frozenset()
    assert broken.to_dict()["n_best"][0]["text"] == ""


def test_translating_streams() -> None:
    read: list[int] = []

    def endless():  # type: ignore[no-untyped-def]
        for number in range(10**9):
            read.append(number)
            yield "the cat"

    stream = translator_of().translate_lines(endless(), window=4)
    for _ in range(5):
        next(stream)
    assert len(read) == 8


def test_a_very_long_line_is_translated_whole() -> None:
    translator = translator_of("luong")
    line = "the cat " * 1000
    source = len(translator.source_tokenizer.encode(line))
    translation = translator.translate(
        line, attention=False, search={"beam": 2, "max_source": 9999, "max_length_ratio": 0.05}
    )
    assert len(translation.source_tokens) == source > 2000
    assert translation.tokens


def test_prefixes_begin_the_translations(translator: Translator) -> None:
    assert translator.translate("the cat", prefix="a green tree").text.startswith("a green tree")
    found = translator.translate(["the cat", "the dog", ""], prefix=["here is", "", ""])
    assert found[0].text.startswith("here is")
    assert found[1].text == translator.translate("the dog").text
    with pytest.raises(ConfigError, match="prefixes end before number 2"):
        translator.translate(["the cat", "the dog"], prefix=["here"])
    with pytest.raises(ConfigError, match="one prefix for one line"):
        translator.translate("the cat", prefix=["here"])


def test_unknown_words_become_the_most_attended_source_word() -> None:
    translator = translator_of(text={"tokenizer": "word"})
    with torch.no_grad():  # a model that says <unk> more often than anything
        for name, parameter in translator.model.named_parameters():
            if name.endswith("bias") and parameter.shape == (translator.target_tokenizer.size,):
                parameter[UNK] += 50
                break
        else:
            pytest.fail("the output layer has no bias to bend")
    line = "the Zwiebelturm stands Überall"
    shown = translator.translate(line, beam=1)
    assert [token.id for token in shown.tokens].count(UNK) > 0
    attended = np.asarray(shown.alignment)[:, :-1].argmax(1)
    for token, place in zip(shown.tokens, attended, strict=True):
        if token.id == UNK:
            assert token.text == line.split()[place]
    assert "<unk>" not in shown.text
    assert translator.translate(line, beam=1, attention=False).text == shown.text
    assert "<unk>" in translator.translate(line, search={"beam": 1, "replace_unknown": False}).text


def test_samples_follow_the_seed_and_the_line_number(translator: Translator) -> None:
    settings = {"sample": True, "n_best": 3, "seed": 7}
    lines = ["the cat", "the cat", "the small house"]
    first = translator.translate(lines, search=settings)
    again = list(translator.translate_lines(lines, search=settings, window=1))
    assert [each.text for each in first] == [each.text for each in again]
    assert first[0].text != first[1].text
    assert len({each.text for each in first[2].n_best}) > 1
    assert first[0].text != translator.translate(lines, search=settings | {"seed": 8})[0].text


def test_a_banned_word_gets_no_attention(translator: Translator) -> None:
    line = "the small house"
    place = next(number for number, token in enumerate(translator.source_tokenizer.tokens(line)) if token.word == 1)
    banned = translator.translate(line, intervention=Intervention(ban=(place,)))
    assert banned.alignment is not None
    assert np.all(banned.alignment[:, place] == 0)


def test_scores_are_those_of_forced_decoding_in_order(translator: Translator) -> None:
    pairs = [Pair(line, line[::-1] * (1 + number % 3)) for number, line in enumerate(LINES)] + [Pair("a", "")]
    scores = list(translator.score_pairs(iter(pairs), batch_tokens=60))
    for pair, score in zip(pairs, scores, strict=True):
        forced = translator.force(pair.source, pair.target)
        assert score.log_probability == pytest.approx(forced.log_probability, abs=1e-3)
        assert score.tokens == len(forced.tokens)
        assert score.perplexity == pytest.approx(np.exp(-score.log_probability / score.tokens))


def test_threads_share_a_translator(translator: Translator) -> None:
    expected = [translator.translate(line).text for line in LINES[:4]]
    found: dict[int, list[str]] = {}

    def work(number: int) -> None:
        found[number] = [translator.translate(line).text for line in LINES[:4]]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[number] == expected for number in range(4))


def test_search_settings_are_changed_by_name(translator: Translator) -> None:
    assert translator.search_settings() == translator.recipe.search
    assert translator.search_settings(n_best=9).beam == 9
    assert translator.search_settings({"length_penalty": 0.5}).length_penalty == 0.5
    assert translator.search_settings(SearchSettings(beam=3)).beam == 3
    with pytest.raises(ConfigError, match="did you mean 'length_penalty'"):
        translator.search_settings({"lenght_penalty": 1})
    with pytest.raises(ConfigError, match="raise beam"):
        translator.search_settings(beam=2, n_best=3)


def test_an_ensemble_of_twins_is_the_model_itself_and_of_others_the_mean() -> None:
    one, other = translator_of(seed=3), translator_of(seed=4)
    line, target = "the cat saw a small dog", "the house"
    twins = Translator.ensemble([one, one])
    assert twins.translate(line).text == one.translate(line).text
    assert twins.force(line, target).log_probability == pytest.approx(one.force(line, target).log_probability, abs=1e-3)
    both = Translator.ensemble([one, other]).force(line, target)
    each = [np.exp(model.force(line, target).token_log_probabilities) for model in (one, other)]
    np.testing.assert_allclose(np.exp(both.token_log_probabilities), (each[0] + each[1]) / 2, rtol=1e-3, atol=1e-7)
    assert both.alignment is not None
    stranger = translator_of(text={"tokenizer": "word"})
    with pytest.raises(ConfigError, match="model 2 differs"):
        Translator.ensemble([one, stranger])


@pytest.mark.parametrize("kind", KINDS)
def test_attention_that_was_not_recorded_is_computed_when_it_is_asked_for(kind: str) -> None:
    translator = translator_of(kind)
    lines = ["the small house", "a red car and the house"]
    recorded = translator.translate(lines, n_best=2, attention=True)
    for own, later in zip(recorded, translator.translate(lines, n_best=2), strict=True):
        assert later.recorded is None
        for each, other in zip(own.n_best, later.n_best, strict=True):
            assert each.text == other.text
            if kind == "seq2seq":
                assert other.attention is other.alignment is None
                continue
            assert each.attention is not None
            assert other.attention is not None
            assert each.attention.keys() == other.attention.keys()
            for name, weights in each.attention.items():
                np.testing.assert_allclose(other.attention[name], weights, atol=2e-5)
            assert each.to_dict()["alignment"] == other.to_dict()["alignment"]
            assert other.to_dict(alignment=False)["alignment"] is None
            assert pickle.loads(pickle.dumps(other)).links() == each.links()
    unseen = pickle.loads(pickle.dumps(translator.translate(lines[0])))
    assert unseen.attention is None


def test_a_translation_as_json() -> None:
    tokens = tuple(Token(5 + n, text, n, 0, 0) for n, text in enumerate(["das", "Haus"]))
    translation = Translation(
        "the house", "das Haus", tokens, tokens, -1.0, -2.0, recorded=Attended(alignment=np.eye(2))
    )
    values = json.loads(json.dumps(translation.to_dict()))
    assert values == {
        "source": "the house",
        "text": "das Haus",
        "score": -1.0,
        "log_probability": -2.0,
        "finished": True,
        "tokens": ["das", "Haus"],
        "alignment": "0-0 1-1",
        "n_best": [{"text": "das Haus", "score": -1.0, "log_probability": -2.0, "finished": True}],
    }


def test_nothing_that_ends_a_line_stays() -> None:
    text = "a\nb\rc\x0bd\x0ce\x1cf\x1dg\x1eh\x85i\u2028j\u2029k\tl"
    assert one_line(text).splitlines() == [one_line(text)]
    assert one_line(text).split() == text.split()
    assert one_line(text).endswith("k\tl")


def test_a_device_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match="'warp'"):
        usable_device("warp")
