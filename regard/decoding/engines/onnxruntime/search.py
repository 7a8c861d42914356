"""Greedy and beam search over compiled decoder steps, in numpy: the searches of `greedy.py` and `beam.py`.

A step gives the k best tokens of each row. PAD and BOS are never allowed, EOS not before the minimum length: k is three
more than a search needs.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from regard.config.settings import SearchSettings
from regard.config.vocabulary import BOS, EOS, PAD
from regard.decoding.engines.onnxruntime.steps import Array, Steps
from regard.decoding.hypothesis import Hypothesis, StreamedToken
from regard.decoding.penalties import COVERAGE_FLOOR, length_penalty

FORBIDDEN = 3  # PAD, BOS, EOS
SHRINK_SHARE = 8  # done sentences are removed once they are 1/8 of the batch, since removal copies the memory


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


@dataclass(frozen=True)
class Request:
    """Options of a search."""

    settings: SearchSettings
    columns: Array | None = None  # (C,) shortlist: tokens are indices into it until hypotheses are read
    unk: int | None = None  # record the most attended source position of each token

    @property
    def width(self) -> int:
        """Number of best tokens that the search needs of each row."""
        return (self.settings.beam + 1 if self.settings.beam > 1 else 1) + FORBIDDEN


class Limits:
    """Length bounds (B,) in tokens with EOS."""

    def __init__(self, lengths: Array, settings: SearchSettings) -> None:
        counted = lengths.astype(np.float32)
        self.maximum: Array = (np.float32(settings.max_length_ratio) * counted).astype(np.int64)
        self.maximum += settings.max_length_extra
        shortest = (np.float32(settings.min_length_ratio) * counted).astype(np.int64)
        self.minimum: Array = np.minimum(shortest, self.maximum)
        self._soonest = int(self.maximum.min())
        self._latest = int(self.minimum.max())

    def keep(self, stay: Array) -> None:
        """Go on with the sentences `stay`."""
        self.maximum, self.minimum = self.maximum[stay], self.minimum[stay]

    def cut(self, position: int) -> Array | None:
        """Mask (B,) of the sentences that have their maximum length; None: no sentence."""
        return self.maximum <= position if position >= self._soonest else None

    def forbid(self, best: Array, token: Array, position: int) -> None:
        """Set the log-probabilities of forbidden tokens (N, k) to minus infinity, in place."""
        special = token <= EOS
        if not special.any():
            return
        best[(token == PAD) | (token == BOS)] = -np.inf
        if position < self._latest:
            rows = len(token) // len(self.minimum)
            short = np.repeat(self.minimum > position, rows)
            best[short[:, None] & (token == EOS)] = -np.inf


@dataclass
class Record:
    """Tokens, parents and log-probabilities of the rows after each step, and what the rows before it attended to."""

    parents: list[Array] = field(default_factory=list)
    tokens: list[Array] = field(default_factory=list)
    log_probabilities: list[Array] = field(default_factory=list)
    attended: list[Array] = field(default_factory=list)

    def read(self, endings: list[list[Ending]], request: Request) -> list[list[Hypothesis]]:
        """The hypotheses of these endings, by sentence."""
        past = [[array.tolist() for array in part] for part in (self.parents, self.tokens, self.log_probabilities)]
        names = None if request.columns is None else request.columns.tolist()
        alpha = request.settings.length_penalty
        return [[self._read(end, past, names, alpha) for end in ends] for ends in endings]

    def _read(self, ending: Ending, past: list[list[list[float]]], names: list[int] | None, alpha: float) -> Hypothesis:
        parent_of, token_of, log_probability_of = past
        row = ending.row
        rows, ids, log_probabilities = [row], [ending.token], [ending.log_probability]
        for step in reversed(range(ending.step)):
            ids.append(int(token_of[step][row]))
            log_probabilities.append(log_probability_of[step][row])
            row = int(parent_of[step][row])
            rows.append(row)
        rows.reverse()
        ids.reverse()
        log_probabilities.reverse()
        total = math.fsum(log_probabilities)
        attended = tuple(int(self.attended[step][at]) for step, at in enumerate(rows)) if self.attended else None
        return Hypothesis(
            ids=tuple(ids if names is None else [names[place] for place in ids]),
            log_probability=total,
            score=total / length_penalty(float(len(ids)), alpha) + ending.coverage_penalty,
            finished=ending.finished,
            token_log_probabilities=tuple(log_probabilities),
            attended=attended,
        )


class Search:
    """The batch of unfinished sentences: what greedy and beam search share."""

    def __init__(self, steps: Steps, request: Request) -> None:
        self.steps = steps
        self.request = request
        self.limits = Limits(steps.lengths, request.settings)
        self.sentence = np.arange(len(steps.lengths))  # (B,) of the whole batch
        self.token = np.full(len(self.sentence), BOS, dtype=np.int64)  # (N,)
        self.parent = self.sentence
        self.record = Record()
        self._coverage: Array | None = None  # (N, S), if coverage is penalised

    def step(self) -> tuple[Array, Array]:
        """The best log-probabilities and tokens (N, k), -inf if forbidden."""
        best, token = self.steps.step(self.token, self.parent)
        self.limits.forbid(best, token, self.steps.position)
        if self.request.settings.coverage_penalty:
            seen = self.steps.alignment
            self._coverage = seen.copy() if self._coverage is None else self._coverage[self.parent] + seen
        if self.request.unk is not None and self.steps.aligns:
            rows = len(token) // len(self.sentence)
            alignment = self.steps.alignment.copy()
            alignment[np.arange(len(alignment)), np.repeat(self.steps.lengths - 1, rows)] = -1.0  # not EOS
            self.record.attended.append(alignment.argmax(-1))
        return best, token

    def coverage_penalty(self, sentence: int, row: int) -> float:
        """GNMT's coverage penalty of a hypothesis."""
        if self._coverage is None:
            return 0.0
        real = self._coverage[row, : self.steps.lengths[sentence]]
        penalty = np.log(real.clip(COVERAGE_FLOOR, 1.0)).sum()
        return self.request.settings.coverage_penalty * float(penalty)

    def advance(self, parent: Array, token: Array, log_probability: Array, done: Array) -> Array | None:
        """Continue the rows `parent` (B, R) with their tokens; removes sentences that are `done` from time to time.

        Returns the index of the remaining sentences if some were removed, else None.
        """
        stay = None
        count = np.count_nonzero(done)
        if count and count * SHRINK_SHARE >= len(done):
            stay = np.flatnonzero(~done)
            parent, token, log_probability = parent[stay], token[stay], log_probability[stay]
            self.sentence = self.sentence[stay]
            self.limits.keep(stay)
            if len(stay):
                self.steps.keep(stay)
        self.parent, self.token = parent.ravel(), token.ravel()
        self.record.parents.append(self.parent)
        self.record.tokens.append(self.token)
        self.record.log_probabilities.append(log_probability.ravel())
        return stay


def search(steps: Steps, request: Request) -> list[list[Hypothesis]]:
    """The n-best list of each sentence."""
    run = Search(steps, request)
    return greedy_search(run) if request.settings.beam == 1 else beam_search(run)


# --- greedy ----------------------------------------------------------------------------------------------------------


def greedy_search(run: Search) -> list[list[Hypothesis]]:
    """One hypothesis per sentence."""
    endings: list[list[Ending]] = [[] for _ in run.sentence]
    done = np.zeros(len(run.sentence), dtype=bool)
    while len(run.sentence):
        token, chosen = _most_probable(*run.step())
        ended = token == EOS
        cut = run.limits.cut(run.steps.position)
        last = (ended if cut is None else ended | cut) & ~done
        for row in np.flatnonzero(last).tolist():
            penalty = run.coverage_penalty(row, row)
            ending = Ending(
                run.steps.position - 1, row, int(token[row]), float(chosen[row]), 0.0, bool(ended[row]), penalty
            )
            endings[int(run.sentence[row])].append(ending)
        done = done | last
        stay = run.advance(np.arange(len(token)), token, chosen, done)
        if stay is not None:
            done = done[stay]
    return run.record.read(endings, run.request)


def _most_probable(best: Array, token: Array) -> tuple[Array, Array]:
    """The most probable token (N,) of each row that is allowed, and its log-probability."""
    chosen = best[:, 0]
    if (chosen == -np.inf).any():  # forbidden: the next one
        place = best.argmax(1)
        every = np.arange(len(place))
        return token[every, place], best[every, place]
    return token[:, 0].copy(), chosen.copy()


def stream(steps: Steps, request: Request) -> Iterator[StreamedToken]:
    """The tokens of one sentence by greedy search."""
    run, total, ended = Search(steps, request), 0.0, False
    going = np.zeros(1, dtype=bool)
    while not ended:
        token, chosen = _most_probable(*run.step())
        position = steps.position
        ended = bool(token[0] == EOS) or run.limits.cut(position) is not None
        total += float(chosen[0])
        penalty = run.coverage_penalty(0, 0)
        run.advance(np.zeros(1, dtype=np.int64), token, chosen, going)
        yield StreamedToken(
            id=int(token[0] if request.columns is None else request.columns[token[0]]),
            log_probability=float(chosen[0]),
            score=total / length_penalty(float(position), request.settings.length_penalty) + penalty,
            ended=ended,
            attended=int(run.record.attended[-1][0]) if run.record.attended else None,
        )


# --- beam ------------------------------------------------------------------------------------------------------------


class Pool:
    """The finished hypotheses of each sentence of the batch, best first."""

    def __init__(self, run: Search) -> None:
        self._run = run
        self._n_best = run.request.settings.n_best
        self.endings: list[list[Ending]] = [[] for _ in run.sentence]
        self.counts = np.zeros(len(run.sentence), dtype=np.int64)  # (B,)
        self.thresholds = np.full(len(run.sentence), -np.inf)  # (B,) the score to beat for a place in the n-best list

    def finish(self, which: Array, ranked: Ranked, *, finished: bool) -> None:
        """Add the continuations `which` (B, C), except those of probability 0."""
        run = self._run
        step = run.steps.position - 1
        penalty = length_penalty(float(step + 1), run.request.settings.length_penalty)
        sentences, places = np.nonzero(which & (ranked.total > -np.inf))
        for sentence, place in zip(sentences.tolist(), places.tolist(), strict=True):
            row = int(ranked.parent[sentence, place])
            coverage = run.coverage_penalty(sentence, row)
            ending = Ending(
                step,
                row,
                int(ranked.token[sentence, place]),
                float(ranked.log_probability[sentence, place]),
                float(ranked.total[sentence, place]) / penalty + coverage,
                finished,
                coverage,
            )
            ends = self.endings[int(run.sentence[sentence])]
            insort(ends, ending, key=lambda end: (not end.finished, -end.score))
            self.counts[sentence] = len(ends)
            if len(ends) >= self._n_best:
                self.thresholds[sentence] = ends[self._n_best - 1].score

    def keep(self, stay: Array) -> None:
        """Go on with the sentences `stay`."""
        self.counts, self.thresholds = self.counts[stay], self.thresholds[stay]


@dataclass(frozen=True)
class Ranked:
    """The best continuations of each sentence, best first, (B, C) each."""

    parent: Array  # row in this step
    token: Array
    log_probability: Array  # of the token
    total: Array  # of the hypothesis

    def first(self, count: int) -> Ranked:
        """The first continuations of each sentence."""
        return Ranked(
            self.parent[:, :count], self.token[:, :count], self.log_probability[:, :count], self.total[:, :count]
        )

    def pick(self, index: Array) -> Ranked:
        """The continuations `index` (B, M) of each sentence."""
        row = np.arange(len(index))[:, None]
        return Ranked(
            self.parent[row, index], self.token[row, index], self.log_probability[row, index], self.total[row, index]
        )


def beam_search(run: Search) -> list[list[Hypothesis]]:
    """The n-best list of each sentence; see `beam.py`."""
    settings = run.request.settings
    beam, alpha = settings.beam, settings.length_penalty
    pool = Pool(run)
    total = np.zeros((len(run.sentence), 1), dtype=np.float32)  # (B, R)
    done = np.zeros(len(run.sentence), dtype=bool)
    penalty = length_penalty(run.limits.maximum.astype(np.float32), alpha)  # (B,) at the maximum length
    while len(run.sentence):
        ranked = rank(*run.step(), total, 2 * beam)
        ends = ranked.token == EOS
        if ends.any():
            leading = ends.copy()
            leading[:, beam:] = False
            pool.finish(leading & ~done[:, None], ranked, finished=True)
            order = ends.argsort(axis=1, kind="stable")[:, :beam]  # continuations without EOS first
            live = ranked.pick(order)
            live.total[np.take_along_axis(ends, order, 1)] = -np.inf
        else:
            live = ranked.first(beam)
        cut = run.limits.cut(run.steps.position)
        if cut is not None:
            missing = np.arange(live.token.shape[1]) < (settings.n_best - pool.counts)[:, None]
            pool.finish(missing & (cut & ~done)[:, None], live, finished=False)
            done = done | cut
        done = done | (pool.counts >= beam) | (live.total[:, 0] / penalty <= pool.thresholds)
        total = live.total
        stay = run.advance(live.parent, live.token, live.log_probability, done)
        if stay is not None:
            total, done, penalty = total[stay], done[stay], penalty[stay]
            pool.keep(stay)
    found = run.record.read([ends[: settings.n_best] for ends in pool.endings], run.request)
    # scores are now summed in float64, which may reorder near ties
    return [sorted(hypotheses, key=lambda each: (not each.finished, -each.score)) for hypotheses in found]


def rank(best: Array, token: Array, total: Array, count: int) -> Ranked:
    """The `count` best continuations of hypotheses with log-probabilities `total` (B, R), from tokens (N, k)."""
    sentences, rows = total.shape
    width = best.shape[1]
    candidate = (total.reshape(-1, 1) + best).reshape(sentences, rows * width)
    order = (-candidate).argsort(axis=1, kind="stable")[:, :count]
    flat = order + (np.arange(sentences) * (rows * width))[:, None]
    return Ranked(flat // width, token.ravel()[flat], best.ravel()[flat], candidate.ravel()[flat])
