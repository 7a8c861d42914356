"""The step loop shared by every search: run the model one step for the sentences that are not done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.config.settings import SearchSettings
from regard.config.vocabulary import BOS, EOS, PAD
from regard.decoding.constraints import constrain, limits_of
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.penalties import coverage_penalty
from regard.decoding.record import Ending, Record
from regard.decoding.top_k import best
from regard.decoding.tree import BeamTree
from regard.errors import ContractError
from regard.models.contract import Model
from regard.nn.attention.intervention import Intervention
from regard.nn.attention.memory import Memory
from regard.nn.attention.trace import Attention

SHRINK_SHARE = 8  # done sentences are removed once they are 1/8 of the batch, since removal copies the memory


@dataclass(frozen=True)
class Request:
    """Options of a search."""

    settings: SearchSettings
    bos: int = BOS
    eos: int = EOS
    pad: int = PAD
    unk: int | None = None  # None: do not record the source position attended to by each <unk>
    prefix: Tensor | None = None  # (B, P), padded
    attention: bool = False
    candidates: int = 0
    intervention: Intervention | None = None
    indices: Sequence[int] = ()  # sentence numbers, which seed sampling
    tree: BeamTree | None = None  # records the beam search of the one sentence
    columns: Tensor | None = None  # (C,) shortlist: the token ids to score, sorted, special tokens first


class Decoding:
    """The batch of unfinished sentences; B shrinks, N = B · rows per sentence.

    With a shortlist, V is the number of its columns, and tokens are column indices until the hypotheses are read.
    """

    def __init__(self, model: Model, source: Tensor, source_mask: Tensor | None, request: Request) -> None:
        self.model = model
        self.request = request
        self.all_memory = model.encode(
            source, source_mask, attention=request.attention, intervention=request.intervention
        )
        self.memory: Memory = self.all_memory
        self.state = model.start(self.memory)
        device = self.memory.mask.device
        self.sentence = torch.arange(self.memory.sentences, device=device)  # (B,) rows of the whole batch
        self.token = torch.full((self.memory.sentences,), request.bos, device=device)  # (N,)
        self.columns = request.columns
        self.limits = limits_of(self.memory.lengths, request.settings, self._places(request.prefix), request.pad)
        self._project = model.projection(self.columns)
        self.position = 0
        self.record = Record()
        self.coverage: Tensor | None = None  # (N, S) summed attention of each source position, if coverage is penalised
        self._history = self.token.new_zeros(self.token.size(0), 0)  # (N, T), for n-gram blocking only

    def widen(self, rows: int) -> None:
        """Set the number of rows per sentence, before the first step."""
        index = torch.arange(self.memory.sentences, device=self.token.device).repeat_interleave(rows)
        self.state = self.state.select(index)
        self.token = self.token.index_select(0, index)
        self._history = self._history.index_select(0, index)

    def step(self) -> Tensor:
        """Run the model one step: log-probabilities (N, V), -inf for forbidden tokens."""
        request, settings = self.request, self.request.settings
        step = self.model.step(
            self.token if self.columns is None else self.columns[self.token],
            self.state,
            self.memory,
            attention=request.attention or settings.coverage_penalty > 0 or request.unk is not None,
            intervention=request.intervention,
        )
        self.state = step.state
        logits = self._project(step.hidden)
        if logits.dtype in (torch.float16, torch.bfloat16):
            logits = logits.float()
        scores = logits.log_softmax(-1)
        if bool(scores[:, 0].isnan().any()):  # one NaN or inf makes the whole softmax NaN
            raise ContractError(
                f"{type(self.model).__name__} gives logits that are not finite at step {self.position}: "
                "its weights are damaged or its training diverged; take an earlier checkpoint."
            )
        self._record(step.attention, scores)
        if settings.coverage_penalty > 0:
            alignment = self.model.alignment(step.attention)[:, 0]
            self.coverage = alignment if self.coverage is None else self.coverage + alignment
        never = [request.pad, request.bos]
        constrain(scores, self.position, self.limits, self._history, settings.no_repeat_ngram, never, request.eos)
        return scores

    def coverage_penalty(self, sentence: Tensor, row: Tensor) -> Tensor:
        """GNMT's coverage penalty of hypotheses (M,), given their sentences and rows."""
        if self.coverage is None:
            return torch.zeros(row.size(0), device=row.device)
        beta = self.request.settings.coverage_penalty
        return coverage_penalty(self.coverage[row], self.memory.mask[sentence], beta)

    def advance(self, parents: Tensor, tokens: Tensor, log_probabilities: Tensor, done: Tensor) -> Tensor | None:
        """Continue with rows `parents` (N,) and their tokens; removes sentences that are `done` (B,) from time to time.

        Returns the index of the remaining sentences if some were removed, else None.
        """
        stay = None
        count = int(done.sum())
        if count and (count * SHRINK_SHARE >= done.size(0)):
            stay = (~done).nonzero().squeeze(1)
            rows = tokens.size(0) // done.size(0)
            kept = (stay.unsqueeze(1) * rows + torch.arange(rows, device=stay.device)).flatten()
            parents, tokens = parents.index_select(0, kept), tokens.index_select(0, kept)
            log_probabilities = log_probabilities.index_select(0, kept)
            self.memory = self.memory.select(stay)
            self.limits = self.limits.select(stay)
            self.sentence = self.sentence.index_select(0, stay)
        self.state = self.state.select(parents)
        if self.coverage is not None:
            self.coverage = self.coverage.index_select(0, parents)
        if self.request.settings.no_repeat_ngram:
            self._history = torch.cat([self._history.index_select(0, parents), tokens.unsqueeze(1)], 1)
        self.token = tokens
        self.position += 1
        self.record.add_rows(parents, tokens, log_probabilities)
        return stay

    def hypotheses(self, endings: Sequence[Sequence[Ending]]) -> list[list[Hypothesis]]:
        """The hypotheses of these endings, by sentence of the whole batch."""
        alpha = self.request.settings.length_penalty
        return [self._named(found) for found in self.record.read(endings, self.all_memory, self.model, alpha)]

    def _places(self, tokens: Tensor | None) -> Tensor | None:
        """Column indices of tokens."""
        if tokens is None or self.columns is None:
            return tokens
        return torch.searchsorted(self.columns, tokens)

    def _named(self, hypotheses: list[Hypothesis]) -> list[Hypothesis]:
        """Hypotheses with token ids instead of column indices."""
        if self.columns is None:
            return hypotheses
        token = self.columns.tolist()
        return [
            replace(
                each,
                ids=tuple(token[place] for place in each.ids),
                candidates=tuple(tuple((token[place], share) for place, share in step) for step in each.candidates),
            )
            for each in hypotheses
        ]

    def _record(self, attention: Attention | None, scores: Tensor) -> None:
        """Record attention and candidates as requested."""
        request = self.request
        if request.attention and attention:
            self.record.add_attention(attention)
        if request.unk is not None and attention and "cross" in attention:
            self.record.attended.append(self._attended(self.model.alignment(attention)[:, 0]))
        if request.candidates:
            most_probable, ids = best(scores, min(request.candidates, scores.size(-1)))
            self.record.candidates.append(ids)
            self.record.probabilities.append(most_probable.exp())

    def _attended(self, alignment: Tensor) -> Tensor:
        """The most attended source position (N,), EOS excluded."""
        rows = alignment.size(0) // self.memory.sentences
        last = (self.memory.lengths - 1).repeat_interleave(rows).unsqueeze(1)
        return alignment.scatter(1, last, -1.0).argmax(-1)
