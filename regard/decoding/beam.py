"""Beam search, batched over sentences, for any model.

At each step every live hypothesis of a sentence proposes its most probable continuations. Among all of them

* those with EOS among the `beam` best are finished and ranked by GNMT's score;
* the `beam` best without EOS stay live.

A sentence is done when one of these holds:

* `beam` hypotheses have finished;
* no live hypothesis can still enter the n-best list. L / lp(maximum length) is its upper bound: the log-probability L
  only falls, lp only rises with the length, and the coverage penalty is never positive;
* the maximum length is reached. Live hypotheses then fill the n-best list, marked as not finished.

Ties keep the previous order. A beam of 1 is greedy search.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decoding.decoding import Decoding
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.penalties import length_penalty
from regard.decoding.record import Ending
from regard.decoding.top_k import best
from regard.decoding.tree import BeamTree, NodeState


@dataclass(frozen=True)
class Ranked:
    """The best continuations of each sentence, best first, (B, C) each."""

    parent: Tensor  # row in this step
    token: Tensor
    log_probability: Tensor  # of the token
    total: Tensor  # of the hypothesis

    def pick(self, index: Tensor) -> Ranked:
        """The continuations `index` (B, M) of each sentence."""
        parts = (self.parent, self.token, self.log_probability, self.total)
        return Ranked(*(part.gather(1, index) for part in parts))


class Pool:
    """The finished hypotheses of each sentence of the batch, best first."""

    def __init__(self, sentences: int, n_best: int) -> None:
        self.n_best = n_best
        self.endings: list[list[Ending]] = [[] for _ in range(sentences)]

    def add(self, sentence: int, ending: Ending) -> None:
        """Insert a hypothesis: finished ones first, then by score, then by time."""
        insort(self.endings[sentence], ending, key=lambda end: (not end.finished, -end.score))

    def counts(self, sentences: Sequence[int]) -> list[int]:
        """Number of finished hypotheses."""
        return [len(self.endings[sentence]) for sentence in sentences]

    def thresholds(self, sentences: Sequence[int]) -> list[float]:
        """The score to beat for a place in the n-best list."""
        nth = self.n_best - 1
        kept = (self.endings[sentence] for sentence in sentences)
        return [ends[nth].score if len(ends) > nth else -torch.inf for ends in kept]


def beam_search(decoding: Decoding) -> list[list[Hypothesis]]:
    """The n-best list of each sentence."""
    settings, eos = decoding.request.settings, decoding.request.eos
    pool = Pool(decoding.memory.sentences, settings.n_best)
    total = torch.zeros(decoding.memory.sentences, 1, device=decoding.token.device)  # (B, R) log-probabilities
    done = torch.zeros(decoding.memory.sentences, dtype=torch.bool, device=total.device)
    while decoding.memory.sentences:
        ranked = rank(decoding.step(), total, settings.beam)
        ends = ranked.token == eos
        leading = torch.arange(ends.size(1), device=ends.device) < settings.beam
        _finish(pool, decoding, ranked, ends & leading & ~done.unsqueeze(1), finished=True)
        order = ends.long().argsort(dim=-1, stable=True)[:, : settings.beam]  # continuations without EOS first
        live = _survivors(ranked, ends, order)
        if decoding.request.tree is not None:
            _note(decoding.request.tree, decoding, ranked, ends[0], order[0])
        cut = (decoding.limits.maximum <= decoding.position + 1) & ~done
        if bool(cut.any()):
            _finish(pool, decoding, live, _missing(pool, decoding, live) & cut.unsqueeze(1), finished=False)
        done = done | cut | _decided(pool, decoding, live.total[:, 0])
        stay = decoding.advance(live.parent.flatten(), live.token.flatten(), live.log_probability.flatten(), done)
        total = live.total
        if stay is not None:
            total, done = total.index_select(0, stay), done.index_select(0, stay)
    found = decoding.hypotheses([ends[: settings.n_best] for ends in pool.endings])
    # scores are now summed in float64, which may reorder near ties
    return [sorted(hypotheses, key=lambda each: (not each.finished, -each.score)) for hypotheses in found]


def rank(scores: Tensor, total: Tensor, beam: int) -> Ranked:
    """The 2 · beam best continuations of hypotheses with log-probabilities `total` (B, R), given `scores` (N, V).

    Only one token of a row is EOS, so its best `beam + 1` tokens contain `beam` without EOS.
    """
    sentences, rows = total.shape
    log_probability, token = best(scores, min(beam + 1, scores.size(1)))  # (N, W)
    width = token.size(1)
    candidate = (total.view(-1, 1) + log_probability).view(sentences, rows * width)
    ordered, order = candidate.sort(dim=-1, descending=True, stable=True)
    order = order[:, : 2 * beam]
    first_row = torch.arange(sentences, device=total.device).unsqueeze(1) * rows
    return Ranked(
        parent=first_row + order.div(width, rounding_mode="floor"),
        token=token.view(sentences, -1).gather(1, order),
        log_probability=log_probability.view(sentences, -1).gather(1, order),
        total=ordered[:, : 2 * beam],
    )


def _survivors(ranked: Ranked, ends: Tensor, order: Tensor) -> Ranked:
    """The continuations `order` (B, beam); those with EOS become dead rows (total -inf)."""
    live = ranked.pick(order)
    dead = ends.gather(1, order)
    return Ranked(live.parent, live.token, live.log_probability, live.total.masked_fill(dead, -torch.inf))


def _note(tree: BeamTree, decoding: Decoding, ranked: Ranked, ends: Tensor, order: Tensor) -> None:
    """Add the continuations (C,) of the one sentence to its tree: kept, pruned or finished."""
    settings = decoding.request.settings
    living = set(order.tolist())
    state: list[NodeState] = []
    for place, end in enumerate(ends.tolist()):
        stays = place < settings.beam if end else place in living
        state.append(("finished" if end else "kept") if stays else "pruned")
    penalty = length_penalty(float(decoding.position + 1), settings.length_penalty)
    tree.grow(decoding.position, ranked.parent[0], ranked.token[0], ranked.total[0], penalty, state)


def _missing(pool: Pool, decoding: Decoding, live: Ranked) -> Tensor:
    """Mask (B, R) of the live hypotheses needed to fill the n-best list."""
    counts = torch.tensor(pool.counts(decoding.sentence.tolist()), device=live.token.device)
    place = torch.arange(live.token.size(1), device=live.token.device)
    return place < (pool.n_best - counts).unsqueeze(1)


def _finish(pool: Pool, decoding: Decoding, ranked: Ranked, which: Tensor, *, finished: bool) -> None:
    """Add the continuations `which` (B, C) to the pool, except those of probability 0."""
    sentence, place = (which & ranked.total.isfinite()).nonzero(as_tuple=True)
    if sentence.numel() == 0:
        return
    row = ranked.parent[sentence, place]
    alpha = decoding.request.settings.length_penalty
    score = ranked.total[sentence, place] / length_penalty(float(decoding.position + 1), alpha)
    penalty = decoding.coverage_penalty(sentence, row)
    columns = (
        decoding.sentence[sentence].tolist(),
        row.tolist(),
        ranked.token[sentence, place].tolist(),
        ranked.log_probability[sentence, place].tolist(),
        (score + penalty).tolist(),
        penalty.tolist(),
    )
    for number, at_row, token, log_probability, its_score, its_penalty in zip(*columns, strict=True):
        ending = Ending(
            decoding.position, at_row, token, log_probability, its_score, finished, coverage_penalty=its_penalty
        )
        pool.add(number, ending)


def _decided(pool: Pool, decoding: Decoding, best_live: Tensor) -> Tensor:
    """Mask (B,) of the sentences that need no further step."""
    settings = decoding.request.settings
    sentences = decoding.sentence.tolist()
    counts = torch.tensor(pool.counts(sentences), device=best_live.device)
    thresholds = torch.tensor(pool.thresholds(sentences), device=best_live.device)
    bound = best_live / length_penalty(decoding.limits.maximum.to(best_live.dtype), settings.length_penalty)
    return (counts >= settings.beam) | (bound <= thresholds)
