"""Pictures of attention: the formats, the fonts, and errors before boxes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.errors import ConfigError, DataError
from regard.look import heatmap
from regard.look.heatmap import fonts_for, heatmap_figure, save_heatmap
from regard.text.tokenizer import Token
from regard.translation import Translation


def piece(text: str, word: int | None) -> Token:
    return Token(id=9, text=text, word=word, start=0, end=0)


@pytest.fixture
def found() -> Translation:
    return Translation(
        source="black cat",
        text="chat noir",
        source_tokens=(piece("black", 0), piece("cat", 1), piece("</s>", None)),
        tokens=(piece("chat", 0), piece("noir", 1), piece("</s>", None)),
        alignment=np.array([[0.05, 0.95, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]),
    )


@pytest.mark.parametrize(("suffix", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_each_format_is_written_and_the_same_every_time(
    found: Translation, tmp_path: Path, suffix: str, magic: bytes
) -> None:
    first = save_heatmap(found, tmp_path / f"map.{suffix}").read_bytes()
    assert first.startswith(magic)
    if suffix != "svg":  # matplotlib salts the names inside an SVG
        assert save_heatmap(found, tmp_path / f"again.{suffix}").read_bytes() == first
    assert not list(tmp_path.glob(".*"))


def test_the_picture_is_dark_where_the_weight_is(found: Translation) -> None:
    figure = heatmap_figure(found.word_alignment(), found.source_words, found.words)
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


def test_global_state_of_matplotlib_is_left_alone(found: Translation, tmp_path: Path) -> None:
    save_heatmap(found, tmp_path / "map.png", title="a title")
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()
    with Image.open(tmp_path / "map.png") as image:
        assert image.width > 200


def test_a_missing_glyph_is_an_error_with_a_remedy_and_never_a_box(
    found: Translation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heatmap, "_installed_fonts", list)
    with pytest.raises(DataError, match=r"'고양이'.*fonts-nanum.*--font"):
        fonts_for(["the cat", "고양이"])
    assert fonts_for(["le café, naïve", "кошка"]) == ["DejaVu Sans"]


def test_a_font_with_the_glyph_is_found_among_the_installed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"nothing.ttf": set("abc"), "korean.ttf": set("고양이")}
    latin = set(map(chr, range(32, 127)))
    monkeypatch.setattr(heatmap, "_glyphs", lambda path: sizes.get(path, latin))
    monkeypatch.setattr(heatmap, "_installed_fonts", lambda: [("Nothing", "nothing.ttf"), ("Korean", "korean.ttf")])
    assert fonts_for(["cat 고양이"]) == ["DejaVu Sans", "Korean"]


def test_bad_fonts_and_paths_are_told_in_one_line(found: Translation, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such font"):
        fonts_for(["a"], tmp_path / "none.ttf")
    (tmp_path / "bad.ttf").write_bytes(b"not a font")
    with pytest.raises(DataError, match="not a font"):
        fonts_for(["a"], tmp_path / "bad.ttf")
    with pytest.raises(ConfigError, match=r"\.png, \.svg or \.pdf"):
        save_heatmap(found, tmp_path / "map.gif")
    with pytest.raises(ConfigError, match="does not exist"):
        save_heatmap(found, tmp_path / "nowhere" / "map.png")
