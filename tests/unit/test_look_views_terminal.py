"""The matrix in the terminal: it fits, it is straight, and it says what the weights say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from look_help import black_cat, look_of, side
from rich.cells import cell_len
from rich.console import Console

from regard.errors import NoAttention
from regard.look.maps import Choice
from regard.look.views.terminal import attention_table, look_table, shorten

ENGLISH = ["the", "little", "black", "cat", "sees", "the", "old", "man", "who", "sleeps", "here", "."]
KOREAN = ["작은", "검은", "고양이는", "👩\u200d👩\u200d👧", "été", "여기에서", "猫", "본다", "."]


def lines(*args: object, **options: object) -> list[str]:
    return attention_table(*args, **options).plain.split("\n")  # type: ignore[arg-type]


@given(
    source=st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=40),
    target=st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=6),
    width=st.integers(16, 130),
    digits=st.booleans(),
)
def test_no_line_is_wider_than_the_window_whatever_the_words_hold(
    source: list[str], target: list[str], width: int, digits: bool
) -> None:
    weights = np.full((len(target), len(source)), 1 / len(source))
    table = lines(weights, source, target, width=width, digits=digits)
    assert max(cell_len(line) for line in table) <= width
    panels = sum(line.startswith(shorten(target[0], min(18, width // 3), "~" if digits else "…")) for line in table)
    assert panels >= 1


@pytest.mark.parametrize(
    ("words", "width"),
    [(ENGLISH, 40), (ENGLISH, 80), (KOREAN, 40), (KOREAN, 80), (KOREAN, 120), ((ENGLISH * 3)[:30], 80)],
)
def test_every_word_stands_where_its_column_begins(words: list[str], width: int) -> None:
    table = [*lines(np.eye(len(words)), words, words, width=width), ""]
    end = table.index("")  # the legend comes after it
    header, rows = table[: end - len(words)], table[end - len(words) : end]
    for word, row in zip(words, rows, strict=True):
        column = cell_len(row[: row.index("█")])
        assert column in [cell_len(line[:place]) for line in header for place in occurrences(line, word)]


def occurrences(line: str, word: str) -> list[int]:
    return [place for place in range(len(line)) if line.startswith(word, place)]


def test_shades_grow_with_the_weight_and_digits_are_tenths() -> None:
    weights = np.array([[0.0, 0.1, 0.3, 0.6, 0.9]])
    row = lines(weights, list("abcde"), ["x"], width=80)[1]
    assert row.split() == ["x", "·", "░" * 6, "▒" * 6, "▓" * 6, "█" * 6]
    row = lines(weights, list("abcde"), ["x"], width=80, digits=True)[1]
    assert row.split() == ["x", ".", "1", "3", "6", "9"]
    assert "\n".join(lines(weights, list("abcde"), ["x"], digits=True)).isascii()


def test_a_matrix_too_wide_is_split_and_shows_every_column_once() -> None:
    words = [f"word{number:02d}" for number in range(50)]
    table = attention_table(np.eye(50), words, words, width=60).plain
    heads = [line for line in table.split("\n") if "█" not in line and "·" not in line]
    assert all(sum(word in line for line in heads) == 1 for word in words)
    assert sum("█" in line and not line.startswith("░") for line in table.split("\n")) == 50


def test_thirty_words_fit_eighty_columns_unsplit() -> None:
    words = (ENGLISH * 3)[:30]
    table = lines(np.eye(30), words, words, width=80)
    assert sum("█" in line for line in table) == 31  # 30 rows and the legend


def test_colour_is_added_only_on_demand() -> None:
    def render(colour: bool) -> str:
        console = Console(force_terminal=True, color_system="truecolor", width=80, no_color=False)
        with console.capture() as capture:
            console.print(attention_table(np.eye(2), ["a", "b"], ["c", "d"], colour=colour))
        return capture.get()

    assert "38;2;226;88;34" in render(True)
    assert "38;2;" not in render(False)


def test_control_characters_and_direction_marks_cannot_move_the_cursor() -> None:
    assert shorten("a\x1b[31m\n\u202eb", 20) == "a�[31m�b"
    assert shorten("고양이는", 5) == "고양…"
    assert shorten("", 5) == "·"


def test_weights_must_fit_the_words() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        attention_table(np.eye(3), ["a"], ["b"])


def test_pieces_and_words_of_a_look() -> None:
    look = look_of(
        side("black cat", ("bl", 0), ("ack", 0), ("cat", 1)),
        side("chat", ("chat", 0)),
        [[0.1, 0.2, 0.7, 0.0], [0.0, 0.0, 0.0, 1.0]],
    )
    words, pieces = look_table(look).plain, look_table(look, Choice(pieces=True)).plain
    assert "black" in words
    assert "</s>" not in words
    assert "ack" in pieces
    assert "black" not in pieces
    assert pieces.count("</s>") == 2
    assert look_table(look, Choice(specials=True)).plain.count("</s>") == 2
    assert "</s>" not in look_table(look, Choice(pieces=True, specials=False)).plain


def test_entropy_ends_the_rows_and_coverage_stands_below_the_columns() -> None:
    table = look_table(black_cat(), measures=True).plain.split("\n")
    assert table[1].split()[-1] == "0.3"  # of 0.05 and 0.95
    assert table[2].split()[-1] == "0.0"
    assert table[3].split() == ["1.1", "0.9"]
    column = table[0].index("cat")
    assert table[3][column:].startswith("0.9")
    wide = np.full((2, 40), 1 / 40)
    measures = {"entropy": np.ones(2), "coverage": np.ones(40)}
    assert max(map(cell_len, lines(wide, ["word"] * 40, ["a", "b"], width=50, **measures))) <= 50


@pytest.mark.parametrize("width", [50, 80, 100])
def test_entropy_and_coverage_are_named_in_a_window_of_any_usual_width(width: int) -> None:
    said = look_table(black_cat(), width=width, measures=True).plain
    assert "right: entropy of each row (bits)" in said
    assert "bottom: coverage of each source word (column sum)" in said
    assert max(map(cell_len, said.split("\n"))) <= width


def test_a_model_without_attention_shows_its_one_vector() -> None:
    look = look_of(side("a", ("a", 0)), side("b", ("b", 0)), None, fixed_vector=[0.0, -1.0, 0.5, 0.1])
    table = look_table(look).plain.split("\n")
    assert "one fixed" in table[0]
    assert table[-1].strip() == "·█▓░"
    assert look_table(look, digits=True).plain.isascii()
    with pytest.raises(NoAttention, match="regard architectures"):
        look_table(look, Choice(layer=1))
