"""The record of a search: backpointers, from which hypotheses are reconstructed.

A search records the token and the parent of each row at every step. Reordering beams or removing sentences copies
nothing else: a hypothesis is read backwards from its last token along the parents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.penalties import length_penalty
from regard.models.contract import Model
from regard.nn.attention.intervention import Kind
from regard.nn.attention.memory import Memory
from regard.nn.attention.trace import Attention

Values = list[list[Any]]
"""Values by step and row."""


@dataclass(frozen=True)
class Ending:
    """The last token of a hypothesis; backpointers lead to the others."""

    step: int
    row: int  # the parent row at that step
    token: int
    log_probability: float
    score: float
    finished: bool
    coverage_penalty: float = 0.0


class Steps:
    """One tensor (N, ...) per step, in a few large blocks.

    A long sentence takes thousands of steps. One small long-lived tensor per step, between large temporary buffers,
    would fragment the heap.
    """

    BLOCK = 32  # steps

    def __init__(self) -> None:
        self._blocks: list[Tensor] = []
        self._places: list[tuple[int, int]] = []  # of each step: block, index in the block

    def __len__(self) -> int:
        return len(self._places)

    def append(self, tensor: Tensor) -> None:
        """Copy the tensor of the next step; decoder self-attention changes its shape and has one block per step."""
        last = self._blocks[-1] if self._blocks else None
        same = last is None or last.shape[2:] == tensor.shape[1:]
        place = self._places[-1][1] + 1 if self._places else 0
        if last is None or not same or place == last.size(0) or tensor.size(0) > last.size(1):
            last = tensor.new_empty(self.BLOCK if same else 1, *tensor.shape)
            self._blocks.append(last)
            place = 0
        last[place, : tensor.size(0)] = tensor
        self._places.append((len(self._blocks) - 1, place))

    def values(self) -> Values:
        """All values as Python numbers, by step and row: faster than single reads."""
        blocks = [block.tolist() for block in self._blocks]
        return [blocks[block][place] for block, place in self._places]

    def at(self, step: int, row: int) -> Tensor:
        """The record of a row of a step."""
        block, place = self._places[step]
        return self._blocks[block][place, row]


@dataclass
class Record:
    """Every step of a search.

    `parents`, `tokens` and `log_probabilities` belong to the rows after the step; `attention`, `attended` and
    `candidates` to the rows before it.
    """

    parents: Steps = field(default_factory=Steps)  # rows of the step, (N,)
    tokens: Steps = field(default_factory=Steps)  # (N,)
    log_probabilities: Steps = field(default_factory=Steps)  # (N,)
    attention: dict[Kind, Steps] = field(default_factory=dict)  # (N, layers, heads, 1, S) each
    attended: Steps = field(default_factory=Steps)  # (N,)
    candidates: Steps = field(default_factory=Steps)  # ids (N, C)
    probabilities: Steps = field(default_factory=Steps)  # (N, C)

    def add_attention(self, attention: Attention) -> None:
        """Record the attention weights of a step."""
        for kind, weights in attention.items():
            self.attention.setdefault(kind, Steps()).append(weights)

    def add_rows(self, parents: Tensor, tokens: Tensor, log_probabilities: Tensor) -> None:
        """Record the rows (N,) after a step."""
        self.parents.append(parents)
        self.tokens.append(tokens)
        self.log_probabilities.append(log_probabilities)

    def read(
        self, endings: Sequence[Sequence[Ending]], memory: Memory, model: Model, alpha: float
    ) -> list[list[Hypothesis]]:
        """The hypotheses of these endings, by sentence of the whole batch; `memory` is that of the whole batch."""
        past = self.parents.values(), self.tokens.values(), self.log_probabilities.values()
        return [
            [self._read(ending, past, sentence, memory, model, alpha) for ending in ends]
            for sentence, ends in enumerate(endings)
        ]

    def _read(
        self,
        ending: Ending,
        past: tuple[Values, Values, Values],
        sentence: int,
        memory: Memory,
        model: Model,
        alpha: float,
    ) -> Hypothesis:
        parent_of, token_of, log_probability_of = past
        row = ending.row
        rows, ids, log_probabilities = [row], [ending.token], [ending.log_probability]
        for step in reversed(range(ending.step)):
            ids.append(token_of[step][row])
            log_probabilities.append(log_probability_of[step][row])
            row = parent_of[step][row]
            rows.append(row)
        rows.reverse()
        log_probabilities.reverse()
        total = math.fsum(log_probabilities)
        attention = self._attention(rows, sentence, memory)
        return Hypothesis(
            ids=tuple(reversed(ids)),
            log_probability=total,
            score=total / length_penalty(float(len(ids)), alpha) + ending.coverage_penalty,
            finished=ending.finished,
            token_log_probabilities=tuple(log_probabilities),
            attention=attention,
            alignment=_alignment(model, attention),
            attended=self._attended(rows),
            candidates=self._candidates(rows),
        )

    def _attention(self, rows: Sequence[int], sentence: int, memory: Memory) -> Attention | None:
        if not self.attention:
            return None
        length = int(memory.lengths[sentence])
        joined: dict[Kind, Tensor] = {
            kind: weights[sentence, ..., :length, :length].clone() for kind, weights in memory.attention.items()
        }
        for kind, steps in self.attention.items():
            own = [steps.at(step, row) for step, row in enumerate(rows)]
            joined[kind] = _stack(own, length if kind == "cross" else len(rows))
        return joined

    def _attended(self, rows: Sequence[int]) -> tuple[int, ...] | None:
        if not len(self.attended):
            return None
        return tuple(int(self.attended.at(step, row)) for step, row in enumerate(rows))

    def _candidates(self, rows: Sequence[int]) -> tuple[tuple[tuple[int, float], ...], ...]:
        if not len(self.candidates):
            return ()
        return tuple(
            tuple(
                zip(
                    self.candidates.at(step, row).tolist(),
                    self.probabilities.at(step, row).tolist(),
                    strict=True,
                )
            )
            for step, row in enumerate(rows)
        )


def _stack(steps: Sequence[Tensor], width: int) -> Tensor:
    """Stack rows (layers, heads, 1, S_t) to (layers, heads, T, width); decoder self-attention is padded with 0."""
    first = steps[0]
    stacked = first.new_zeros(*first.shape[:2], len(steps), width)
    for number, weights in enumerate(steps):
        columns = min(width, weights.size(-1))
        stacked[:, :, number, :columns] = weights[:, :, 0, :columns]
    return stacked


def _alignment(model: Model, attention: Attention | None) -> Tensor | None:
    if attention is None or "cross" not in attention:
        return None
    return model.alignment({kind: torch.unsqueeze(weights, 0) for kind, weights in attention.items()})[0]
