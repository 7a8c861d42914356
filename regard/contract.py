"""The contract between models and everything that uses them.

Search, training, looking, serving and evaluation know only this file.

    model.encode(source, source_mask)    -> Memory
    model.start(memory)                  -> State
    model.step(token, state, memory)     -> Step(hidden, state, attention, trace)
    model.project(hidden)                -> logits over the vocabulary, or over chosen columns of it
    model.forward(batch)                 -> Output(hidden, attention, extra_loss), teacher forced
    model.alignment(attention)           -> (B, T, S)

Shapes: B sentences, N = B·beams rows, S source positions, T target positions, D hidden size, V vocabulary.
Masks: True = may be attended to.

What every model keeps:

* `step` repeated with the gold tokens gives the numbers of `forward`.
* `Memory` has one row per sentence. `token` and `state` may have several rows per sentence, N = B·beams,
  the rows of a sentence side by side: the beams of a sentence share its memory and no copy of it is made.
* A `State` is never changed in place; `step` returns a new one.
* Source positions are those of the sentence as given, also where the model reads it reversed.
* Weights are recorded before dropout, 0 on padding, and every real row sums to 1 (local-p: at most 1).
* The source sentence ends with its end-of-sentence token; S counts it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.errors import ConfigError, NoAttention

Kind = Literal["cross", "encoder-self", "decoder-self"]

Attention = Mapping[Kind, Tensor]
"""Weights by kind, each (B, layers, heads, T, S) with its own number of layers and heads."""

NOWHERE = -1  # in a guide: attention is free here


@dataclass(frozen=True)
class Batch:
    """Sentence pairs of similar length; `target_in` begins with BOS, `target_out` ends with EOS.

    A classifier reads no target: its `target_out` (B, 1) is the class.
    """

    source: Tensor  # (B, S) token ids, or images (B, C, H, W)
    source_mask: Tensor | None  # (B, S), None for images
    target_in: Tensor  # (B, T)
    target_out: Tensor  # (B, T)
    target_mask: Tensor  # (B, T)
    indices: tuple[int, ...] = ()  # which sentence pairs of the corpus these are
    guide: Tensor | None = None  # (B, T) the source position that attention should learn to look at, or NOWHERE

    @property
    def target_tokens(self) -> int:
        """The number of real target tokens, EOS included."""
        return int(self.target_mask.sum())

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on another device."""
        return replace(
            self,
            source=self.source.to(device),
            source_mask=None if self.source_mask is None else self.source_mask.to(device),
            target_in=self.target_in.to(device),
            target_out=self.target_out.to(device),
            target_mask=self.target_mask.to(device),
            guide=None if self.guide is None else self.guide.to(device),
        )


@dataclass(frozen=True)
class Memory:
    """What the encoder leaves: prepared keys and values over S positions, and the summary that starts the decoder."""

    mask: Tensor  # (B, S)
    lengths: Tensor  # (B,) true lengths, EOS included
    summary: tuple[Tensor, ...]  # each (B, ...)
    keys: Tensor | None = None  # (B, S, ...) prepared for the score; None without attention
    values: Tensor | None = None  # (B, S, ...)
    attention: Attention = field(default_factory=dict)  # the encoder's own, when it was asked for
    grid: tuple[int, int] | None = None  # rows and columns, where the S positions are cells of an image, row by row

    @property
    def sentences(self) -> int:
        """B."""
        return self.mask.size(0)

    def select(self, index: Tensor) -> Memory:
        """The memory of the sentences `index` (M,), in that order."""

        def rows(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor.index_select(0, index)

        return Memory(
            mask=self.mask.index_select(0, index),
            lengths=self.lengths.index_select(0, index),
            summary=tuple(tensor.index_select(0, index) for tensor in self.summary),
            keys=rows(self.keys),
            values=rows(self.values),
            attention={kind: weights.index_select(0, index) for kind, weights in self.attention.items()},
            grid=self.grid,
        )


@dataclass(frozen=True)
class State:
    """Where a decoder stands: tensors with one row per hypothesis, and the number of steps taken."""

    tensors: tuple[Tensor, ...]  # each (N, ...)
    position: int = 0

    def select(self, index: Tensor) -> State:
        """The state of the rows `index` (M,), in that order; rows may repeat, and if all stay nothing is copied."""
        if self.tensors and is_identity(index, self.tensors[0].size(0)):
            return self
        return State(tuple(tensor.index_select(0, index) for tensor in self.tensors), self.position)

    def advance(self, tensors: Iterable[Tensor]) -> State:
        """The state one step later."""
        return State(tuple(tensors), self.position + 1)


def is_identity(index: Tensor, rows: int) -> bool:
    """Whether `index` (M,) leaves all of so many rows where they are."""
    return index.size(0) == rows and bool(torch.equal(index, torch.arange(rows, device=index.device)))


@dataclass(frozen=True)
class Trace:
    """The arithmetic of one attention at one step, for looking at it; rows as in `Step`."""

    kind: Kind
    layer: int
    head: int
    query: Tensor  # (N, Dq)
    scores: Tensor  # (N, S), -inf where nothing may be attended to
    weights: Tensor  # (N, S)
    weighted_values: Tensor  # (N, S, Dv)
    context: Tensor  # (N, Dv)
    centre: Tensor | None = None  # (N,) p_t of local attention, counted from 1
    window: Tensor | None = None  # (N, S) True inside the local window
    favour: Tensor | None = None  # (N, S) what local-p multiplies the weights by


@dataclass(frozen=True)
class Step:
    """One decoder step."""

    hidden: Tensor  # (N, D) the input of the last linear layer
    state: State
    attention: Attention | None = None  # T = 1
    trace: tuple[Trace, ...] = ()


@dataclass(frozen=True)
class Output:
    """All decoder steps of a batch, teacher forced."""

    hidden: Tensor  # (B, T, D)
    attention: Attention | None = None
    extra_loss: Tensor | None = None  # a scalar that training adds to the loss per token


@dataclass(frozen=True)
class Edit:
    """One change of attention weights; None means every one (layer, head, step, source position)."""

    kind: Kind = "cross"
    layer: int | None = None
    head: int | None = None
    step: int | None = None
    position: int | None = None
    replace: float | None = None
    multiply: float | None = None

    def __post_init__(self) -> None:
        for name in ("layer", "head", "step", "position"):
            _check_place(getattr(self, name), f"the {name} of an edit")


@dataclass(frozen=True)
class Intervention:
    """Changes that a caller makes to the attention of a running model.

    A banned source position is masked before every softmax, so the others share its weight. Places are counted from 0;
    what is addressed to a place that a sentence does not have changes nothing there. An edit replaces or
    multiplies weights after the softmax, and the model goes on with exactly those numbers: nothing is renormalised.
    `regard.attention` applies both, so a model that attends through it need only pass the intervention on.
    """

    ban: tuple[int, ...] = ()
    edits: tuple[Edit, ...] = ()

    def __post_init__(self) -> None:
        for position in self.ban:
            _check_place(position, "a banned position")

    def touches(self, kind: Kind, layer: int) -> bool:
        """Whether it may change these weights at all; a ban changes all that look at the source."""
        edits = (edit for edit in self.edits if edit.replace is not None or edit.multiply not in (None, 1.0))
        return (bool(self.ban) and kind != "decoder-self") or any(
            edit.kind == kind and edit.layer in (None, layer) for edit in edits
        )

    def allow(self, mask: Tensor) -> Tensor:
        """The source positions (B, S) of a mask that are not banned."""
        if not self.ban:
            return mask
        allowed = mask.clone()
        allowed[:, [place for place in self.ban if place < mask.size(1)]] = False
        return allowed

    def apply(self, weights: Tensor, kind: Kind, layer: int, steps: Sequence[int], head: int = 0) -> Tensor:
        """The weights (B, T, S) of one head with the edits addressed to it; `steps` are the target steps of T."""
        edited = weights
        for edit in self.edits:
            if edit.kind != kind or edit.layer not in (None, layer) or edit.head not in (None, head):
                continue
            rows = [row for row, step in enumerate(steps) if edit.step in (None, step)]
            if not rows:
                continue
            columns = slice(None) if edit.position is None else slice(edit.position, edit.position + 1)
            if edited is weights:
                edited = weights.clone()
            if edit.multiply is not None:
                edited[:, rows, columns] = edited[:, rows, columns] * edit.multiply
            if edit.replace is not None:
                edited[:, rows, columns] = edit.replace
        return edited


def _check_place(place: int | None, name: str) -> None:
    if place is not None and place < 0:
        raise ConfigError(f"{name} is {place}: places are counted from 0.")


class Predictor(nn.Module, ABC):
    """What training needs of a model, and all that a classifier is: hidden states of a batch, and logits of them."""

    vocabulary_size: int  # V of the target: its words, or the classes

    @abstractmethod
    def forward(self, batch: Batch) -> Output:
        """The hidden states at every target position of the batch."""

    @abstractmethod
    def project(self, hidden: Tensor, columns: Tensor | None = None) -> Tensor:
        """Logits (..., V) of hidden (..., D), or of the vocabulary entries `columns` (C,) alone."""


class Model(Predictor):
    """A sequence-to-sequence model: the base class of all of ours, and of a user's own."""

    @abstractmethod
    def encode(
        self,
        source: Tensor,
        source_mask: Tensor | None = None,
        *,
        attention: bool = False,
        intervention: Intervention | None = None,
    ) -> Memory:
        """Read the source (B, S)."""

    @abstractmethod
    def start(self, memory: Memory) -> State:
        """The decoder's state before the first word, one row per sentence."""

    @abstractmethod
    def step(
        self,
        token: Tensor,
        state: State,
        memory: Memory,
        *,
        attention: bool = False,
        trace: bool = False,
        intervention: Intervention | None = None,
    ) -> Step:
        """Read the previous token (N,) and predict the next one."""

    def projection(self, columns: Tensor | None = None) -> Callable[[Tensor], Tensor]:
        """`project` for many steps: a model may do once here what depends on the columns alone."""
        return lambda hidden: self.project(hidden, columns)

    def forward(self, batch: Batch, *, attention: bool = False, intervention: Intervention | None = None) -> Output:
        """All steps with the gold tokens as input; here step by step, where a model has nothing faster."""
        memory = self.encode(batch.source, batch.source_mask, attention=attention, intervention=intervention)
        state = self.start(memory)
        hidden: list[Tensor] = []
        recorded: list[Attention] = []
        for token in batch.target_in.unbind(1):
            step = self.step(token, state, memory, attention=attention, intervention=intervention)
            state = step.state
            hidden.append(step.hidden)
            if step.attention is not None:
                recorded.append(step.attention)
        return Output(torch.stack(hidden, 1), join_steps(recorded, memory) if attention else None)

    def alignment(self, attention: Attention | None) -> Tensor:
        """(B, T, S): the one map that best says which source position each target token came from."""
        weights = None if attention is None else attention.get("cross")
        if weights is None:
            raise NoAttention(
                f"{type(self).__name__} has no attention, so it has no alignment: "
                "train a model with attention (see `regard models`) to get one."
            )
        return weights[:, -1, 0]


MakeModel = Model | Callable[[int, int], Model]
"""A user's own model, or a function that builds it for the sizes of the source and target vocabularies."""


def join_steps(recorded: Sequence[Attention], memory: Memory) -> Attention:
    """The attention of single steps, (B, layers, heads, 1, S) each, as one record over T, with the encoder's own.

    A decoder that looks at itself sees one step more each time: what is still to come gets 0.
    """
    joined: dict[Kind, Tensor] = dict(memory.attention)
    kinds = recorded[0].keys() if recorded else ()
    for kind in kinds:
        width = recorded[-1][kind].size(-1)
        rows = [functional.pad(record[kind], (0, width - record[kind].size(-1))) for record in recorded]
        joined[kind] = torch.cat(rows, 3)
    return joined
