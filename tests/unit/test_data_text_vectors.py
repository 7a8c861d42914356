"""Word vectors: both text forms, which piece gets one, and clear refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from regard.config.settings import TextSettings
from regard.data.text.tokenizer import Tokenizer
from regard.data.text.vectors import read_vectors, write_vectors
from regard.errors import DataError

LINES = ["the house sees The house , seeing houses"] * 4
GLOVE = "the 1 2 3\nhouse 4 5 6\nelsewhere 7 8 9\n. . . 1 1 1\ne 9 9 9\n"


def tokenizer(kind: str) -> Tokenizer:
    return Tokenizer.train(LINES, TextSettings.model_validate({"tokenizer": kind, "vocabulary_size": 340}))


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece", "word"])
@pytest.mark.parametrize("header", ["", "5 3\n"])
def test_whole_words_get_their_vectors(tmp_path: Path, kind: str, header: str) -> None:
    pieces = tokenizer(kind)
    (tmp_path / "v.txt").write_text(header + GLOVE)
    rows, found = read_vectors(tmp_path / "v.txt", pieces, 3)
    assert found == len(rows)
    by_word = {pieces.whole_word(piece): row.tolist() for piece, row in rows.items()}
    assert by_word["the"] == [1, 2, 3]
    assert by_word["The"] == [1, 2, 3]  # lent by the lower-case word
    assert by_word["house"] == [4, 5, 6]
    assert "elsewhere" not in by_word
    # a piece inside a word is not the word "e"
    inside = "##e" if kind == "wordpiece" else "e"
    assert all(pieces.piece(piece) != inside for piece in rows)


def test_written_vectors_are_read_back(tmp_path: Path) -> None:
    pieces = tokenizer("bpe")
    matrix = np.random.default_rng(0).normal(size=(pieces.size, 4)).astype(np.float32)
    written = write_vectors(tmp_path / "v.txt", pieces, matrix)
    rows, found = read_vectors(tmp_path / "v.txt", pieces, 4)
    assert found == written > 3
    for piece, row in rows.items():
        np.testing.assert_allclose(row, matrix[piece], rtol=1e-6)
    with pytest.raises(DataError, match="one row for each piece"):
        write_vectors(tmp_path / "v.txt", pieces, matrix[1:])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("the 1 2 3\nhouse 1 2\n", r"v\.txt:2: a vector of 2 numbers, but model\.embedding_size is 3"),
        ("the 1 2 3 4\n", r"v\.txt:1: a vector of 4 numbers"),
        ("9 300\nthe 1 2 3\n", r"v\.txt:1: a vector of 300 numbers"),
        ("the 1 two 3\n", r"v\.txt:1: not numbers"),
        ("the 1 nan 3\n", r"v\.txt:1: a number is infinite"),
        ("2 3\nthe 1 2 3\n", "1 vectors, expected 2"),
        ("", "0 vectors"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "v.txt").write_text(content)
    with pytest.raises(DataError, match=message):
        read_vectors(tmp_path / "v.txt", tokenizer("word"), 3)
