"""Pre-trained word vectors in text format: word2vec (header line "count size") and GloVe (no header).

A word vector initialises the piece that is the whole word: "▁house" (BPE, unigram), "house" (WordPiece, words). Pieces
inside a word get no vector. A capitalised piece falls back to the vector of the lower-case word.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from regard.data.lines import read_lines
from regard.data.text.tokenizer import Tokenizer
from regard.errors import DataError
from regard.storage.files import writing

Vector = npt.NDArray[np.float32]


def read_vectors(path: Path | str, tokenizer: Tokenizer, size: int) -> tuple[dict[int, Vector], int]:
    """The vectors (size,) by piece id, and the number of pieces with a vector."""
    exact, lower = _wanted(tokenizer)
    rows: dict[int, Vector] = {}
    borrowed: dict[int, Vector] = {}
    for number, word, numbers in _entries(path, size):
        if word in exact:
            rows[exact[word]] = _vector(numbers, path, number)
        for piece in lower.get(word, ()):
            borrowed[piece] = _vector(numbers, path, number)
    rows = {**borrowed, **rows}
    return rows, len(rows)


def write_vectors(path: Path | str, tokenizer: Tokenizer, matrix: npt.NDArray[np.floating]) -> int:
    """Write the rows of matrix (V, size) of whole words in word2vec format; returns their number."""
    if matrix.shape[0] != tokenizer.size:
        raise DataError(
            f"{matrix.shape[0]} vectors for {tokenizer.size} pieces: give one row for each piece of the tokenizer."
        )
    exact, _ = _wanted(tokenizer)
    # a word with a space in it cannot be read back
    words = {word: piece for word, piece in exact.items() if len(word.split()) == 1 and "\n" not in word}
    with writing(Path(path)) as stream:
        stream.write(f"{len(words)} {matrix.shape[1]}\n".encode())
        for word, piece in words.items():
            numbers = " ".join(f"{value:.8g}" for value in matrix[piece].tolist())
            stream.write(f"{word} {numbers}\n".encode())
    return len(words)


def _wanted(tokenizer: Tokenizer) -> tuple[dict[str, int], dict[str, list[int]]]:
    """Pieces by word, and capitalised pieces by lower-case word."""
    exact: dict[str, int] = {}
    lower: dict[str, list[int]] = {}
    for piece in range(tokenizer.size):
        word = tokenizer.whole_word(piece)
        if word is None:
            continue
        exact.setdefault(word, piece)
        if word.lower() != word:
            lower.setdefault(word.lower(), []).append(piece)
    return exact, lower


def _entries(path: Path | str, size: int) -> Iterator[tuple[int, str, list[str]]]:
    """(line number, word, its numbers as text)."""
    announced: int | None = None
    count = 0
    for number, line in enumerate(read_lines(path), 1):
        fields = line.rstrip(" ").split(" ")
        if number == 1 and len(fields) == 2 and all(field.isdecimal() for field in fields):
            announced = int(fields[0])
            _check_width(int(fields[1]), path, number, size)
            continue
        # a word may contain spaces (GloVe 840B has such words), but no number after the first
        if len(fields) <= size or (len(fields) > size + 1 and _is_number(fields[1])):
            _check_width(len(fields) - 1, path, number, size)
        count += 1
        yield number, " ".join(fields[:-size]), fields[-size:]
    if not count or (announced is not None and count != announced):
        raise DataError(f"{path}: {count} vectors, expected {announced or 'some'}. The file is cut off: get it again.")


def _check_width(found: int, path: Path | str, number: int, size: int) -> None:
    if found != size:
        raise DataError(
            f"{path}:{number}: a vector of {found} numbers, but model.embedding_size is {size}. "
            f"Set model.embedding_size={found}, or mend the line."
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _vector(numbers: list[str], path: Path | str, number: int) -> Vector:
    try:
        vector = np.array(numbers, dtype=np.float32)
    except ValueError as error:
        raise DataError(f"{path}:{number}: not numbers ({error}). Mend or remove the line.") from error
    if not np.isfinite(vector).all():
        raise DataError(f"{path}:{number}: a number is infinite or not a number. Mend or remove the line.")
    return vector
