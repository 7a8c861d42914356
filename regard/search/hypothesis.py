"""What a search finds, and the record from which it is put together at the end.

A search writes down, for every step, the token and the parent of each row. Nothing else is copied when beams
are reordered or sentences leave the batch: a hypothesis is read backwards from its last token, along its parents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.contract import Attention, Kind, Memory, Model
from regard.search.penalties import length_penalty


@dataclass(frozen=True)
class Hypothesis:
    """One translation of a sentence, in token ids, and what the model thought of it."""

    ids: tuple[int, ...]  # without BOS; ends with EOS unless it was cut at the greatest length
    log_probability: float  # the sum of the tokens'
    score: float  # penalised for length and coverage; what n-best lists are sorted by
    finished: bool
    token_log_probabilities: tuple[float, ...]
    attention: Attention | None = None  # by kind, (layers, heads, T, S), S without padding
    alignment: Tensor | None = None  # (T, S)
    attended: tuple[int, ...] | None = None  # the source position most attended to by each token, EOS left aside
    candidates: tuple[tuple[tuple[int, float], ...], ...] = ()  # by step, the likeliest ids and their probability


@dataclass(frozen=True)
class Ending:
    """The last token of a hypothesis: from it the others are found."""

    step: int
    row: int  # the row that read the token before, at that step
    token: int
    log_probability: float
    score: float
    finished: bool
    coverage_penalty: float = 0.0


@dataclass(frozen=True)
class Seen:
    """What was recorded while the rows of one step were computed."""

    attention: Attention | None = None  # (N, layers, heads, 1, S)
    attended: Tensor | None = None  # (N,)
    candidates: tuple[Tensor, Tensor] | None = None  # ids (N, C) and probabilities (N, C)


@dataclass
class Record:
    """Every step of a search; `parents[t]` are rows of step t, `tokens[t]` what followed there."""

    seen: list[Seen] = field(default_factory=list)
    parents: list[Tensor] = field(default_factory=list)
    tokens: list[Tensor] = field(default_factory=list)
    log_probabilities: list[Tensor] = field(default_factory=list)

    def add(self, parents: Tensor, tokens: Tensor, log_probabilities: Tensor) -> None:
        """Write down the rows (M,) that go on after a step."""
        self.parents.append(parents)
        self.tokens.append(tokens)
        self.log_probabilities.append(log_probabilities)

    def read(
        self, endings: Sequence[Ending], sentence: int, memory: Memory, model: Model, alpha: float
    ) -> list[Hypothesis]:
        """The hypotheses of one sentence, whose row in the whole batch's memory is given."""
        return [self._read(ending, sentence, memory, model, alpha) for ending in endings]

    def _read(self, ending: Ending, sentence: int, memory: Memory, model: Model, alpha: float) -> Hypothesis:
        row = ending.row
        rows, ids, log_probabilities = [row], [ending.token], [ending.log_probability]
        for step in reversed(range(ending.step)):
            ids.append(int(self.tokens[step][row]))
            log_probabilities.append(float(self.log_probabilities[step][row]))
            row = int(self.parents[step][row])
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
        steps = [seen.attention for seen in self.seen[: len(rows)]]
        recorded = [attention for attention in steps if attention]
        if len(recorded) < len(rows):
            return None
        length = int(memory.lengths[sentence])
        joined: dict[Kind, Tensor] = {
            kind: weights[sentence, ..., :length, :length].clone() for kind, weights in memory.attention.items()
        }
        for kind in recorded[0]:
            of_kind = [attention[kind][row] for attention, row in zip(recorded, rows, strict=True)]
            joined[kind] = _stack(of_kind, length if kind == "cross" else len(rows))
        return joined

    def _attended(self, rows: Sequence[int]) -> tuple[int, ...] | None:
        steps = [seen.attended for seen in self.seen[: len(rows)]]
        recorded = [attended for attended in steps if attended is not None]
        if len(recorded) < len(rows):
            return None
        return tuple(int(attended[row]) for attended, row in zip(recorded, rows, strict=True))

    def _candidates(self, rows: Sequence[int]) -> tuple[tuple[tuple[int, float], ...], ...]:
        lists = []
        for seen, row in zip(self.seen, rows, strict=False):
            if seen.candidates is None:
                return ()
            ids, probabilities = seen.candidates
            lists.append(tuple(zip(ids[row].tolist(), probabilities[row].tolist(), strict=True)))
        return tuple(lists)


def _stack(steps: Sequence[Tensor], width: int) -> Tensor:
    """Rows (layers, heads, 1, S_t) as one (layers, heads, T, width); a decoder's own grow by one each step."""
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
