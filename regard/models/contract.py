"""The model interface: all that decoding, training, evaluation, `look` and `serve` use of a model.

    model.encode(source, source_mask)    -> Memory
    model.start(memory)                  -> State
    model.step(token, state, memory)     -> Step(hidden, state, attention, trace)
    model.project(hidden)                -> logits over the vocabulary, or over chosen columns of it
    model.forward(batch)                 -> Output(hidden, attention, extra_loss), teacher forced
    model.alignment(attention)           -> (B, T, S)

Shapes: B sentences, N = B·beams rows, S source positions, T target positions, D hidden size, V vocabulary.
Masks: True = may be attended to.

Every model guarantees:

* `step` repeated with the gold tokens gives the result of `forward`.
* `Memory` has one row per sentence. `token` and `state` may have several adjacent rows per sentence, N = B·beams: the
  beams of a sentence share its memory without a copy.
* A `State` is never changed in place; `step` returns a new one.
* Source positions are in the order of the input sentence, even if the model reads it reversed.
* Recorded weights are before dropout and 0 at padding; every row of a real query sums to 1 (local-p: at most 1).
* The source sentence ends with EOS; S includes it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.config.models import ModelConfig, TransformerSettings
from regard.errors import NoAttention
from regard.models.inside import Inside
from regard.models.paths import Paths
from regard.nn.attention.intervention import Intervention, Kind
from regard.nn.attention.memory import Memory
from regard.nn.attention.trace import Attention, Trace
from regard.nn.cache import is_identity

NOWHERE = -1  # in a guide: no alignment, no loss


@dataclass(frozen=True)
class Batch:
    """Sentence pairs of similar length; `target_in` begins with BOS, `target_out` ends with EOS.

    For a classifier, `target_out` (B, 1) is the class.
    """

    source: Tensor  # (B, S) token ids, or images (B, C, H, W)
    source_mask: Tensor | None  # (B, S), None for images
    target_in: Tensor  # (B, T)
    target_out: Tensor  # (B, T)
    target_mask: Tensor  # (B, T)
    indices: tuple[int, ...] = ()  # indices of the sentence pairs in the corpus
    guide: Tensor | None = None  # (B, T) aligned source position for guided attention, or NOWHERE

    @property
    def target_tokens(self) -> int:
        """The number of real target tokens, EOS included."""
        return int(self.target_mask.sum())

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on another device; copies to a GPU are asynchronous."""
        if torch.device(device).type == "cuda":
            return self._each(lambda tensor: tensor.pin_memory().to(device, non_blocking=True))
        return self._each(lambda tensor: tensor.to(device))

    def rows(self, first: int, step: int) -> Batch:
        """The rows first, first + step, …, cut to their longest source and target; maybe none."""
        chosen = replace(self._each(lambda tensor: tensor[first::step]), indices=self.indices[first::step])
        targets, mask = _longest(chosen.target_mask), chosen.source_mask
        sources = None if mask is None else _longest(mask)
        return replace(
            chosen,
            source=chosen.source[:, :sources],
            source_mask=None if mask is None else mask[:, :sources],
            target_in=chosen.target_in[:, :targets],
            target_out=chosen.target_out[:, :targets],
            target_mask=chosen.target_mask[:, :targets],
            guide=None if chosen.guide is None else chosen.guide[:, :targets],
        )

    def twice(self) -> Batch:
        """The rows of the batch, then the same rows again."""
        return replace(self._each(lambda tensor: torch.cat([tensor, tensor])), indices=2 * self.indices)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        return replace(
            self,
            source=change(self.source),
            source_mask=None if self.source_mask is None else change(self.source_mask),
            target_in=change(self.target_in),
            target_out=change(self.target_out),
            target_mask=change(self.target_mask),
            guide=None if self.guide is None else change(self.guide),
        )


def _longest(mask: Tensor) -> int:
    """The number of columns up to the last that may be attended to."""
    return int(mask.sum(1).max()) if len(mask) else 0


@dataclass(frozen=True)
class State:
    """Decoder state: tensors with one row per hypothesis, and the number of steps taken."""

    tensors: tuple[Tensor, ...]  # each (N, ...)
    position: int = 0

    def select(self, index: Tensor) -> State:
        """The state of the rows `index` (M,), in that order; rows may repeat; the identity makes no copy."""
        if self.tensors and is_identity(index, self.tensors[0].size(0)):
            return self
        return State(tuple(tensor.index_select(0, index) for tensor in self.tensors), self.position)

    def advance(self, tensors: Iterable[Tensor]) -> State:
        """The state one step later."""
        return State(tuple(tensors), self.position + 1)


@dataclass(frozen=True)
class Step:
    """One decoder step."""

    hidden: Tensor  # (N, D) input of the output layer
    state: State
    attention: Attention | None = None  # T = 1
    trace: tuple[Trace, ...] = ()


@dataclass(frozen=True)
class Output:
    """All decoder steps of a batch, teacher forced."""

    hidden: Tensor  # (B, T, D)
    attention: Attention | None = None
    extra_loss: Tensor | None = None  # scalar added to the loss per token


@dataclass(frozen=True)
class TransformerWeights:
    """The weights of a Transformer in the layout of `models/transformer.py`; tied weights appear under each name."""

    settings: TransformerSettings
    tensors: Mapping[str, Tensor]


@dataclass(frozen=True)
class ModelWeights:
    """Settings and weights of a built-in model; tied weights appear under each name."""

    settings: ModelConfig
    tensors: Mapping[str, Tensor]


class Predictor(nn.Module, ABC):
    """The part of the interface that training uses, and that classifiers implement: hidden states and logits."""

    vocabulary_size: int  # V: size of the target vocabulary, or number of classes

    @abstractmethod
    def forward(self, batch: Batch) -> Output:
        """The hidden states at every target position of the batch."""

    @abstractmethod
    def project(self, hidden: Tensor, columns: Tensor | None = None) -> Tensor:
        """Logits (..., V) of hidden (..., D), or only of the vocabulary entries `columns` (C,)."""


class Model(Predictor):
    """A sequence-to-sequence model: base class of the built-in and of custom models."""

    @abstractmethod
    def encode(
        self,
        source: Tensor,
        source_mask: Tensor | None = None,
        *,
        attention: bool = False,
        intervention: Intervention | None = None,
    ) -> Memory:
        """Encode the source (B, S)."""

    @abstractmethod
    def start(self, memory: Memory) -> State:
        """The initial decoder state, one row per sentence."""

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
        """`project` for many steps: a model may precompute the part that depends on `columns` only."""
        return lambda hidden: self.project(hidden, columns)

    def compilable(self) -> ModelWeights | None:
        """Settings and weights for compiled engines and exports; None if the model is not one of the papers'."""
        return None

    def transformer_weights(self) -> TransformerWeights | None:
        """The weights for compiled engines and exports; None if the model is not a Transformer."""
        return None

    def forward(self, batch: Batch, *, attention: bool = False, intervention: Intervention | None = None) -> Output:
        """All steps with teacher forcing; the default loops over `step`, and models override it with faster code."""
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

    def inside(self) -> Inside | None:
        """What stands behind the boxes of the model's diagram; None: unknown."""
        return None

    def paths(self) -> Paths | None:
        """The code paths of the model, for `regard info`; None: unknown."""
        return None

    def alignment(self, attention: Attention | None) -> Tensor:
        """(B, T, S): the attention map that serves as word alignment."""
        weights = None if attention is None else attention.get("cross")
        if weights is None:
            raise NoAttention(
                f"{type(self).__name__} has no attention and so no alignment: "
                "train a model with attention (see `regard architectures`)."
            )
        return weights[:, -1, 0]


MakeModel = Model | Callable[[int, int], Model]
"""A custom model, or a function that builds it from the sizes of the source and target vocabularies."""


def join_steps(recorded: Sequence[Attention], memory: Memory) -> Attention:
    """Stack the attention of single steps, (B, layers, heads, 1, S) each, over T; adds encoder self-attention.

    Decoder self-attention grows by one key per step; future keys get 0.
    """
    joined: dict[Kind, Tensor] = dict(memory.attention)
    kinds = recorded[0].keys() if recorded else ()
    for kind in kinds:
        width = recorded[-1][kind].size(-1)
        rows = [functional.pad(record[kind], (0, width - record[kind].size(-1))) for record in recorded]
        joined[kind] = torch.cat(rows, 3)
    return joined
