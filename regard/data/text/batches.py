"""Batches of sentence pairs of similar length, bounded by tokens.

A plan depends only on (seed, epoch) and the corpus, so a resumed training sees the same batches. Pairs are sorted by
target length with some noise and cut into strips. Each strip is sorted by source length, alternately ascending and
descending, and the result is cut into batches. Both sides of a batch then have similar lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.config.vocabulary import BOS, PAD
from regard.data.text.corpus import EncodedCorpus, Ids
from regard.models.contract import NOWHERE, Batch

NOISE = 1.0  # maximum noise on lengths while sorting, in tokens: batches differ between epochs

Lengths = npt.NDArray[np.int32]


class BatchPlan:
    """The batches of each epoch."""

    def __init__(
        self,
        corpus: EncodedCorpus,
        *,
        batch_tokens: int,
        batch_sentences: int | None = None,
        seed: int,
        shuffle: bool = True,
        guide: Ids | None = None,
    ) -> None:
        self.corpus = corpus
        self.batch_tokens = batch_tokens
        self.batch_sentences = batch_sentences
        self.seed = seed
        self.shuffle = shuffle
        self.guide = guide  # aligned source position of each target token of the corpus, or NOWHERE

    def epoch(self, number: int) -> list[npt.NDArray[np.int64]]:
        """The pair indices of each batch; neither side exceeds `batch_tokens` tokens, padding included.

        A longer pair gets its own batch. Without shuffling, batches are sorted from short to long.
        """
        generator = np.random.Generator(np.random.PCG64([self.seed, number])) if self.shuffle else None
        source, target = self.corpus.source_lengths, self.corpus.target_lengths
        if generator is None or self.corpus.weights is None:
            return plan_batches(source, target, self.batch_tokens, self.batch_sentences, generator)
        drawn = draw(self.corpus.parts, self.corpus.weights, generator)
        batches = plan_batches(source[drawn], target[drawn], self.batch_tokens, self.batch_sentences, generator)
        return [drawn[batch] for batch in batches]

    def batch(self, indices: npt.NDArray[np.int64]) -> Batch:
        """The tensors of these pairs."""
        offsets = self.corpus.target.offsets
        source, source_mask = gather(self.corpus.source.ids, self.corpus.source.offsets, indices)
        target, target_mask = gather(self.corpus.target.ids, offsets, indices)
        batch = _batch(source, source_mask, target, target_mask, tuple(int(index) for index in indices))
        return batch if self.guide is None else replace(batch, guide=gather(self.guide, offsets, indices, NOWHERE)[0])


def draw(parts: Sequence[int], weights: Sequence[float], generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """As many pair indices as there are pairs, from each part in proportion to its weight.

    Each pair of a part occurs equally often, and the remainder is drawn without replacement.
    """
    ends = np.cumsum(parts)
    shares = np.cumsum(weights) / sum(weights)
    counts = np.diff(np.rint(shares * ends[-1]).astype(np.int64), prepend=0)
    drawn = []
    for end, size, count in zip(ends.tolist(), parts, counts.tolist(), strict=True):
        whole, rest = divmod(count, size)
        drawn += [np.tile(np.arange(end - size, end), whole)]
        drawn += [np.sort(end - size + generator.choice(size, rest, replace=False, shuffle=False))]
    return np.concatenate(drawn)


def plan_batches(
    source_lengths: Lengths,
    target_lengths: Lengths,
    batch_tokens: int,
    batch_sentences: int | None = None,
    generator: np.random.Generator | None = None,
) -> list[npt.NDArray[np.int64]]:
    """The pair indices of each batch; shuffled if a generator is given."""
    longer = np.maximum(source_lengths, target_lengths)
    batches = max(1, int(longer.sum(dtype=np.int64)) // batch_tokens)
    order = _order(source_lengths, target_lengths, batches, generator)
    bounds = _cut(longer[order], batch_tokens, batch_sentences or len(order))
    cut = np.split(order, bounds[1:-1])
    if generator is None:
        return cut
    return [cut[place] for place in generator.permutation(len(cut))]


def _order(
    source_lengths: Lengths, target_lengths: Lengths, batches: int, generator: np.random.Generator | None
) -> npt.NDArray[np.int64]:
    """All pair indices, sorted so that neighbours have similar lengths on both sides."""
    count = len(source_lengths)
    source, target = source_lengths.astype(np.float32), target_lengths.astype(np.float32)
    if generator is not None:
        # a fraction of a token shuffles pairs of equal length; more also mixes neighbouring lengths
        source += generator.random(count, dtype=np.float32) * NOISE
        target += generator.random(count, dtype=np.float32) * NOISE
    rank = np.empty(count, np.int64)
    rank[np.argsort(target, kind="stable")] = np.arange(count)
    strips = max(1, min(count, round(2 * batches**0.5)))  # 2 minimises padding for log-normal lengths
    strip = rank * strips // count
    downwards = strip % 2 == 1
    return np.lexsort((np.where(downwards, -source, source), strip))


def _cut(longer: Lengths, batch_tokens: int, batch_sentences: int) -> list[int]:
    """Batch boundaries in the sorted pairs, 0 and the end included; `longer` is the longer side of each pair."""
    bounds = [0]
    while bounds[-1] < len(longer):
        begin = bounds[-1]
        most = max(1, min(batch_sentences, batch_tokens // max(1, int(longer[begin]))))
        padded = np.maximum.accumulate(longer[begin : begin + most]).astype(np.int64)
        padded *= np.arange(1, len(padded) + 1)
        bounds.append(begin + max(1, int(np.searchsorted(padded, batch_tokens, side="right"))))
    return bounds


# --- tensors ------------------------------------------------------------------------------------------------------


def collate(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Batch:
    """A batch of token ids; each sentence ends with EOS."""
    source, source_mask = source_batch(sources)
    target, target_mask = source_batch(targets)
    return _batch(source, source_mask, target, target_mask, ())


def source_batch(sentences: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Token ids (B, S), padded, and their mask (B, S)."""
    longest = max((len(sentence) for sentence in sentences), default=0)
    ids = torch.full((len(sentences), longest), PAD, dtype=torch.long)
    mask = torch.zeros(len(sentences), longest, dtype=torch.bool)
    for row, sentence in enumerate(sentences):
        ids[row, : len(sentence)] = torch.as_tensor(sentence, dtype=torch.long)
        mask[row, : len(sentence)] = True
    return ids, mask


def gather(
    flat: Ids, offsets: npt.NDArray[np.int64], indices: npt.NDArray[np.int64], padding: int = PAD
) -> tuple[Tensor, Tensor]:
    """The sentences `indices` of a side, (B, S) and mask (B, S), in one read of the memory-mapped file."""
    starts = np.asarray(offsets[indices])
    lengths = np.asarray(offsets[indices + 1]) - starts
    column = np.arange(lengths.max())
    mask = column < lengths[:, None]  # (B, S)
    ids = np.full(mask.shape, padding, np.int64)
    ids[mask] = flat[(starts[:, None] + column)[mask]]
    return torch.from_numpy(ids), torch.from_numpy(mask)


def _batch(source: Tensor, source_mask: Tensor, target: Tensor, target_mask: Tensor, indices: tuple[int, ...]) -> Batch:
    first = torch.full((target.size(0), 1), BOS, dtype=torch.long)
    target_in = torch.cat([first, target[:, :-1]], 1).masked_fill(~target_mask, PAD)  # (B, T)
    return Batch(source, source_mask, target_in, target, target_mask, indices)
