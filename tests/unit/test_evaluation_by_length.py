"""BLEU by length: the ranges partition the sentences, and what is drawn says what was counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image
from rich.console import Console

from regard.errors import ConfigError, DataError
from regard.evaluation.by_length import bleu_by_length, length_bars, length_table, plot_by_length
from regard.evaluation.scores import corpus_scores


def sentence(length: int) -> str:
    return " ".join(f"w{n}" for n in range(length))


SOURCES = [sentence(n) for n in (1, 3, 10, 11, 20, 25, 61, 70)]
HYPOTHESES = [line if len(line.split()) <= 20 else sentence(5) + " x y z" for line in SOURCES]


def test_ranges_hold_every_sentence_once() -> None:
    rows = bleu_by_length(SOURCES, HYPOTHESES, SOURCES)
    assert [row.label for row in rows] == ["1-10", "11-20", "21-30", "31-40", "41-50", "51-60", "61+"]
    assert [row.sentences for row in rows] == [3, 2, 1, 0, 0, 0, 2]
    assert [row.bleu is None for row in rows] == [False, False, False, True, True, True, False]


def test_scores_and_ratios_of_the_ranges() -> None:
    rows = bleu_by_length(SOURCES, HYPOTHESES, SOURCES)
    assert rows[0].bleu == pytest.approx(100)
    assert rows[1].length_ratio == pytest.approx(1)
    assert rows[6].bleu is not None
    assert rows[6].bleu < 5
    assert rows[6].length_ratio == pytest.approx(16 / 131)


def test_one_range_for_all_is_corpus_bleu() -> None:
    (row,) = bleu_by_length(SOURCES, HYPOTHESES, SOURCES, edges=[1000])
    assert row.bleu == pytest.approx(corpus_scores(HYPOTHESES, SOURCES)["bleu"].value)


def test_a_perfect_range_without_any_four_gram_scores_100() -> None:
    (row,) = bleu_by_length(["a b", "c"], ["a b", "c"], ["a b", "c"])
    assert row.bleu == pytest.approx(100)


def test_blank_sources_and_own_edges() -> None:
    rows = bleu_by_length(["", "a b c"], ["", "a b c"], ["", "a b c"], edges=[2, 5])
    assert [(row.label, row.sentences) for row in rows] == [("0", 1), ("1-2", 0), ("3-5", 1)]
    assert rows[0].bleu is None
    (blank,) = bleu_by_length([""], ["word"], ["word"])
    assert (blank.low, blank.high, blank.sentences) == (0, 0, 1)


@pytest.mark.parametrize("edges", [[], [0, 10], [10, 10], [20, 10]])
def test_impossible_edges(edges: list[int]) -> None:
    with pytest.raises(ConfigError, match="length edges"):
        bleu_by_length(SOURCES, HYPOTHESES, SOURCES, edges=edges)


def test_unequal_sources() -> None:
    with pytest.raises(DataError, match="7 source sentences for 8 translations"):
        bleu_by_length(SOURCES[:-1], HYPOTHESES, SOURCES)


def test_rows_fit_into_json() -> None:
    rows = bleu_by_length(SOURCES, HYPOTHESES, SOURCES)
    last = json.loads(json.dumps([row.to_dict() for row in rows]))[-1]
    assert (last["low"], last["high"], last["sentences"]) == (61, None, 2)


def test_table_shows_each_range_in_80_columns_without_colour() -> None:
    console = Console(width=80, no_color=True, record=True, force_terminal=False)
    with console.capture() as capture:
        console.print(length_table(bleu_by_length(SOURCES, HYPOTHESES, SOURCES)))
    lines = capture.get().splitlines()
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in capture.get()
    assert [line.split() for line in lines if line.split()[:1] == ["1-10"]] == [["1-10", "3", "100.0", "1.00"]]


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_bars_keep_the_width_and_their_proportion(width: int, ascii_only: bool) -> None:
    rows = bleu_by_length(SOURCES, HYPOTHESES, SOURCES)
    text = length_bars({"a rather long name of a system": rows, "b": rows}, width=width, ascii_only=ascii_only)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert text.isascii() == ascii_only
    full, empty = lines[0], lines[-1]
    block = "#" if ascii_only else "█"
    assert full.count(block) > 10 * max(1, empty.count(block))
    assert full.endswith("100.0")
    assert len(lines) == 2 * len(rows)


def test_bars_of_one_system() -> None:
    lines = length_bars(bleu_by_length(SOURCES, HYPOTHESES, SOURCES)).splitlines()
    assert lines[0].startswith(" 1-10  █")
    assert lines[3] == "31-40  -"


@pytest.mark.parametrize("name", ["plot.png", "plot.svg"])
def test_picture_is_drawn(tmp_path: Path, name: str) -> None:
    rows = bleu_by_length(SOURCES, HYPOTHESES, SOURCES)
    path = tmp_path / name
    plot_by_length({"seq2seq": rows, "bahdanau": rows[:2]}, path, title="By length")
    if name.endswith("png"):
        with Image.open(path) as picture:
            colours = {colour for _, colour in picture.convert("RGB").getcolors(1 << 20) or []}
        assert {(31, 119, 180), (255, 127, 14)} <= colours  # both lines are there
    else:
        assert path.read_text(encoding="utf-8").rstrip().endswith("</svg>")


def test_picture_of_an_unknown_kind_or_of_nothing(tmp_path: Path) -> None:
    rows = bleu_by_length(SOURCES, HYPOTHESES, SOURCES)
    with pytest.raises(ConfigError, match=r"\.bmp.*\.png"):
        plot_by_length(rows, tmp_path / "plot.bmp")
    with pytest.raises(DataError, match="no lengths"):
        plot_by_length({}, tmp_path / "plot.png")
    assert not list(tmp_path.iterdir())
