"""Entropy and coverage: one computation, in the record, for every view."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from look_help import LINES, look_of, side, translator_of

from regard.data.text.seen_words import WordCollector
from regard.look.maps import Choice, maps_of
from regard.look.record import Look
from regard.look.trace import look_at
from regard.look.views.notes import notes

ROW = [0.05, 0.5, 0.15, 0.30]  # the last is </s>, which views hide


def bits(*shares: float) -> float:
    return -sum(share * math.log2(share) for share in shares)


@pytest.fixture
def look() -> Look:
    source = side("a black cat", ("a", 0), ("black", 1), ("cat", 2))
    return look_of(source, side("chat noir", ("cha", 0), ("t", 0), ("noir", 1)), [ROW, [1.0, 0, 0, 0], ROW, ROW])


def test_hidden_columns_count(look: Look) -> None:
    measured = look.measures["alignment"]
    assert measured.pieces[0] == pytest.approx([bits(*ROW), 0, bits(*ROW), bits(*ROW)], rel=1e-5)
    assert measured.pieces[0][0] == pytest.approx(1.65, abs=0.005)
    assert measured.pieces[1] == pytest.approx([1.15, 1.5, 0.45, 0.9])


def test_a_word_has_the_mean_row_of_its_pieces(look: Look) -> None:
    entropy, coverage = look.measures["alignment"].words
    mean = bits(*((first + second) / 2 for first, second in zip(ROW, [1.0, 0, 0, 0], strict=True)))
    assert entropy == pytest.approx([mean, mean, bits(*ROW), bits(*ROW)], rel=1e-5)
    assert coverage == pytest.approx([0.525 + 0.1, 0.25 + 1.0, 0.075 + 0.3, 0.15 + 0.6])


@pytest.mark.parametrize("pieces", [True, False])
def test_views_show_the_numbers_of_the_record(look: Look, pieces: bool) -> None:
    (drawn,) = maps_of(look, Choice(pieces=pieces, specials=True))
    entropy, coverage = look.measures["alignment"].pieces if pieces else look.measures["alignment"].words
    first = [0, 1, 2, 3] if pieces else [0, 2, 3]  # the first piece of each row
    assert drawn.entropy == pytest.approx([entropy[place] for place in first], rel=1e-5)
    assert drawn.coverage == pytest.approx(coverage, rel=1e-5)


def test_every_layer_and_head_and_their_means_are_measured() -> None:
    model = {"kind": "transformer", "encoder_layers": 1, "decoder_layers": 2, "heads": 2, "feedforward_size": 16}
    look = translator_of(model).look("the cat saw a tree", reference="a dog")
    cross = {name for name in look.measures if name.startswith("cross")}
    assert cross == {"cross", "cross/0", "cross/1", *(f"cross/{layer}/{head}" for layer in (0, 1) for head in (0, 1))}
    assert {"alignment", "encoder-self/0/1", "decoder-self/1/0"} <= look.measures.keys()
    (drawn,) = maps_of(look, Choice(kind="decoder-self", layer=2, head=1, pieces=True))
    assert drawn.entropy == pytest.approx(look.measures["decoder-self/1/0"].pieces[0], rel=1e-4)


def test_they_survive_json_and_follow_the_weights(look: Look) -> None:
    read = Look.from_dict(look.to_dict())
    assert read == look
    assert read.measures == look.measures
    flat = look.model_copy(update={"alignment": [[0.25] * 4] * 4})
    assert flat.measures["alignment"].pieces[0] == [2.0] * 4


def test_an_end_of_sentence_that_holds_the_largest_weight_of_a_word_is_shown() -> None:
    source = side("a black cat", ("a", 0), ("black", 1), ("cat", 2))
    target = side("chat noir", ("chat", 0), ("noir", 1))
    last = [0.0, 0.0, 0.0, 1.0]  # the row of </s>, which no view shows
    hidden = look_of(source, target, [[0.1, 0.5, 0.1, 0.3], [0.1, 0.5, 0.1, 0.3], last])
    shown = look_of(source, target, [[0.1, 0.5, 0.1, 0.3], [0.1, 0.3, 0.2, 0.4], last])
    assert maps_of(hidden)[0].columns == ("a", "black", "cat")
    assert maps_of(shown)[0].columns == ("a", "black", "cat", "</s>")
    assert maps_of(shown)[0].rows == ("chat", "noir")
    assert maps_of(shown, Choice(specials=False))[0].columns == ("a", "black", "cat")


def test_the_probability_of_a_word_is_the_geometric_mean_of_its_pieces() -> None:
    look = translator_of({"kind": "bahdanau"}).look("the cat", reference="quite unlikely.")
    for number, unit in enumerate(look.target.units):
        own = [
            step.probability for piece, step in zip(look.target.pieces, look.steps, strict=True) if piece.unit == number
        ]
        assert unit.probability == pytest.approx(math.prod(own) ** (1 / len(own)), rel=1e-4)
    known = [unit.probability or 0.0 for unit in look.target.units]
    assert look.mean_probability == pytest.approx(math.prod(known) ** (1 / len(known)), rel=1e-4)
    assert Look.from_dict(look.to_dict()) == look


def test_unfamiliar_words_are_marked_and_a_poor_translation_says_so() -> None:
    translator = translator_of({"kind": "bahdanau"})
    seen = WordCollector().new_words(line.split() for line in LINES)
    text_model = replace(translator._model, seen_words=seen)
    look = look_at(text_model, translator.translate("the cat gothar 🦄 house."))
    marks = [(unit.text, unit.unfamiliar) for unit in look.source.units]
    assert marks == [
        ("the", None), ("cat", None), ("gothar", "unseen"), ("🦄", "bytes"), ("house", None), (".", "bytes")
    ]  # fmt: skip
    assert look.doubtful == (look.mean_probability < 0.5)
    assert look.doubtful
    assert notes(look)[0] == f"mean probability per word {look.mean_probability:.2f}"
    assert "not in the training text: gothar" in notes(look)
    assert notes(look)[-1].startswith("improbable words from unfamiliar ones")
    known = look_at(text_model, translator.translate("the small house"))
    assert {unit.unfamiliar for unit in known.source.units} == {None}
    assert not known.doubtful
