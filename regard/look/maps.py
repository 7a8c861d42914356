"""Which matrices of a look are drawn: words or pieces, the one alignment or single layers and heads.

A map says how much each row looks at each column. Rows are what the model says (in `encoder-self`: what it reads),
columns what it looks at. Between words, weights are summed over the pieces of a column's word and averaged over those
of a row's. Entropy, in bits, is that of a whole row, coverage the sum of a whole column: what is hidden counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.errors import ConfigError, NoAttention, did_you_mean
from regard.look.record import Look, Matrix, Piece, Side
from regard.nn.attention.intervention import Kind

Weights = NDArray[np.floating]


@dataclass(frozen=True)
class Choice:
    """What to draw of a look; without a kind, layer, head or average it is the alignment."""

    kind: str | None = None  # cross, encoder-self, decoder-self
    layer: int | None = None  # None: all of them
    head: int | None = None
    average: bool = False  # over the heads of each layer
    pieces: bool = False
    specials: bool | None = None  # show <s> and </s>; None: with pieces, yes, with words, no

    @property
    def is_alignment(self) -> bool:
        """Whether the one map is meant."""
        return self.kind is None and self.layer is None and self.head is None and not self.average


@dataclass(frozen=True)
class Map:
    """One matrix (R, C) with the labels of its rows and columns."""

    weights: Weights
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    entropy: Weights  # (R,) bits
    coverage: Weights  # (C,)
    layer: int | None = None
    head: int | None = None

    @property
    def name(self) -> str:
        """Where it comes from; empty for the alignment."""
        parts = [f"layer {self.layer}"] if self.layer is not None else []
        return ", ".join([*parts, f"head {self.head}"] if self.head is not None else parts)


@dataclass(frozen=True)
class _Axis:
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


def maps_of(look: Look, choice: Choice = Choice()) -> list[Map]:  # noqa: B008 (it never changes)
    """The maps that were chosen, by layer and then by head."""
    if choice.is_alignment:
        if look.alignment is None:
            raise NoAttention(no_attention(look))
        return [_map(look, "cross", look.alignment, choice)]
    kind = _check_kind(look, choice.kind or "cross")
    sizes = look.model.attention[kind]
    _check_place(f"{kind} layer", choice.layer, sizes.layers, look.model.name)
    _check_place(f"{kind} head", choice.head, sizes.heads, look.model.name)
    if choice.average and choice.head is not None:
        raise ConfigError(f"head {choice.head} and the average of the heads cannot both be drawn: choose one.")
    found = []
    for layer, heads in enumerate(look.attention[kind]):
        if choice.layer not in (None, layer):
            continue
        if choice.average:
            found.append(_map(look, kind, np.mean(heads, axis=0).tolist(), choice, layer))
            continue
        found += [
            _map(look, kind, weights, choice, layer, head)
            for head, weights in enumerate(heads)
            if choice.head in (None, head)
        ]
    return found


def no_attention(look: Look) -> str:
    """Why there is no map."""
    return (
        f"{look.model.name}: a {look.model.kind} model has no attention, so there is no matrix to draw: "
        "train one that has (see `regard models`)."
    )


def _check_place(name: str, given: int | None, count: int, model: str) -> None:
    if given is not None and not 0 <= given < count:
        raise ConfigError(f"{model} has no {name} {given}: they are 0 to {count - 1}.")


def _check_kind(look: Look, kind: str) -> Kind:
    if not look.attention:
        raise NoAttention(no_attention(look))
    for known in look.attention:
        if known == kind:
            return known
    raise ConfigError(f"{look.model.name} has no {kind!r} attention: {did_you_mean(kind, look.attention)}")


def _map(
    look: Look, kind: Kind, weights: Matrix, choice: Choice, layer: int | None = None, head: int | None = None
) -> Map:
    pieces = np.array(weights)  # (T, S)
    rows, columns = axes_of(look.source, look.target, kind, choice.pieces)
    by_row, by_column = rows.members(pieces.shape[0]), columns.members(pieces.shape[1])
    counts = np.maximum(by_row.sum(1, keepdims=True), 1)
    whole = (by_row / counts) @ pieces @ by_column.T  # (R, C)
    specials = choice.pieces if choice.specials is None else choice.specials
    shown_rows = [place for place, word in enumerate(rows.is_word) if word or specials]
    shown_columns = [place for place, word in enumerate(columns.is_word) if word or specials]
    return Map(
        weights=whole[np.ix_(shown_rows, shown_columns)],
        rows=tuple(rows.labels[place] for place in shown_rows),
        columns=tuple(columns.labels[place] for place in shown_columns),
        entropy=entropy(whole)[shown_rows],
        coverage=whole.sum(0)[shown_columns],
        layer=layer,
        head=head,
    )


def axes_of(source: Side, target: Side, kind: Kind, pieces: bool) -> tuple[_Axis, _Axis]:
    """Rows and columns of this kind of attention."""
    if kind == "encoder-self":
        axis = _axis(source.pieces, source.words, pieces)
        return axis, axis
    rows = _axis(target.pieces, target.words, pieces)
    if kind == "cross":
        return rows, _axis(source.pieces, source.words, pieces)
    # A decoder looks at what it has read: <s>, and its own pieces but the last.
    begin = Piece(text="<s>", surface="<s>", word=None, id=-1)
    return rows, _axis([begin, *target.pieces[:-1]], target.words, pieces)


def entropy(weights: Weights) -> Weights:
    """Bits of each row (R, C), taken as shares of its sum; 0 for a row that looks nowhere."""
    total = weights.sum(-1, keepdims=True)
    share = np.divide(weights, total, out=np.zeros_like(weights, dtype=float), where=total > 0)
    logarithm = np.log2(share, out=np.zeros_like(share), where=share > 0)
    return np.asarray(np.abs((share * logarithm).sum(-1)))


def _axis(pieces: Sequence[Piece], words: Sequence[str], by_piece: bool) -> _Axis:
    if by_piece:
        labels = tuple(piece.surface for piece in pieces)
        marks = tuple(piece.word is not None or piece.text not in ("<s>", "</s>") for piece in pieces)
        return _Axis(labels, tuple((place,) for place in range(len(pieces))), marks)
    groups: list[tuple[str, list[int], bool]] = []
    of_word: dict[int, list[int]] = {}
    for place, piece in enumerate(pieces):
        if piece.word is None:
            groups.append((piece.surface, [place], False))
        for word in range(len(of_word), -1 if piece.word is None else piece.word + 1):
            of_word[word] = []
            groups.append((words[word], of_word[word], True))
        if piece.word is not None:
            of_word[piece.word].append(place)
    groups += [(word, [], True) for word in words[len(of_word) :]]  # words that no piece tells of
    return _Axis(
        tuple(label for label, _, _ in groups),
        tuple(tuple(places) for _, places, _ in groups),
        tuple(is_word for _, _, is_word in groups),
    )
