"""The look record: it says what the model did, for every architecture, and survives JSON."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from look_help import translator_of

from regard.config.settings import SearchSettings
from regard.config.vocabulary import BOS, EOS, PAD
from regard.errors import ConfigError, DataError
from regard.inference.translation import Translation
from regard.inference.translator import Translator
from regard.look.maps import maps_of
from regard.look.record import Look
from regard.nn.attention.intervention import Edit, Intervention

SENTENCE, REFERENCE = "the cat saw a tree", "작은 고양이 here"
KINDS: list[dict[str, Any]] = [
    {"kind": "seq2seq"},
    {"kind": "seq2seq", "context": "every_step", "cell": "gru", "layers": 1},
    {"kind": "bahdanau"},
    {"kind": "luong"},
    {"kind": "luong", "window": "local-m", "window_size": 1},
    {"kind": "luong", "window": "local-p", "window_size": 2},
    {"kind": "gnmt"},
    {"kind": "transformer", "encoder_layers": 1, "decoder_layers": 2, "heads": 2, "feedforward_size": 16},
]


@pytest.fixture(scope="module")
def bahdanau() -> Translator:
    return translator_of({"kind": "bahdanau"})


@pytest.mark.parametrize("model", KINDS, ids=lambda model: "-".join(map(str, model.values())))
def test_every_architecture_gives_a_record_that_agrees_with_its_translation(model: dict[str, Any]) -> None:
    translator = translator_of(model)
    look = translator.look(SENTENCE, reference=REFERENCE)
    given = translator.force(SENTENCE, REFERENCE, candidates=5)
    assert look.model.kind == model["kind"]
    assert look.model.name == "tiny"
    assert look.model.window == model.get("window")
    assert look.forced
    assert [step.id for step in look.steps] == [token.id for token in given.tokens]
    assert [step.probability for step in look.steps] == pytest.approx(np.exp(given.token_log_probabilities), rel=1e-4)
    assert look.log_probability == pytest.approx(given.log_probability, rel=1e-5)
    assert [[(one.piece, one.id) for one in step.candidates] for step in look.steps] == [
        [(piece, look.steps[place].candidates[rank].id) for rank, (piece, _) in enumerate(best)]
        for place, best in enumerate(given.candidates)
    ]
    if given.alignment is None:
        assert look.alignment is None
        assert look.attention == look.model.attention == {}
        assert look.fixed_vector
        assert look.dimensions.summary >= len(look.fixed_vector)
    else:
        assert look.alignment is not None
        np.testing.assert_allclose(look.alignment, given.alignment, atol=1e-5)
        assert look.fixed_vector is None
    assert Look.from_dict(json.loads(look.to_json())) == look


@pytest.mark.parametrize("model", KINDS[2:-1], ids=lambda model: "-".join(map(str, model.values())))
def test_the_arithmetic_of_each_step_is_that_of_attention(model: dict[str, Any]) -> None:
    look = translator_of(model).look(SENTENCE, reference=REFERENCE)
    for number, step in enumerate(look.steps):
        (trace,) = step.attention
        scores = np.array([-math.inf if score is None else score for score in trace.scores])
        weights = np.exp(scores - scores.max())
        weights /= weights.sum()
        if trace.gaussian is not None:
            assert trace.centre is not None
            positions = np.arange(1, len(weights) + 1)
            np.testing.assert_allclose(trace.gaussian, np.exp(-((positions - trace.centre) ** 2) / 2), atol=1e-4)
            weights *= np.array(trace.gaussian)
        np.testing.assert_allclose(trace.weights, weights, atol=1e-5)
        np.testing.assert_allclose(trace.weights, look.attention["cross"][0][0][number], atol=1e-6)
        np.testing.assert_allclose(np.sum(trace.weighted_values, axis=0), trace.context, atol=1e-4)
        assert len(trace.query) == len(trace.context) == look.shown_dimensions <= look.dimensions.value
        if trace.window is not None:
            inside = [position for position, score in enumerate(trace.scores) if score is not None]
            assert trace.window == (inside[0], inside[-1])


SCORES: list[dict[str, Any]] = [
    *({"kind": "luong", "score": name} for name in ("dot", "scaled_dot", "general", "additive", "concat", "cosine")),
    {"kind": "luong", "score": "location", "max_source_positions": 4},
    {"kind": "luong", "score": "cosine", "sharpness": 2.5},
    {"kind": "luong", "score": "general", "window": "local-p", "window_size": 1},
    {"kind": "bahdanau", "attention_size": 20},
    {"kind": "bahdanau", "score": "general"},
    *KINDS[-2:],
    {**KINDS[-1], "heads": 1},  # of 12 dimensions, more than are shown
]


@pytest.mark.filterwarnings("ignore:a source is longer")
@pytest.mark.parametrize("model", SCORES, ids=lambda model: "-".join(map(str, model.values())))
def test_the_shown_terms_of_a_score_sum_to_it(model: dict[str, Any]) -> None:
    """A loop over the record alone, by the formula in the docstring of `HeadKeys`."""
    look = translator_of(model).look(SENTENCE, reference=REFERENCE)
    for step in look.steps:
        for trace in step.attention:
            keys = look.keys_of(trace)
            assert keys is not None
            assert len(keys.dimensions) == len(trace.asked) == min(look.shown_dimensions, keys.size)
            for j, (score, rest) in enumerate(zip(trace.scores, trace.rest, strict=True)):
                if score is None:
                    assert rest is None
                    continue
                terms = [
                    factor * (math.tanh(query + key) if keys.additive else query * key)
                    for factor, query, key in zip(keys.factor, trace.asked, keys.keys[j], strict=True)
                ]
                size = sum(map(abs, terms)) + abs(rest)  # the numbers have 6 digits
                assert rest + sum(terms) == pytest.approx(score, abs=1e-5 * size)


def test_the_shown_terms_are_those_that_differ_most(bahdanau: Translator) -> None:
    look = bahdanau.look(SENTENCE, reference=REFERENCE)
    (keys,) = look.keys
    score = bahdanau.model.attend.score
    assert keys.additive
    assert keys.factor == pytest.approx(score.v[keys.dimensions].tolist(), rel=1e-5)
    spread = np.zeros(keys.size)
    encoded = bahdanau.model.encode(torch.tensor([[piece.id for piece in look.source.pieces]]))
    projected = encoded.keys[0].detach().numpy()  # U h
    state = bahdanau.model.start(encoded)
    for token in [BOS, *(step.id for step in look.steps[:-1])]:
        asked = score.query(state.tensors[0])[0].detach().numpy()
        spread += (score.v.detach().numpy() * np.tanh(asked + projected)).std(0)
        state = bahdanau.model.step(torch.tensor([token]), state, encoded).state
    assert keys.dimensions == sorted(np.argsort(-spread)[: look.shown_dimensions].tolist())


def test_every_layer_and_head_of_a_transformer_is_traced() -> None:
    look = translator_of(KINDS[-1]).look(SENTENCE, reference=REFERENCE)
    assert {kind: (sizes.layers, sizes.heads) for kind, sizes in look.model.attention.items()} == {
        "encoder-self": (1, 2),
        "decoder-self": (2, 2),
        "cross": (2, 2),
    }
    for number, step in enumerate(look.steps):
        assert [(trace.layer, trace.head) for trace in step.attention] == [(0, 0), (0, 1), (1, 0), (1, 1)]
        for trace in step.attention:
            weights = look.attention["cross"][trace.layer][trace.head][number]
            np.testing.assert_allclose(trace.weights, weights, atol=1e-6)
            np.testing.assert_allclose(np.sum(trace.weighted_values, axis=0), trace.context, atol=1e-4)
    assert np.shape(look.attention["decoder-self"]) == (2, 2, len(look.steps), len(look.steps))
    assert np.allclose(np.triu(look.attention["decoder-self"][0][0], 1), 0)


def test_an_ensemble_and_its_own_name(bahdanau: Translator) -> None:
    other = translator_of({"kind": "luong"}, seed=2)
    look = Translator.ensemble([bahdanau, other]).look(SENTENCE, reference=REFERENCE)
    assert look.model.name == "tiny + tiny"
    assert look.model.kind == "Ensemble"
    assert look.alignment is not None
    assert all(sum(row) == pytest.approx(1, abs=1e-4) for row in look.alignment)
    fixed = [translator_of({"kind": "seq2seq"}, seed=seed) for seed in (1, 2)]
    assert Translator.ensemble(fixed).look(SENTENCE).fixed_vector


def test_a_translation_looks_back_into_its_model_and_forgets_it_when_copied(bahdanau: Translator) -> None:
    found = bahdanau.translate(SENTENCE)
    assert found.look() == bahdanau.look(SENTENCE)
    assert bahdanau.force(SENTENCE, REFERENCE).look() == bahdanau.look(SENTENCE, reference=REFERENCE)
    banned = Intervention(ban=(1,))
    assert bahdanau.translate(SENTENCE, intervention=banned).look() == bahdanau.look(SENTENCE, intervention=banned)
    assert copy.deepcopy(found) == found
    assert copy.deepcopy(found).look_again is None
    with pytest.raises(ConfigError, match="no model behind"):
        copy.deepcopy(found).look()
    with pytest.raises(ConfigError, match="empty"):
        bahdanau.translate(" ").look()
    with pytest.raises(ConfigError, match="empty"):
        Translation("a", "").look()


@pytest.mark.parametrize(
    ("model", "score"),
    [
        ({"kind": "bahdanau"}, "additive"),
        ({"kind": "luong", "score": "general"}, "general"),
        ({"kind": "luong", "score": "dot"}, "dot"),
        ({"kind": "transformer", "heads": 2}, "scaled_dot"),
        ({"kind": "seq2seq"}, None),
    ],
)
def test_the_record_names_the_score(model: dict[str, Any], score: str | None) -> None:
    assert translator_of(model).look("the cat", reference="a dog").model.score == score


def test_punctuation_is_a_unit_of_its_own_and_its_word_counts_it(bahdanau: Translator) -> None:
    look = bahdanau.look("the « small » house, a tree.", reference="작은 고양이.")
    assert [(unit.text, unit.word) for unit in look.source.units] == [
        ("the", 0), ("«", 1), ("small", 2), ("»", 3), ("house", 4), (",", 4), ("a", 5), ("tree", 6), (".", 6)
    ]  # fmt: skip
    for side in (look.source, look.target):
        for piece in side.pieces[:-1]:
            assert piece.unit is not None
            assert piece.word == side.units[piece.unit].word
        assert side.pieces[-1].unit is None
    (drawn,) = maps_of(look)
    assert drawn.rows == ("작은", "고양이", ".")
    assert drawn.weights.shape == (3, 9)
    translation = bahdanau.force("a tree.", "고양이.")
    assert translation.word_alignment().shape == (1, 2)  # links keep the words of the text


def test_interventions_are_seen_in_the_record(bahdanau: Translator) -> None:
    edit = Edit(step=0, position=1, replace=0.5)
    look = bahdanau.look(SENTENCE, reference=REFERENCE, intervention=Intervention(ban=(2,), edits=(edit,)))
    assert look.alignment is not None
    assert {row[2] for row in look.alignment} == {0.0}
    assert look.alignment[0][1] == 0.5
    assert look.steps[0].attention[0].scores[2] is None
    again = Look.from_dict(json.loads(look.to_json()))
    assert again.intervention == Intervention(ban=(2,), edits=(edit,))
    assert bahdanau.look(SENTENCE, reference=REFERENCE).steps[1].probability != look.steps[1].probability


def test_a_prefix_is_text_or_pieces_and_may_end_the_translation(bahdanau: Translator) -> None:
    ids = bahdanau.target_tokenizer.encode("a green tree")[:-1]
    by_text, by_ids = bahdanau.look(SENTENCE, prefix="a green tree"), bahdanau.look(SENTENCE, prefix=ids)
    assert by_text == by_ids
    assert by_text.prefix == len(ids)
    assert by_text.target.text.startswith("a green tree")
    ended = bahdanau.look(SENTENCE, prefix=[*ids, EOS])
    assert ended.target.text == "a green tree"
    assert ended.finished
    for wrong in ([PAD], [EOS, 5], [bahdanau.target_tokenizer.size], [-1], [2]):
        with pytest.raises(ConfigError, match="is not allowed there"):
            bahdanau.look(SENTENCE, prefix=wrong)


@pytest.mark.parametrize("beam", [1, 3])
def test_the_beam_is_a_tree_with_the_best_path_in_it(bahdanau: Translator, beam: int) -> None:
    look = bahdanau.look(SENTENCE, beam=beam, tree=True)
    assert look.target == bahdanau.look(SENTENCE, beam=beam).target
    assert look.beam is not None
    nodes = {node.id: node for node in look.beam.nodes}
    best = [node for node in look.beam.nodes if node.state == "best"]
    assert [node.token for node in best] == [step.id for step in look.steps]
    assert best[-1].log_probability == pytest.approx(look.log_probability, rel=1e-5)
    for node in look.beam.nodes:
        assert node.parent is None or nodes[node.parent].step == node.step - 1
        assert node.parent is None or nodes[node.parent].state in ("kept", "best")
        assert node.parent is None or node.log_probability <= nodes[node.parent].log_probability
    for step in range(len(look.steps) - 1):
        living = [node for node in look.beam.nodes if node.step == step and node.state in ("kept", "best")]
        dropped = [node for node in look.beam.nodes if node.step == step and node.state == "pruned"]
        assert len([node for node in living if node.token != EOS]) <= beam
        worst = min(node.log_probability for node in living)
        assert all(node.log_probability <= worst or node.token == EOS for node in dropped)
    assert {node.state for node in look.beam.nodes} >= {"best", "pruned"}


def test_mistakes_and_strange_text(bahdanau: Translator) -> None:
    for options in ({"text": " \t"}, {"text": "a", "reference": " "}, {"text": "a", "reference": "b", "tree": True}):
        with pytest.raises(ConfigError):
            bahdanau.look(**options)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="sampled"):
        bahdanau.look("a", search=SearchSettings(sample=True), tree=True)
    look = bahdanau.look("a\ud800 <script>\x00\n고", reference="b\udfff </s>")
    assert Look.from_dict(json.loads(look.to_json())) == look
    with pytest.raises(DataError, match="not a look record"):
        Look.from_dict({"format": "regard-look/1"})


def test_many_heads_show_fewer_dimensions_so_that_the_record_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.look.trace.MOST_VALUES", 50)
    assert translator_of({"kind": "bahdanau"}).look(SENTENCE, reference=REFERENCE).shown_dimensions == 2
