"""Pointing: which cells a box has, and how hits and mass are counted."""

import numpy as np
import pytest

from regard.data.toy.scenes import Box
from regard.evaluation.pointing import Pointing, cells_of, point

SIZE = (32, 32)  # 4 x 4 cells of 8 pixels


def cells(box: Box) -> set[tuple[int, int]]:
    rows, columns = np.nonzero(cells_of(box, (4, 4), SIZE))
    return set(zip(rows.tolist(), columns.tolist(), strict=True))


def test_a_cell_belongs_to_the_box_that_covers_half_of_it():
    assert cells(Box(8, 16, 16, 24)) == {(2, 1)}
    assert cells(Box(8, 0, 20, 8)) == {(0, 1), (0, 2)}  # half of the second
    assert cells(Box(8, 0, 19, 8)) == {(0, 1)}
    assert cells(Box(0, 0, 32, 32)) == {(row, column) for row in range(4) for column in range(4)}


def test_a_small_box_has_the_cells_that_it_covers_most():
    assert cells(Box(1, 1, 4, 4)) == {(0, 0)}
    assert cells(Box(4, 4, 12, 12)) == {(0, 0), (0, 1), (1, 0), (1, 1)}  # a quarter of each
    assert cells(Box(4, 4, 11, 12)) == {(0, 0), (1, 0)}


def test_an_image_need_not_be_square():
    found = cells_of(Box(50, 0, 100, 10), (2, 4), (20, 100))
    assert found.tolist() == [[False, False, True, True], [False, False, False, False]]


def test_hits_and_mass_are_counted_by_word():
    maps = np.full((3, 4, 4), 0.02)
    maps[0, 2, 1] = 0.7  # in the box
    maps[1, 0, 0] = 0.5  # beside it, with a little in it
    maps[1, 2, 1] = 0.22
    box = Box(8, 16, 16, 24)
    result = point(maps, [(0, box), (1, box)], SIZE)
    assert (result.words, result.hits) == (2, 1)
    assert result.mass == pytest.approx(0.92)
    assert result.even == pytest.approx(2 / 16)
    shares = (result + Pointing(words=2)).to_dict()
    assert shares["words"] == 4
    assert shares["pointing_accuracy"] == pytest.approx(0.25)
    assert shares["mass_in_box"] == pytest.approx(0.23)
    assert shares["by_chance"] == pytest.approx(1 / 32)


def test_even_attention_gets_what_chance_says():
    box = Box(0, 0, 16, 16)
    result = point(np.full((1, 4, 4), 1 / 16), [(0, box)], SIZE)
    assert result.mass == pytest.approx(result.even)
