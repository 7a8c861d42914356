"""An ensemble of models with shared vocabularies, as one `Model`.

The probability of a token is the mean over the members. `step` computes it: `hidden` (N, V) holds the log-probability,
and `project` returns it unchanged. Attention is the mean of the members' alignments, as one layer with one head.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.models.contract import Model, State, Step
from regard.nn.attention.intervention import Intervention
from regard.nn.attention.memory import Memory
from regard.nn.attention.trace import Attention


@dataclass(frozen=True)
class EnsembleMemory(Memory):
    """The members' memories; mask and lengths are those of the first member."""

    members: tuple[Memory, ...] = ()

    def select(self, index: Tensor) -> EnsembleMemory:
        """The memory of the sentences `index`."""
        return join_memories([member.select(index) for member in self.members])


@dataclass(frozen=True)
class EnsembleState(State):
    """The members' states."""

    members: tuple[State, ...] = ()

    def select(self, index: Tensor) -> EnsembleState:
        """The state of the rows `index`."""
        return join_states([member.select(index) for member in self.members])


def join_memories(members: Sequence[Memory]) -> EnsembleMemory:
    """Combine the members' memories."""
    first = members[0]
    summary = tuple(tensor for member in members for tensor in member.summary)
    return EnsembleMemory(mask=first.mask, lengths=first.lengths, summary=summary, members=tuple(members))


def join_states(members: Sequence[State]) -> EnsembleState:
    """Combine the members' states."""
    return EnsembleState(tensors=(), position=members[0].position, members=tuple(members))


class Ensemble(Model):
    """The mean of several models."""

    def __init__(self, models: Sequence[Model]) -> None:
        super().__init__()
        sizes = {model.vocabulary_size for model in models}
        if len(sizes) != 1:
            raise ConfigError(
                f"ensemble: the vocabularies have {sorted(sizes)} entries: the models must share one vocabulary."
            )
        self.models = nn.ModuleList(models)
        self.vocabulary_size = sizes.pop()

    def members(self) -> Iterator[Model]:
        """The models, in order."""
        for model in self.models:
            assert isinstance(model, Model)
            yield model

    def encode(
        self,
        source: Tensor,
        source_mask: Tensor | None = None,
        *,
        attention: bool = False,
        intervention: Intervention | None = None,
    ) -> EnsembleMemory:
        """Each member encodes the source; encoder self-attention is not recorded."""
        return join_memories([model.encode(source, source_mask, intervention=intervention) for model in self.members()])

    def start(self, memory: Memory) -> EnsembleState:
        """Each member's initial state."""
        assert isinstance(memory, EnsembleMemory)
        return join_states([model.start(own) for model, own in zip(self.members(), memory.members, strict=True)])

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
        """Each member's step; hidden (N, V) is the log of the mean probability."""
        assert isinstance(memory, EnsembleMemory)
        assert isinstance(state, EnsembleState)
        steps = [
            model.step(token, own_state, own, attention=attention, intervention=intervention)
            for model, own_state, own in zip(self.members(), state.members, memory.members, strict=True)
        ]
        each = [model.project(step.hidden).log_softmax(-1) for model, step in zip(self.members(), steps, strict=True)]
        mean = torch.stack(each).logsumexp(0) - math.log(len(each))
        recorded = self._attention(steps) if attention else None
        return Step(mean, join_states([step.state for step in steps]), recorded)

    def project(self, hidden: Tensor, columns: Tensor | None = None) -> Tensor:
        """The log-probabilities computed by `step`, of all tokens or of `columns`."""
        return hidden.clone() if columns is None else hidden.index_select(-1, columns)

    def _attention(self, steps: Sequence[Step]) -> Attention | None:
        """The mean alignment (N, 1, 1, 1, S) of the members with attention."""
        alignments = [
            model.alignment(step.attention)
            for model, step in zip(self.members(), steps, strict=True)
            if step.attention and "cross" in step.attention
        ]
        if not alignments:
            return None
        return {"cross": torch.stack(alignments).mean(0)[:, None, None]}
