"""Pictures of attention: the formats, the fonts, and errors before boxes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from look_help import black_cat, look_of, side
from PIL import Image

from regard.errors import ConfigError, DataError, NoAttention
from regard.look.maps import Choice
from regard.look.record import About, HeadCount, Look, Moment
from regard.look.views import fonts
from regard.look.views.fonts import fonts_for
from regard.look.views.heatmap import heatmap_figure, save_figure, save_heatmap, sheet_figure, sheet_of
from regard.look.views.over_time import save_over_time


@pytest.fixture
def found() -> Look:
    return black_cat()


@pytest.mark.parametrize(("suffix", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_each_format_is_written_and_the_same_every_time(found: Look, tmp_path: Path, suffix: str, magic: bytes) -> None:
    first = save_heatmap(found, tmp_path / f"map.{suffix}").read_bytes()
    assert first.startswith(magic)
    if suffix != "svg":  # matplotlib salts the names inside an SVG
        assert save_heatmap(found, tmp_path / f"again.{suffix}").read_bytes() == first
    assert not list(tmp_path.glob(".*"))


def test_the_picture_is_dark_where_the_weight_is(found: Look) -> None:
    figure = sheet_figure(sheet_of([found], Choice()))
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba()).mean(-1)  # type: ignore[attr-defined]
    axes = figure.axes[0]

    def shade(row: int, column: int) -> float:
        x, y = axes.transData.transform((column + 0.5, row + 0.5))
        return float(pixels[pixels.shape[0] - int(y), int(x)])

    assert shade(0, 1) < 120 < 200 < shade(0, 0)
    assert shade(1, 0) < 120 < 200 < shade(1, 1)


@pytest.mark.parametrize("words", [["a"], ["incomprehensibilities"] * 30])
def test_no_label_is_cut_off(words: list[str]) -> None:
    figure = heatmap_figure(np.eye(len(words)), words, words)
    figure.canvas.draw()
    width, height = figure.canvas.get_width_height()
    for axes in figure.axes:
        for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
            box = label.get_window_extent()
            assert box.x0 >= 0
            assert box.y0 >= 0
            assert box.x1 <= width
            assert box.y1 <= height


def test_dollars_and_backslashes_are_no_formulas() -> None:
    words = ["$5", r"$\frac$", "a_b^c", "%", "{", "&amp;"]
    figure = heatmap_figure(np.eye(len(words)), words, words, title=r"$\broken$")
    figure.canvas.draw()
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == words


def test_global_state_of_matplotlib_is_left_alone(found: Look, tmp_path: Path) -> None:
    save_heatmap(found, tmp_path / "map.png", title="a title")
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()
    with Image.open(tmp_path / "map.png") as image:
        assert image.width > 200


def test_a_missing_letter_is_an_error_with_a_remedy(
    found: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fonts, "_installed_fonts", list)
    with pytest.raises(DataError, match=r"'고양이'.*fonts-nanum.*--font"):
        fonts_for(["the cat", "고양이"])
    assert fonts_for(["le café, naïve", "кошка"]) == ["DejaVu Sans"]


def test_the_font_of_last_resort_draws_nothing() -> None:
    families = [family for family, _ in fonts._installed_fonts()]
    assert "DejaVu Sans" in families
    assert not [family for family in families if "Last Resort" in family]


def test_a_font_with_the_glyph_is_found_among_the_installed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"nothing.ttf": set("abc"), "korean.ttf": set("고양이")}
    latin = set(map(chr, range(32, 127)))
    monkeypatch.setattr(fonts, "_glyphs", lambda path: sizes.get(path, latin))
    monkeypatch.setattr(fonts, "_installed_fonts", lambda: [("Nothing", "nothing.ttf"), ("Korean", "korean.ttf")])
    assert fonts_for(["cat 고양이"]) == ["DejaVu Sans", "Korean"]


def test_bad_fonts_and_paths_are_told_in_one_line(found: Look, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such font"):
        fonts_for(["a"], tmp_path / "none.ttf")
    (tmp_path / "bad.ttf").write_bytes(b"not a font")
    with pytest.raises(DataError, match="not a font"):
        fonts_for(["a"], tmp_path / "bad.ttf")
    with pytest.raises(ConfigError, match=r"\.png, \.svg or \.pdf"):
        save_heatmap(found, tmp_path / "map.gif")
    with pytest.raises(ConfigError, match="does not exist"):
        save_heatmap(found, tmp_path / "nowhere" / "map.png")


def test_each_script_names_its_own_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fonts, "_installed_fonts", list)
    for text, package in (("猫", "fonts-noto-cjk"), ("हि", "fonts-noto-core")):
        with pytest.raises(DataError, match=package):
            fonts_for([text])


def test_an_emoji_without_a_font_is_a_box_and_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fonts, "_installed_fonts", list)
    with pytest.warns(fonts.FontWarning, match="'🐈', boxes stand for it.*fonts-symbola"):
        figure = heatmap_figure(np.eye(1), ["🐈"], ["chat"])
    save_figure(figure, tmp_path / "map.png")
    label = figure.axes[0].get_xticklabels()[0]
    assert label.get_window_extent().width > 3


def test_arabic_is_joined_and_runs_from_the_right() -> None:
    """The word is narrower than its single letters side by side, so it was shaped."""
    figure = heatmap_figure(np.eye(1), ["القطة"], ["x"])
    drawn = figure.axes[0].get_xticklabels()[0]
    drawn.set_rotation(0)
    whole = drawn.get_window_extent().width
    apart = 0.0
    for letter in "القطة":
        drawn.set_text(letter)
        apart += drawn.get_window_extent().width
    assert whole < 0.9 * apart


def many_heads(layers: int, heads: int) -> Look:
    look = black_cat()
    alignment = look.alignment
    assert alignment is not None
    maps = [[alignment for _ in range(heads)] for _ in range(layers)]
    square = [[[[1.0, 0.0, 0.0]] * 3] * heads] * layers
    sizes = {kind: HeadCount(layers=layers, heads=heads) for kind in ("cross", "encoder-self", "decoder-self")}
    return look.model_copy(
        update={
            "attention": {"cross": maps, "encoder-self": square, "decoder-self": square},
            "model": About(name="many", kind="transformer", attention=sizes),
        }
    )


def test_layers_and_heads_are_a_grid_that_shares_its_labels() -> None:
    look = many_heads(2, 3)
    sheet = sheet_of([look], Choice(kind="cross"))
    assert [[panel.title for panel in row] for row in sheet] == [
        ["layer 1, head 1", "layer 1, head 2", "layer 1, head 3"],
        ["layer 2, head 1", "layer 2, head 2", "layer 2, head 3"],
    ]
    assert [[panel.row_labels for panel in row] for row in sheet] == [[True, False, False]] * 2
    assert [[panel.column_labels for panel in row] for row in sheet] == [[True] * 3, [False] * 3]
    assert len(sheet_of([look], Choice(layer=2))) == 1
    averages = sheet_of([look], Choice(average=True))
    assert [panel.title for panel in averages[0]] == ["layer 1", "layer 2"]
    one = sheet_of([look], Choice(layer=2, head=3))[0][0]
    np.testing.assert_allclose(one.map.weights, [[0.05, 0.95], [1.0, 0.0]])
    figure = sheet_figure(sheet)
    figure.canvas.draw()
    assert len(figure.axes) == 7  # and the scale


def test_a_decoder_looks_at_what_it_has_read_and_an_encoder_at_itself() -> None:
    look = many_heads(1, 1)
    own = sheet_of([look], Choice(kind="decoder-self", specials=True))[0][0].map
    assert own.columns == ("<s>", "chat", "noir")
    assert own.rows == ("chat", "noir", "</s>")
    assert sheet_of([look], Choice(kind="decoder-self", specials=False))[0][0].map.columns == ("chat", "noir")
    encoder = sheet_of([look], Choice(kind="encoder-self"))[0][0].map
    assert encoder.rows == encoder.columns == ("black", "cat")


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (Choice(kind="cros"), "did you mean 'cross'"),
        (Choice(layer=3), "no cross layer 3: they are numbered from 1 to 2"),
        (Choice(layer=1, head=0), "no cross head 0: they are numbered from 1 to 3"),
        (Choice(head=1, average=True), "cannot both be drawn"),
    ],
)
def test_a_wrong_choice_is_told(choice: Choice, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        sheet_of([many_heads(2, 3)], choice)


def test_several_sentences_flow_over_the_sheet_and_nothing_is_cut_off(found: Look) -> None:
    long = look_of(
        side("a b c d e f g h i j k l", *((letter, place) for place, letter in enumerate("abcdefghijkl"))),
        side("x", ("x", 0)),
        [[1.0] + [0.0] * 12] * 2,
    )
    sheet = sheet_of([found, long, long, found], Choice(), measures=True)
    assert [len(row) for row in sheet] == [2, 2]
    figure = sheet_figure(sheet, title="a sheet")
    figure.canvas.draw()
    width, height = figure.canvas.get_width_height()
    for axes in figure.axes:
        for text in (*axes.get_xticklabels(), *axes.get_yticklabels(), *axes.texts):
            box = text.get_window_extent()
            assert -1 <= box.x0 <= box.x1 <= width + 1
            assert -1 <= box.y0 <= box.y1 <= height + 1
    assert {text.get_text() for axes in figure.axes for text in axes.texts} >= {
        "0.3",
        "1.1",
        "entropy (bits)",
        "coverage",
    }


def test_the_measures_stand_beside_their_names(found: Look) -> None:
    figure = sheet_figure(sheet_of([found], Choice(), measures=True))
    figure.canvas.draw()
    axes = figure.axes[0]
    places = {text.get_text(): text.get_position() for text in axes.texts}
    rows, columns = len(found.target.units), len(found.source.units)
    assert places["entropy (bits)"][0] > columns  # over the entropies
    assert places["entropy (bits)"][1] < 0
    assert places["coverage"][0] > columns  # at the end of the row of coverages
    assert places["coverage"][1] > rows


def test_moments_of_training_stand_in_rows_of_three(found: Look, tmp_path: Path) -> None:
    assert found.alignment is not None
    moments = [Moment(update=each, target=found.target, alignment=found.alignment) for each in range(1, 9)]
    watched = found.model_copy(update={"over_time": moments})
    save_over_time(watched, tmp_path / "strip.png", Choice())
    with Image.open(tmp_path / "strip.png") as strip:
        width, height = strip.size
    one = found.model_copy(update={"over_time": moments[:3]})
    save_over_time(one, tmp_path / "row.png", Choice())
    with Image.open(tmp_path / "row.png") as row:
        assert abs(row.width - width) <= 2
        assert row.height * 1.8 < height


def test_a_model_without_attention_is_drawn_as_one_vector(tmp_path: Path) -> None:
    look = look_of(side("a cat", ("a", 0), ("cat", 1)), side("le chat", ("le", 0), ("chat", 1)), None, [0.5, -1.0] * 8)
    drawn = save_heatmap(look, tmp_path / "vector.svg").read_text("utf-8")
    assert drawn.startswith("<?xml")
    with pytest.raises(NoAttention, match="no attention"):
        save_heatmap(look, tmp_path / "grid.png", Choice(layer=1))
