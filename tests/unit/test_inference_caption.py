"""A caption: its words, its maps, its JSON, and the pictures that are drawn from them."""

import io
import json

import numpy as np
import pytest
from PIL import Image

from regard.data.images.pixels import png_of
from regard.data.text.tokenizer import Token
from regard.errors import ConfigError, DataError, NoAttention
from regard.inference.caption import Caption
from regard.look.caption_maps import shown_image, word_maps
from regard.look.record import About, Dimensions, Look, LookedImage, Piece, Side, Unit
from regard.look.views.caption import maps_text
from regard.look.views.caption_pictures import DIM, animation, full_light, light, save_caption

GREY = np.full((64, 64, 3), 200, dtype=np.uint8)


def token(text: str, word: int | None) -> Token:
    return Token(5, text, word, 0, 0)


def caption(image: np.ndarray = GREY) -> Caption:
    maps = np.zeros((4, 2, 3))
    maps[0, 0, 0] = maps[1, 1, 2] = maps[2, 1, 1] = 1.0  # "a", "cir", "cle", </s>
    maps[3] = 1 / 6
    tokens = (token("a", 0), token(" cir", 1), token("cle", 1), Token(3, "</s>", None, 0, 0))
    return Caption(image, "a circle", tokens, score=-0.5, log_probability=-1.0, attention=maps)


def look(image: np.ndarray = GREY) -> Look:
    """The record of the same caption."""
    said = caption(image)
    pieces = [
        Piece(text=each.text, surface=each.text, word=each.word, unit=each.word, id=each.id) for each in said.tokens
    ]
    units = [Unit(text=word, word=number) for number, word in enumerate(said.words)]
    return Look(
        model=About(name="scenes", kind="captioner"),
        source=Side(text="", words=[], units=[], pieces=[]),
        target=Side(text=said.text, words=list(said.words), units=units, pieces=pieces),
        score=said.score,
        log_probability=said.log_probability,
        finished=True,
        forced=False,
        alignment=said.attention.reshape(4, 6).tolist(),
        attention={},
        steps=[],
        shown_dimensions=0,
        dimensions=Dimensions(query=0, value=0, summary=0),
        image=LookedImage(width=64, height=64, rows=2, columns=3, png=png_of(image)),
    )


def test_a_notebook_shows_a_thumbnail_for_each_word():
    shown = look()._repr_html_()
    assert shown.count("<image ") == 2
    assert ">circle</text>" in shown
    assert shown.count('fill-opacity="0.00"') == 3  # "a" lit one cell, the two pieces of "circle" one each
    assert "<script" not in shown


def test_the_record_gives_the_maps_of_the_caption():
    np.testing.assert_array_equal(word_maps(look()), caption().word_attention())
    np.testing.assert_array_equal(shown_image(look()), GREY)
    with pytest.raises(DataError, match="is not of an image"):
        word_maps(look().model_copy(update={"image": None}))


def test_a_caption_is_one_short_line():
    assert repr(caption()).startswith("<Caption 'a circle', score -0.50")


def test_words_have_the_mean_of_their_pieces():
    looked = caption().word_attention()
    assert caption().grid == (2, 3)
    assert looked.tolist() == [[[1, 0, 0], [0, 0, 0]], [[0, 0, 0], [0, 0.5, 0.5]]]


def test_json_tells_everything_but_the_image():
    record = json.loads(json.dumps(caption().to_dict()))
    assert record["text"] == "a circle"
    assert record["words"] == ["a", "circle"]
    assert record["grid"] == [2, 3]
    assert record["attention"] == [[1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0.5, 0.5]]
    assert record["tokens"] == ["a", " cir", "cle", "</s>"]
    assert record["n_best"] == [{"text": "a circle", "score": -0.5, "log_probability": -1.0, "finished": True}]
    bare = Caption(GREY, "a circle")
    assert bare.to_dict()["attention"] is None
    with pytest.raises(NoAttention, match="caption the image with attention=True"):
        bare.word_attention()


def test_light_falls_where_the_word_looked():
    weights = np.array([[0.0, 0.2, 0.0], [0.0, 0.0, 0.4]])
    lit = light(GREY, weights)
    assert lit.shape == (384, 384, 3)
    assert lit[300, 383].tolist() == [200] * 3  # the largest weight: all of its light
    half = round(200 * (DIM + (1 - DIM) * 0.5))
    assert lit[10, 190].tolist() == [half] * 3
    assert lit[10, 10].tolist() == [round(200 * DIM)] * 3
    assert light(GREY, np.zeros((2, 3)))[0, 0].tolist() == [round(200 * DIM)] * 3


def test_small_images_are_enlarged_and_grey_ones_drawn():
    assert full_light(np.zeros((10, 20), dtype=np.uint8)).shape == (190, 380, 3)
    assert full_light(np.zeros((500, 700, 3), dtype=np.uint8)).shape == (500, 700, 3)


def test_an_animation_has_a_frame_for_the_image_and_for_each_word():
    movie = Image.open(io.BytesIO(animation(look(), milliseconds=300)))
    assert movie.n_frames == 3
    assert movie.info["duration"] == 300
    brightness = []
    for number in range(3):
        movie.seek(number)
        brightness.append(np.asarray(movie.convert("L"))[:400].mean())
    assert brightness[0] > brightness[2] > brightness[1]  # two cells of six are lit for the second word, one for "a"


def test_sheets_are_written_and_other_names_refused(tmp_path):
    save_caption(look(), tmp_path / "sheet.png")
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.width > 500
    with pytest.raises(ConfigError, match="this picture is drawn as"):
        save_caption(look(), tmp_path / "sheet.bmp")


def test_the_terminal_shows_maps_side_by_side_within_the_window():
    text = maps_text(look(), 80)
    assert text.splitlines() == [
        "a        circle",
        "██····   ······",
        "······   ··████",
        "",
        "· < 5 %  ░ ≥ 5 %  ▒ ≥ 25 %  ▓ ≥ 50 %  █ ≥ 75 %  of the word's largest weight",
    ]
    narrow = maps_text(look(), 8)
    assert max(map(len, narrow.splitlines())) <= 8
    assert narrow.count("circle") == 1


def test_an_empty_caption_has_no_maps_in_the_terminal():
    full = look()
    assert full.alignment is not None
    end = {"words": [], "units": [], "pieces": full.target.pieces[-1:], "text": ""}
    empty = full.model_copy(update={"target": Side(**end), "alignment": full.alignment[-1:]})
    assert maps_text(empty) == ""
