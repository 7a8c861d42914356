"""Selection of the attention maps of a look: words or pieces, the alignment or single layers and heads.

A map holds the attention of each row to each column. Rows are target pieces (in `encoder-self`: source pieces), columns
are the attended pieces. `measures.py` groups pieces into words and computes entropy and coverage.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.errors import ConfigError, NoAttention, did_you_mean
from regard.look.measures import Weights, axes_of, entropy, gather
from regard.look.record import Look
from regard.nn.attention.intervention import Kind


@dataclass(frozen=True)
class Choice:
    """What to draw of a look; without a kind, layer, head or average it is the alignment."""

    kind: str | None = None  # cross, encoder-self, decoder-self
    layer: int | None = None  # counted from 1, as in pictures; None: all of them
    head: int | None = None  # counted from 1
    average: bool = False  # over the heads of each layer
    pieces: bool = False
    specials: bool | None = None  # show <s> and </s>; None: with pieces; between words, a column that matters

    @property
    def is_alignment(self) -> bool:
        """Whether the alignment is chosen."""
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
        """Layer and head, counted from 1; empty for the alignment."""
        parts = [f"layer {self.layer + 1}"] if self.layer is not None else []
        return ", ".join([*parts, f"head {self.head + 1}"] if self.head is not None else parts)


def maps_of(look: Look, choice: Choice = Choice(), *, ends: bool | None = None) -> list[Map]:  # noqa: B008
    """The chosen maps, by layer and head; `ends` shows the columns <s> and </s>, by default where they matter."""
    kind, heads = _heads(look, choice)
    rows, columns = axes_of(look.source, look.target, kind, choice.pieces)
    specials = choice.pieces if choice.specials is None else choice.specials
    if ends is None:
        ends = specials or (choice.specials is None and ends_matter(look, choice))
    shown_rows = [place for place, word in enumerate(rows.is_word) if word or specials]
    shown_columns = [place for place, word in enumerate(columns.is_word) if word or ends]
    found = []
    for layer, head, weights in heads:
        whole = gather(weights, rows, columns)  # (R, C)
        found.append(
            Map(
                weights=whole[np.ix_(shown_rows, shown_columns)],
                rows=tuple(rows.labels[place] for place in shown_rows),
                columns=tuple(columns.labels[place] for place in shown_columns),
                entropy=entropy(whole)[shown_rows],
                coverage=whole.sum(0)[shown_columns],
                layer=layer,
                head=head,
            )
        )
    return found


def ends_matter(look: Look, choice: Choice) -> bool:
    """Whether <s> or </s> holds the largest weight of a word's row in any chosen map: then it is not hidden."""
    kind, heads = _heads(look, choice)
    rows, columns = axes_of(look.source, look.target, kind, choice.pieces)
    words = [place for place, is_word in enumerate(rows.is_word) if is_word]
    if not words or not columns.labels:
        return False
    largest = [gather(weights, rows, columns)[words].argmax(1) for _, _, weights in heads]
    return not all(columns.is_word[place] for each in largest for place in each)


def _heads(look: Look, choice: Choice) -> tuple[Kind, list[tuple[int | None, int | None, Weights]]]:
    """The kind of attention, and layer, head and weights (T, S) of every chosen map."""
    if choice.is_alignment:
        if look.alignment is None:
            raise NoAttention(no_attention(look))
        return "cross", [(None, None, np.array(look.alignment))]
    kind = _check_kind(look, choice.kind or "cross")
    sizes = look.model.attention[kind]
    _check_place(f"{kind} layer", choice.layer, sizes.layers, look.model.name)
    _check_place(f"{kind} head", choice.head, sizes.heads, look.model.name)
    if choice.average and choice.head is not None:
        raise ConfigError(f"head {choice.head} and the average of the heads cannot both be drawn: choose one.")
    found: list[tuple[int | None, int | None, Weights]] = []
    for layer, heads in enumerate(look.attention[kind]):
        if choice.layer not in (None, layer + 1):
            continue
        if choice.average:
            found.append((layer, None, np.mean(heads, axis=0)))
            continue
        found += [
            (layer, head, np.array(weights)) for head, weights in enumerate(heads) if choice.head in (None, head + 1)
        ]
    return kind, found


def no_attention(look: Look) -> str:
    """The reason why there is no map."""
    return (
        f"{look.model.name}: a {look.model.kind} model has no attention, so there is no matrix to draw: "
        "train one that has (see `regard architectures`)."
    )


def _check_place(name: str, given: int | None, count: int, model: str) -> None:
    if given is not None and not 1 <= given <= count:
        raise ConfigError(f"{model} has no {name} {given}: they are numbered from 1 to {count}.")


def _check_kind(look: Look, kind: str) -> Kind:
    if not look.attention:
        raise NoAttention(no_attention(look))
    for known in look.attention:
        if known == kind:
            return known
    raise ConfigError(f"{look.model.name} has no {kind!r} attention: {did_you_mean(kind, look.attention)}")
