"""Unsupervised alignment of source and target pieces: the HMM word alignment model.

Vogel et al. 1996, with the NULL word of Och and Ney 2003. For a source e of S pieces and a target f,

    p(f, a | e) = Πⱼ p(aⱼ | aⱼ₋₁, S) · t(fⱼ | e at aⱼ)

where a jump from i to k has the probability c(k - i) / Σₘ c(m - i), interpolated with a uniform distribution. A target
piece aligns to NULL with probability NULL_PROBABILITY; the next jump starts at the last aligned position. EM estimates
t and c. The first rounds use uniform jumps: IBM model 1 (Brown et al. 1993). Its t is also the lexical table of
`regard.decoding.shortlist`. The table of t is dense, V_source · V_target numbers (8,000 x 8,000: 256 MB): suited to
subword vocabularies, too large for word vocabularies.

Each direction has its own model. A link needs a high product of both posteriors (Liang et al. 2006).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.config.settings import TextSettings
from regard.data.text.batches import gather
from regard.data.text.corpus import EncodedSide
from regard.data.text.pieces import SAMPLED_LINES
from regard.data.text.sources import as_pair, sample_pairs
from regard.data.text.texts import Corpus, Text
from regard.data.text.tokenizer import Tokenizer
from regard.errors import ConfigError
from regard.models.contract import NOWHERE

NULL_PROBABILITY = 0.2  # prior probability of aligning to NULL
UNIFORM_JUMP = 0.1  # weight of the uniform jump distribution
LEAST = 1e-9  # floor of t
RARE_JUMP = 1e-6
MIN_AGREEMENT = 0.04  # minimum product of both directions' posteriors for a link
MODEL_1_ROUNDS = 4
ROUNDS = 4
MOST_PAIRS = 100_000  # training sample; further pairs are only aligned
MOST_TABLE = 2**28  # entries of one table: 1 GB for each direction
MAX_BATCH_CELLS = 400_000  # source · target positions in a batch
MAX_HELD = 40_000_000  # posteriors in memory at once: 160 MB
PIECES = 8000  # default vocabulary size of each language
MOST_PIECES = 500

Indices = npt.NDArray[np.int64]
Links = frozenset[tuple[int, int]]
Report = Callable[[float], None]


def align_text(
    pairs: Iterable[tuple[str, str]],
    train: Iterable[tuple[str, str]] = (),
    *,
    pieces: int = PIECES,
    on_progress: Report = lambda share: None,
) -> list[Links]:
    """The word links (source word, target word) of each pair; words are white-space tokens, numbered from 0.

    `train` is additional training text. `pieces` is the vocabulary size of each language. Two words are linked if any
    of their pieces are. A pair with a blank side, or with more than MOST_PIECES pieces on one side, has no links.
    """
    given = [[as_pair(pair) for pair in text] for text in (pairs, train)]
    text = Text(tuple(Corpus("pairs from Python", lambda part=part: part) for part in given))  # type: ignore[misc]
    return list(align_corpus(text, pieces=pieces, on_progress=on_progress))


def align_corpus(text: Text, *, pieces: int = PIECES, on_progress: Report = lambda share: None) -> Iterator[Links]:
    """The word links of each pair of the first corpus, block by block; the others are additional training text.

    Memory is bounded: the tokenizers learn from SAMPLED_LINES lines and the models from MOST_PAIRS pairs. While the
    second direction is learned, three tables of `pieces`² numbers are held.
    """
    asked = text.corpora[0]
    aligner = _learn_aligner(text, pieces, Share(text.size, asked.size, on_progress))
    for block in asked.blocks():
        yield from aligner.links(*block.lines())


class Share:
    """Tells what share of all passes over pairs is done: the rounds of both models, and the alignment."""

    def __init__(self, learned: int, aligned: int, on_progress: Report) -> None:
        self._passes = 2 * (MODEL_1_ROUNDS + ROUNDS) * min(learned, MOST_PAIRS) + 2 * aligned
        self._on_progress = on_progress
        self._done = 0

    def __call__(self, pairs: int) -> None:
        """So many pairs more."""
        self._done += pairs
        self._on_progress(min(1.0, self._done / self._passes))


def _learn_aligner(text: Text, pieces: int, note: Share) -> _Aligner:
    settings = TextSettings(vocabulary_size=pieces)
    sample = sample_pairs(text, SAMPLED_LINES)
    if not any(map(_can_be_aligned, *sample)):
        return _Aligner(None, note)
    tokenizers = Tokenizer.train(sample[0], settings), Tokenizer.train(sample[1], settings)
    check_sizes(tokenizers[0].size, tokenizers[1].size, "to align words")
    chosen = spaced(len(sample[0]), MOST_PAIRS).tolist()
    lines = [side if len(chosen) == len(side) else [side[place] for place in chosen] for side in sample]
    _, sides = _encode(tokenizers, lines)
    if not len(sides[0].lengths):
        return _Aligner(None, note)
    everything = np.arange(len(sides[0].lengths))
    sizes = tokenizers[0].size, tokenizers[1].size
    forward = learn(*sides, *sizes, everything, on_progress=note)
    backward = learn(*sides[::-1], *sizes[::-1], everything, on_progress=note)
    return _Aligner((tokenizers, forward, backward), note)


@dataclass(frozen=True)
class _Aligner:
    """Aligns the words of pairs; without models, which text without words does not give, there are no links."""

    learned: tuple[tuple[Tokenizer, Tokenizer], Hmm, Hmm] | None
    note: Share

    def links(self, sources: list[str], targets: list[str]) -> list[Links]:
        """The word links of each pair."""
        found: list[Links] = [frozenset()] * len(sources)
        if self.learned is None:
            return found
        tokenizers, forward, backward = self.learned
        used, sides = _encode(tokenizers, (sources, targets))
        guide = _agreed(forward, backward, *sides, self.note)
        for place, number in enumerate(used):
            words = [
                [token.word for token in tokenizer.tokens(lines[number])]
                for tokenizer, lines in zip(tokenizers, (sources, targets), strict=True)
            ]
            offsets = sides[1].offsets
            links = enumerate(guide[offsets[place] : offsets[place + 1]].tolist())
            joined = {(words[0][i], words[1][j]) for j, i in links if i != NOWHERE}
            found[number] = frozenset((i, j) for i, j in joined if i is not None and j is not None)
        return found


def _encode(
    tokenizers: Sequence[Tokenizer], lines: Sequence[list[str]]
) -> tuple[list[int], tuple[EncodedSide, EncodedSide]]:
    """The pairs that can be aligned, and their ids."""
    encoded = [tokenizer.encode_many(side) for tokenizer, side in zip(tokenizers, lines, strict=True)]
    sizes = zip(*(map(len, side) for side in encoded), strict=True)
    used = [number for number, both in enumerate(sizes) if min(both) > 1 and max(both) <= MOST_PIECES]
    sides = [EncodedSide.of([side[number] for number in used]) for side in encoded]
    return used, (sides[0], sides[1])


def _can_be_aligned(source: str, target: str) -> bool:
    return not (not source or source.isspace() or not target or target.isspace())


def spaced(count: int, most: int) -> Indices:
    """At most `most` indices, evenly spaced."""
    return np.arange(count) if count <= most else np.linspace(0, count - 1, most).astype(np.int64)


def align(
    source: EncodedSide,
    target: EncodedSide,
    source_size: int,
    target_size: int,
    on_progress: Report = lambda share: None,
) -> npt.NDArray[np.int32]:
    """The source position aligned to each target token of a corpus, or NOWHERE.

    Positions count from 0 within each sentence. EOS is never aligned. `on_progress` receives the completed fraction.
    """
    check_sizes(source_size, target_size, "to align words")
    count = len(source.lengths)
    sample, note = spaced(count, MOST_PAIRS), Share(count, count, on_progress)
    forward = learn(source, target, source_size, target_size, sample, on_progress=note)
    backward = learn(target, source, target_size, source_size, sample, on_progress=note)
    return _agreed(forward, backward, source, target, note)


def _agreed(
    forward: Hmm, backward: Hmm, source: EncodedSide, target: EncodedSide, note: Share
) -> npt.NDArray[np.int32]:
    """The links on which both directions agree."""
    count = len(source.lengths)
    guide = np.full(len(target.ids), NOWHERE, np.int32)
    cells = np.cumsum(source.lengths.astype(np.int64) * target.lengths)
    end = 0
    while end < count:
        start = end
        before = int(cells[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(cells, before + MAX_HELD, side="right")))
        chosen = np.arange(start, end)
        there = dict(_probabilities(forward, source, target, chosen))
        note(len(chosen))
        for index, back in _probabilities(backward, target, source, chosen):
            if index not in there:  # an empty source
                continue
            agreed = there[index] * back.T  # (T, S)
            best = agreed.argmax(1)
            believed = np.take_along_axis(agreed, best[:, None], 1)[:, 0] >= MIN_AGREEMENT
            place = int(target.offsets[index])
            guide[place : place + len(best)] = np.where(believed, best, NOWHERE)
        note(len(chosen))
    return guide


def check_sizes(source_size: int, target_size: int, purpose: str) -> None:
    """Raise if the table of two vocabularies would exceed MOST_TABLE."""
    if source_size * target_size > MOST_TABLE:
        raise ConfigError(
            f"vocabularies of {source_size:,} and {target_size:,} subwords are too large {purpose}: the table is "
            f"limited to {MOST_TABLE:,} pairs of subwords. Train with a smaller text.vocabulary_size."
        )


@dataclass(frozen=True)
class Hmm:
    """The alignment model of one direction."""

    table: Tensor  # (V_first + 1, V_second): t(second | first); the last row is t(second | NULL)
    jumps: Tensor | None = None  # (2 · reach + 1,): c(-reach) … c(reach); None: uniform, IBM model 1

    def jump(self, length: int) -> Tensor:
        """Jump probabilities (length, length) from row to column, without the uniform part."""
        assert self.jumps is not None
        weights = self.jumps[_distances(length) + len(self.jumps) // 2]
        return weights / weights.sum(1, keepdim=True) * (1 - UNIFORM_JUMP)


@dataclass(frozen=True)
class Expected:
    """Posteriors and expected counts of a batch; all first sides have length S, the longest second side has T."""

    links: Tensor  # (B, T, S) posterior of each link
    null: Tensor  # (B, T) posterior of NULL
    jumps: Tensor | None  # (S, S) expected number of jumps from row to column
    log_likelihood: float


def expect(model: Hmm, first: Tensor, second: Tensor, mask: Tensor) -> Expected:
    """The E step, by the forward-backward algorithm: first (B, S), second (B, T), mask (B, T) of second."""
    length, steps = first.size(1), second.size(1)
    real = model.table[first.unsqueeze(1), second.unsqueeze(2)] * (1 - NULL_PROBABILITY)  # (B, T, S)
    empty = (model.table[-1][second] * NULL_PROBABILITY).unsqueeze(2)  # (B, T, 1)
    if model.jumps is None:  # IBM model 1: target pieces are independent
        alone = real / length
        scale = alone.sum(2, keepdim=True) + empty
        likelihood = scale.squeeze(2).log()[mask].sum(dtype=torch.float64)
        inside = mask.unsqueeze(2)
        return Expected(alone / scale * inside, (empty / scale * inside).squeeze(2), None, float(likelihood))
    by_distance = model.jump(length)
    jump = by_distance + UNIFORM_JUMP / length
    # Two states for each position: aligned to it, or aligned to NULL since then.
    said, unsaid, scales = [], [], []
    arrived = stood = first.new_full(first.shape, 1 / length, dtype=real.dtype)
    for step in range(steps):
        here, still = real[:, step] * arrived, empty[:, step] * stood
        scale = (here + still).sum(1, keepdim=True)
        said.append(here / scale)
        unsaid.append(still / scale)
        scales.append(scale)
        stood = said[-1] + unsaid[-1]
        arrived = stood @ jump
    ones = torch.ones_like(stood)
    ahead = ones
    links, null = torch.empty_like(real), torch.empty_like(mask, dtype=real.dtype)
    jumps = torch.zeros_like(jump)
    for step in reversed(range(steps)):
        inside = mask[:, step].unsqueeze(1)
        links[:, step] = said[step] * ahead
        null[:, step] = (unsaid[step] * ahead).sum(1)
        if step:
            onward = real[:, step] * ahead / scales[step]
            jumps += ((said[step - 1] + unsaid[step - 1]) * inside).T @ onward * by_distance
            ahead = torch.where(inside, onward @ jump.T + empty[:, step] * ahead / scales[step], ones)
    likelihood = torch.cat(scales, 1).log()[mask].sum(dtype=torch.float64)
    return Expected(links * mask.unsqueeze(2), null * mask, jumps, float(likelihood))


def learn(
    first: EncodedSide,
    second: EncodedSide,
    first_size: int,
    second_size: int,
    indices: Indices,
    *,
    model_1_rounds: int = MODEL_1_ROUNDS,
    rounds: int = ROUNDS,
    on_progress: Callable[[int], None] = lambda pairs: None,
) -> Hmm:
    """Train p(second | first) by EM on the pairs `indices`; `on_progress` receives the size of each batch."""
    model = Hmm(torch.full((first_size + 1, second_size), 1 / second_size))
    reach = int(first.lengths[indices].max())
    for number in range(1, model_1_rounds + rounds + 1):
        counts = torch.zeros((first_size + 1) * second_size)
        jumps = torch.zeros(2 * reach + 1)
        for chosen, here, there, mask in _batches(first, second, indices):
            expected = expect(model, here, there, mask)
            places = here.unsqueeze(1) * second_size + there.unsqueeze(2)
            counts.index_add_(0, places.flatten(), expected.links.flatten())
            counts.index_add_(0, (first_size * second_size + there).flatten(), expected.null.flatten())
            if expected.jumps is not None:
                jumps.index_add_(0, (_distances(here.size(1)) + reach).flatten(), expected.jumps.flatten())
            on_progress(len(chosen))
        table = counts.view(first_size + 1, second_size)
        table /= table.sum(1, keepdim=True).clamp(min=LEAST)
        if number < model_1_rounds or not rounds:
            model = Hmm(table.clamp_(min=LEAST))
        elif number == model_1_rounds:
            model = Hmm(table.clamp_(min=LEAST), torch.ones_like(jumps))
        else:
            model = Hmm(table.clamp_(min=LEAST), jumps / jumps.sum().clamp(min=LEAST) + RARE_JUMP)
    return model


def _probabilities(
    model: Hmm, first: EncodedSide, second: EncodedSide, indices: Indices
) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
    """The index and the link posteriors (T, S) of each pair."""
    for chosen, here, there, mask in _batches(first, second, indices):
        links = expect(model, here, there, mask).links.numpy()
        for row, (index, length) in enumerate(zip(chosen.tolist(), mask.sum(1).tolist(), strict=True)):
            yield index, links[row, :length]


def _batches(
    first: EncodedSide, second: EncodedSide, indices: Indices
) -> Iterator[tuple[Indices, Tensor, Tensor, Tensor]]:
    """Batches with first sides of equal length: pair indices, first, second and the mask of second, without EOS."""
    lengths, others = first.lengths[indices], second.lengths[indices]
    order = np.lexsort((others, lengths))
    begin = 0
    while begin < len(order):
        length = int(lengths[order[begin]])
        most = int(np.searchsorted(lengths[order], length, side="right")) - begin
        cells = np.arange(1, most + 1) * length * others[order[begin : begin + most]].astype(np.int64)
        end = begin + max(1, int(np.searchsorted(cells, MAX_BATCH_CELLS, side="right")))
        chosen = indices[order[begin:end]]
        begin = end
        here, _ = gather(first.ids, first.offsets, chosen)
        there, mask = gather(second.ids, second.offsets, chosen)
        if length > 1 and there.size(1) > 1:
            yield chosen, here[:, :-1], there[:, :-1], mask[:, 1:]


def _distances(length: int) -> Tensor:
    places = torch.arange(length)
    return places.unsqueeze(0) - places.unsqueeze(1)
