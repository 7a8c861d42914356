"""Entropy and coverage of an attention map, between words or pieces; stored in the look record.

Between words, weights are summed over the pieces of a column's unit and averaged over the pieces of a row's unit.
Entropy is that of a whole row, in bits; coverage is the sum of a whole column. Hidden rows and columns count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from regard.nn.attention.intervention import Kind

if TYPE_CHECKING:
    from regard.look.record import Piece, Side, Unit

Weights = NDArray[np.floating]


@dataclass(frozen=True)
class Axis:
    """Rows or columns: for each its label, the pieces in it, and whether it is a word of the sentence."""

    labels: tuple[str, ...]
    places: tuple[tuple[int, ...], ...]
    is_word: tuple[bool, ...]

    def members(self, pieces: int) -> Weights:
        """1 where a piece (column) belongs to a label (row), else 0."""
        member = np.zeros((len(self.labels), pieces))
        for row, places in enumerate(self.places):
            member[row, list(places)] = 1.0
        return member

    def spread(self, numbers: Weights, pieces: int) -> list[float]:
        """The number of each label, for every piece in it."""
        found = [0.0] * pieces
        for number, places in zip(numbers.tolist(), self.places, strict=True):
            for place in places:
                found[place] = float(f"{number:.6g}")
        return found


def axes_of(source: Side, target: Side, kind: Kind, pieces: bool) -> tuple[Axis, Axis]:
    """Rows and columns of this kind of attention."""
    if kind == "encoder-self":
        axis = axis_of(source.pieces, source.units, pieces)
        return axis, axis
    rows = axis_of(target.pieces, target.units, pieces)
    if kind == "cross":
        return rows, axis_of(source.pieces, source.units, pieces)
    # Decoder self-attention attends to the decoder's input: <s> and all pieces but the last.
    from regard.look.record import Piece

    begin = Piece(text="<s>", surface="<s>", word=None, unit=None, id=-1)
    return rows, axis_of([begin, *target.pieces[:-1]], target.units, pieces)


def axis_of(pieces: Sequence[Piece], units: Sequence[Unit], by_piece: bool) -> Axis:
    """Pieces, or the units that they belong to."""
    if by_piece:
        labels = tuple(piece.surface for piece in pieces)
        marks = tuple(piece.word is not None or piece.text not in ("<s>", "</s>") for piece in pieces)
        return Axis(labels, tuple((place,) for place in range(len(pieces))), marks)
    groups: list[tuple[str, list[int], bool]] = []
    of_unit: dict[int, list[int]] = {}
    for place, piece in enumerate(pieces):
        if piece.unit is None:
            groups.append((piece.surface, [place], False))
        for number in range(len(of_unit), -1 if piece.unit is None else piece.unit + 1):
            of_unit[number] = []
            groups.append((units[number].text, of_unit[number], True))
        if piece.unit is not None:
            of_unit[piece.unit].append(place)
    groups += [(unit.text, [], True) for unit in units[len(of_unit) :]]  # units without a piece
    return Axis(
        tuple(label for label, _, _ in groups),
        tuple(tuple(places) for _, places, _ in groups),
        tuple(is_word for _, _, is_word in groups),
    )


def gather(weights: Weights, rows: Axis, columns: Axis) -> Weights:
    """The map (R, C) between rows and columns of a map (T, S) between pieces."""
    by_row, by_column = rows.members(weights.shape[0]), columns.members(weights.shape[1])
    counts = np.maximum(by_row.sum(1, keepdims=True), 1)
    return np.asarray((by_row / counts) @ weights @ by_column.T)


def entropy(weights: Weights) -> Weights:
    """Entropy of each row (R, C) in bits, after normalisation; 0 for a row of zeros."""
    total = weights.sum(-1, keepdims=True)
    share = np.divide(weights, total, out=np.zeros_like(weights, dtype=float), where=total > 0)
    logarithm = np.log2(share, out=np.zeros_like(share), where=share > 0)
    return np.asarray(np.abs((share * logarithm).sum(-1)))


def measure(weights: Weights, rows: Axis, columns: Axis) -> tuple[list[float], list[float]]:
    """Entropy by row piece (T,) and coverage by column piece (S,): each piece has the number of its unit."""
    whole = gather(weights, rows, columns)
    return rows.spread(entropy(whole), weights.shape[0]), columns.spread(whole.sum(0), weights.shape[1])
