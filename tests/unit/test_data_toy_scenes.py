"""The embedded scenes: true captions in two languages, boxes that hold what they say, and splits that stay apart."""

import numpy as np
import pytest

from regard.data.toy.scenes import (
    COLOURS,
    SHAPES,
    SIZE,
    UNSEEN,
    Box,
    Scene,
    Thing,
    relations,
    scenes,
    split_of,
)
from regard.errors import DataError

CIRCLE = Thing("red", "circle", "small", Box(4, 20, 16, 32))
SQUARE = Thing("blue", "square", "large", Box(36, 22, 60, 46))


def test_the_captions_of_a_scene_are_all_true_ones_in_english():
    assert Scene((CIRCLE,), 0).captions() == {
        "a red circle": ((1, 0), (2, 0)),
        "a small red circle": ((1, 0), (2, 0), (3, 0)),
    }
    captions = Scene((CIRCLE, SQUARE), 0).captions("en")
    assert set(captions) == {
        "a red circle left of a blue square",
        "a red circle left of a large blue square",
        "a small red circle left of a blue square",
        "a small red circle left of a large blue square",
        "a blue square right of a red circle",
        "a blue square right of a small red circle",
        "a large blue square right of a red circle",
        "a large blue square right of a small red circle",
    }
    assert captions["a small red circle left of a blue square"] == ((1, 0), (2, 0), (3, 0), (7, 1), (8, 1))
    assert captions["a blue square right of a red circle"] == ((1, 1), (2, 1), (6, 0), (7, 0))


def test_korean_has_the_particle_that_suits_the_noun():
    captions = Scene((CIRCLE, SQUARE), 0).captions("ko")
    assert len(captions) == 8
    assert captions["작은 빨간 원이 파란 정사각형 왼쪽에 있다"] == ((0, 0), (1, 0), (2, 0), (3, 1), (4, 1))
    assert "큰 파란 정사각형이 빨간 원 오른쪽에 있다" in captions
    for shape, noun in {"heart": "하트가", "star": "별이", "cross": "십자가가", "triangle": "삼각형이"}.items():
        assert f"노란 {noun} 있다" in Scene((Thing("yellow", shape, "small", Box(0, 0, 12, 12)),), 0).captions("ko")


def test_an_takes_the_place_of_a_before_a_vowel():
    captions = Scene((Thing("orange", "star", "large", Box(0, 0, 24, 24)),), 0).captions()
    assert set(captions) == {"an orange star", "a large orange star"}


def test_usual_captions_begin_with_what_strikes_and_tell_how_it_lies_to_the_nearest():
    assert Scene((CIRCLE, SQUARE), 0).usual_captions() == [
        "a blue square right of a red circle",
        "a blue square right of a small red circle",
        "a large blue square right of a red circle",
        "a large blue square right of a small red circle",
    ]
    star = Thing("green", "star", "small", Box(6, 50, 18, 62))  # below the circle, and further from the square
    assert "a red circle above a green star" in Scene((star, CIRCLE), 0).usual_captions()  # of two alike, the left one
    assert "a blue square right of a small green star" in Scene((SQUARE, star), 0).usual_captions()
    assert "a blue square right of a red circle" in Scene((star, SQUARE, CIRCLE), 0).usual_captions()
    assert "파란 정사각형이 빨간 원 오른쪽에 있다" in Scene((CIRCLE, SQUARE), 0).usual_captions("ko")
    for made in scenes("test", 200):
        assert made.caption in made.scene.usual_captions()
        assert set(made.scene.usual_captions()) <= set(made.scene.captions())


def test_a_box_that_lies_aslant_is_beside_and_above():
    assert relations(Box(0, 0, 10, 10), Box(30, 30, 40, 40)) == ["left of", "above"]
    assert relations(Box(30, 5, 40, 15), Box(0, 0, 10, 10)) == ["right of"]
    assert relations(Box(2, 40, 12, 50), Box(0, 0, 10, 10)) == ["below"]


def test_every_scene_has_its_own_caption_among_the_valid_ones_and_mentions_are_its_words():
    for language in ("en", "ko"):
        for made in scenes("train", 60, seed=3, language=language):
            captions = made.scene.captions(language)
            assert made.caption in captions
            assert len(made.scene.things) < 2 or {thing for _, thing in captions[made.caption]} < {0, 1, 2}
            for text, mentions in captions.items():
                assert all(word < len(text.split()) for word, _ in mentions)


def test_the_box_holds_the_thing_and_nothing_else_holds_its_colour():
    for made in scenes("test", 30, seed=1):
        image = made.scene.image().astype(float)
        assert image.shape == (SIZE, SIZE, 3)
        outside = np.ones((SIZE, SIZE), dtype=bool)
        for thing in made.scene.things:
            box = thing.box
            middle = image[(box.top + box.bottom) // 2, (box.left + box.right) // 2]
            assert np.abs(middle - COLOURS[thing.colour]).max() < 45
            outside[box.top : box.bottom, box.left : box.right] = False
        ground = image[outside]
        assert np.ptp(ground.mean(-1)) < 60  # grey, with some noise
        assert np.abs(ground - ground.mean(-1, keepdims=True)).max() < 30


def test_shapes_are_drawn_apart():
    box = Box(10, 10, 34, 34)
    pictures = [Scene((Thing("red", shape, "large", box),), 7).image().astype(int) for shape in SHAPES]
    for number, one in enumerate(pictures):
        for other in pictures[:number]:
            assert (np.abs(one - other).max(-1) > 60).sum() > 25  # pixels


def test_the_splits_share_no_scene_and_unseen_pairs_are_seen_nowhere_else():
    found = {split: {made.scene.things for made in scenes(split, 90, seed=2)} for split in ("train", "valid", "test")}
    assert not found["train"] & found["valid"]
    assert not found["train"] & found["test"]
    assert not found["valid"] & found["test"]
    for split, kept in found.items():
        assert all(split_of(Scene(things, 0)) == split for things in kept)
        assert not any((thing.colour, thing.shape) in UNSEEN for things in kept for thing in things)
    unseen = [made.scene for made in scenes("unseen", 50)]
    assert all((thing.colour, thing.shape) in UNSEEN for scene in unseen for thing in scene.things)
    # each of their colours and shapes is learned, only not together
    learned = {(thing.colour, thing.shape) for things in found["train"] for thing in things}
    assert {colour for colour, _ in learned} == set(COLOURS)
    assert {shape for _, shape in learned} == set(SHAPES)


def test_a_seed_gives_the_same_scenes_again_in_either_language():
    first, again = list(scenes("valid", 5, seed=4)), list(scenes("valid", 5, seed=4))
    assert first == again
    assert np.array_equal(first[0].scene.image(), again[0].scene.image())
    assert [made.scene for made in scenes("valid", 5, seed=4, language="ko")] == [made.scene for made in first]
    assert list(scenes("valid", 5, seed=5)) != first


def test_an_unknown_split_or_language_is_told():
    with pytest.raises(DataError, match="split 'tset': the scenes have no such split; did you mean 'test'"):
        scenes("tset", 1)
    with pytest.raises(DataError, match="language 'fr': scenes have no captions in it"):
        scenes("test", 1, language="fr")
