"""Which source piece each target piece comes from, found in the text alone: the hidden Markov model of words.

Vogel et al. 1996, with the empty word of Och and Ney 2003. For a source e of S pieces and a target f,

    p(f, a | e) = Πⱼ p(aⱼ | aⱼ₋₁, S) · t(fⱼ | e at aⱼ)

where a jump from i to k has the probability c(k - i) / Σₘ c(m - i), mixed with a few that go anywhere alike. A target
piece comes from nothing with probability EMPTY, and the next one jumps from where the last real one stood. t and c are
learned by expectation and maximisation; in the first rounds all jumps are alike, which is IBM model 1 (Brown et al.
1993), whose t alone serves for `regard.decoding.shortlist`. The table of t is dense, V_source · V_target numbers:
for vocabularies of pieces (8,000 and 8,000: 256 MB), not for those of words.

A pair is aligned by two models, one of each direction; a link is what both believe (Liang et al. 2006).
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
from regard.data.text.tokenizer import Tokenizer
from regard.errors import ConfigError
from regard.models.contract import NOWHERE

EMPTY = 0.2  # of the target pieces come from nothing
ANYWHERE = 0.1  # of the jumps know no distance
LEAST = 1e-9  # a probability that no piece falls below
RARE_JUMP = 1e-6
BELIEVED = 0.04  # the least product of both directions' probabilities of a link
MODEL_1_ROUNDS = 4
ROUNDS = 4
MOST_PAIRS = 100_000  # that are learned from; the others are aligned by what was learned
MOST_TABLE = 2**28  # numbers in a table: a gigabyte, twice
CELLS = 400_000  # source · target places of the pairs that are aligned together
HELD = 40_000_000  # probabilities held at once: 160 MB
PIECES = 8000  # of each language, for text that has none yet
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
    """The word links (source word, target word) of each pair, words being white-space tokens and counted from 0.

    `train` is more text to learn from. `pieces` of each language are learned; words are linked if pieces of them are.
    A pair with a blank side, or with more than MOST_PIECES pieces on one, has no links.
    """
    asked = list(pairs)
    text = [*asked, *train]
    found: list[Links] = [frozenset()] * len(asked)
    if not any(source.strip() and target.strip() for source, target in text):
        return found
    settings = TextSettings(vocabulary_size=pieces)
    tokenizers = [Tokenizer.train((pair[side] for pair in text), settings) for side in (0, 1)]
    encoded = [tokenizer.encode_many([pair[side] for pair in text]) for side, tokenizer in enumerate(tokenizers)]
    used = [number for number, sides in enumerate(zip(*encoded, strict=True)) if _can_be_aligned(*sides)]
    if not used:
        return found
    source, target = (EncodedSide.of([side[number] for number in used]) for side in encoded)
    guide = align(source, target, tokenizers[0].size, tokenizers[1].size, on_progress)
    for place, number in enumerate(used):
        if number < len(asked):
            words = [
                [token.word for token in tokenizer.tokens(line)]
                for tokenizer, line in zip(tokenizers, asked[number], strict=True)
            ]
            links = enumerate(guide[target.offsets[place] : target.offsets[place + 1]].tolist())
            joined = {(words[0][i], words[1][j]) for j, i in links if i != NOWHERE}
            found[number] = frozenset((i, j) for i, j in joined if i is not None and j is not None)
    return found


def _can_be_aligned(source: Sequence[int], target: Sequence[int]) -> bool:
    return min(len(source), len(target)) > 1 and max(len(source), len(target)) <= MOST_PIECES


def align(
    source: EncodedSide,
    target: EncodedSide,
    source_size: int,
    target_size: int,
    on_progress: Report = lambda share: None,
) -> npt.NDArray[np.int32]:
    """For each target token of a corpus the source position that it comes from, or NOWHERE if none is believed.

    Positions count from 0 in the pair's own source. The tokens that end sentences have none. `on_progress` hears what
    share of the work is done.
    """
    check_sizes(source_size, target_size, "to align words")
    count = len(source.lengths)
    sample = np.arange(count) if count <= MOST_PAIRS else np.linspace(0, count - 1, MOST_PAIRS).astype(np.int64)
    passes = 2 * (MODEL_1_ROUNDS + ROUNDS) * len(sample) + 2 * count  # pairs looked at
    done = 0

    def note(pairs: int) -> None:
        nonlocal done
        done += pairs
        on_progress(done / passes)

    forward = learn(source, target, source_size, target_size, sample, on_progress=note)
    backward = learn(target, source, target_size, source_size, sample, on_progress=note)
    guide = np.full(len(target.ids), NOWHERE, np.int32)
    cells = np.cumsum(source.lengths.astype(np.int64) * target.lengths)
    end = 0
    while end < count:
        start = end
        before = int(cells[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(cells, before + HELD, side="right")))
        chosen = np.arange(start, end)
        there = dict(_probabilities(forward, source, target, chosen))
        note(len(chosen))
        for index, back in _probabilities(backward, target, source, chosen):
            if index not in there:  # a source without pieces
                continue
            agreed = there[index] * back.T  # (T, S)
            best = agreed.argmax(1)
            believed = np.take_along_axis(agreed, best[:, None], 1)[:, 0] >= BELIEVED
            place = int(target.offsets[index])
            guide[place : place + len(best)] = np.where(believed, best, NOWHERE)
        note(len(chosen))
    return guide


def check_sizes(source_size: int, target_size: int, purpose: str) -> None:
    """Refuse vocabularies whose table would not fit."""
    if source_size * target_size > MOST_TABLE:
        raise ConfigError(
            f"vocabularies of {source_size:,} and {target_size:,} pieces are too many {purpose}, which needs "
            f"{MOST_TABLE:,} pairs of them at most: train with a smaller text.vocabulary_size."
        )


@dataclass(frozen=True)
class Hmm:
    """A model of one direction, from the pieces of one side to those of the other."""

    table: Tensor  # (V_first + 1, V_second): t(second | first), and in the last row t(second | nothing)
    jumps: Tensor | None = None  # (2 · reach + 1,): c(-reach) … c(reach); None: all alike, IBM model 1

    def jump(self, length: int) -> Tensor:
        """Probabilities (length, length) of a jump from a row's place to a column's, without those that go anywhere."""
        assert self.jumps is not None
        weights = self.jumps[_distances(length) + len(self.jumps) // 2]
        return weights / weights.sum(1, keepdim=True) * (1 - ANYWHERE)


@dataclass(frozen=True)
class Expected:
    """What a model expects of some pairs whose first sides are of one length S; T is the longest second side."""

    links: Tensor  # (B, T, S) probability of each link
    nothing: Tensor  # (B, T) of coming from nothing
    jumps: Tensor | None  # (S, S) how many jumps went from a row's place to a column's
    log_likelihood: float


def expect(model: Hmm, first: Tensor, second: Tensor, mask: Tensor) -> Expected:
    """Forwards and backwards over the pieces first (B, S) and second (B, T), of which mask (B, T) are real."""
    length, steps = first.size(1), second.size(1)
    real = model.table[first.unsqueeze(1), second.unsqueeze(2)] * (1 - EMPTY)  # (B, T, S)
    empty = (model.table[-1][second] * EMPTY).unsqueeze(2)  # (B, T, 1)
    if model.jumps is None:  # then each piece stands for itself
        alone = real / length
        scale = alone.sum(2, keepdim=True) + empty
        likelihood = scale.squeeze(2).log()[mask].sum(dtype=torch.float64)
        inside = mask.unsqueeze(2)
        return Expected(alone / scale * inside, (empty / scale * inside).squeeze(2), None, float(likelihood))
    by_distance = model.jump(length)
    jump = by_distance + ANYWHERE / length
    # Two states for each place: its piece was said, or nothing was since.
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
    links, nothing = torch.empty_like(real), torch.empty_like(mask, dtype=real.dtype)
    jumps = torch.zeros_like(jump)
    for step in reversed(range(steps)):
        inside = mask[:, step].unsqueeze(1)
        links[:, step] = said[step] * ahead
        nothing[:, step] = (unsaid[step] * ahead).sum(1)
        if step:
            onward = real[:, step] * ahead / scales[step]
            jumps += ((said[step - 1] + unsaid[step - 1]) * inside).T @ onward * by_distance
            ahead = torch.where(inside, onward @ jump.T + empty[:, step] * ahead / scales[step], ones)
    likelihood = torch.cat(scales, 1).log()[mask].sum(dtype=torch.float64)
    return Expected(links * mask.unsqueeze(2), nothing * mask, jumps, float(likelihood))


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
    """The model that explains the second sides of these pairs by the first ones; `on_progress` hears of pairs read."""
    model = Hmm(torch.full((first_size + 1, second_size), 1 / second_size))
    reach = int(first.lengths[indices].max())
    for number in range(1, model_1_rounds + rounds + 1):
        counts = torch.zeros((first_size + 1) * second_size)
        jumps = torch.zeros(2 * reach + 1)
        for chosen, here, there, mask in _batches(first, second, indices):
            expected = expect(model, here, there, mask)
            places = here.unsqueeze(1) * second_size + there.unsqueeze(2)
            counts.index_add_(0, places.flatten(), expected.links.flatten())
            counts.index_add_(0, (first_size * second_size + there).flatten(), expected.nothing.flatten())
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
    """The number of each pair and the probabilities (T, S) of its links."""
    for chosen, here, there, mask in _batches(first, second, indices):
        links = expect(model, here, there, mask).links.numpy()
        for row, (index, length) in enumerate(zip(chosen.tolist(), mask.sum(1).tolist(), strict=True)):
            yield index, links[row, :length]


def _batches(
    first: EncodedSide, second: EncodedSide, indices: Indices
) -> Iterator[tuple[Indices, Tensor, Tensor, Tensor]]:
    """Pairs whose first sides have one length, without the tokens that end sentences; and the second sides' masks."""
    lengths, others = first.lengths[indices], second.lengths[indices]
    order = np.lexsort((others, lengths))
    begin = 0
    while begin < len(order):
        length = int(lengths[order[begin]])
        most = int(np.searchsorted(lengths[order], length, side="right")) - begin
        cells = np.arange(1, most + 1) * length * others[order[begin : begin + most]].astype(np.int64)
        end = begin + max(1, int(np.searchsorted(cells, CELLS, side="right")))
        chosen = indices[order[begin:end]]
        begin = end
        here, _ = gather(first.ids, first.offsets, chosen)
        there, mask = gather(second.ids, second.offsets, chosen)
        if length > 1 and there.size(1) > 1:
            yield chosen, here[:, :-1], there[:, :-1], mask[:, 1:]


def _distances(length: int) -> Tensor:
    places = torch.arange(length)
    return places.unsqueeze(0) - places.unsqueeze(1)
