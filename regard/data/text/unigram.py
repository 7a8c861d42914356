"""A deterministic trainer for unigram pieces (Kudo 2018, "Subword regularization", section 3.2).

The likelihood of a text is the product of its pieces' probabilities. Training starts from many candidate pieces and
alternates two steps until the vocabulary has its size: estimate the probabilities from the best segmentation of every
chunk, and prune the pieces whose removal reduces the likelihood least. Single characters are never pruned.

Differences from the paper: candidates are BPE pieces instead of all frequent substrings, and EM counts only the best
segmentation (hard EM). The unigram trainer of `tokenizers` sums in hash order, so its vocabularies vary between runs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from tokenizers import Tokenizer, models

SHRINK = 0.75  # share of the pieces kept in each round
NEVER_SEEN = 0.01  # pseudo-count of required characters that no segmentation uses


def train_unigram(chunks: Mapping[str, int], candidates: Sequence[str], size: int) -> list[tuple[str, float]]:
    """At most `size` pairs (piece, log-probability), most probable first, for chunks of text with their counts."""
    ordered = sorted(chunks)
    required = [piece for piece in candidates if len(piece) == 1]
    pieces = list(candidates)
    counts = _first_counts(chunks, pieces)
    while True:
        for _ in range(2):
            counts = _segment(ordered, chunks, _scores(counts, pieces))
        if len(pieces) <= size:
            break
        keep = max(size, int(len(pieces) * SHRINK))
        pieces = _prune(counts, pieces, required, keep)
    scores = _scores(counts, pieces)
    return sorted(scores.items(), key=lambda entry: (-entry[1], entry[0]))


def _first_counts(chunks: Mapping[str, int], pieces: Sequence[str]) -> Counter[str]:
    """The number of occurrences of each piece in the chunks."""
    wanted = set(pieces)
    longest = max(map(len, pieces))
    counts: Counter[str] = Counter()
    for chunk, count in chunks.items():
        for start in range(len(chunk)):
            for end in range(start + 1, min(len(chunk), start + longest) + 1):
                if chunk[start:end] in wanted:
                    counts[chunk[start:end]] += count
    return counts


def _scores(counts: Mapping[str, int], pieces: Sequence[str]) -> dict[str, float]:
    """Log-probabilities, rounded for a compact file."""
    total = math.log(sum(counts.values()) or 1)
    return {piece: round(math.log(counts.get(piece, 0) or NEVER_SEEN) - total, 6) for piece in pieces}


def _segment(ordered: Sequence[str], chunks: Mapping[str, int], scores: Mapping[str, float]) -> Counter[str]:
    """The count of each piece in the best segmentations of all chunks."""
    names = list(scores)
    model = Tokenizer(models.Unigram([("<unk>", 0.0), *((name, scores[name]) for name in names)], 0, False))
    counts: Counter[str] = Counter()
    for begin in range(0, len(ordered), 10_000):
        part = ordered[begin : begin + 10_000]
        for chunk, encoding in zip(part, model.encode_batch_fast(list(part)), strict=True):
            for number in encoding.ids:
                if number:
                    counts[names[number - 1]] += chunks[chunk]
    return counts


def _prune(counts: Mapping[str, int], pieces: Sequence[str], required: Sequence[str], keep: int) -> list[str]:
    """Keep `keep` pieces with the highest loss: count times the drop in log-probability without the piece."""
    scores = _scores(counts, pieces)
    characters = set(required)

    def loss(piece: str) -> float:
        spelt = _best_split(piece, scores)
        return counts.get(piece, 0) * (scores[piece] - spelt)

    losses = {piece: loss(piece) for piece in pieces if piece not in characters}
    best = sorted(losses, key=lambda piece: (-losses[piece], piece))[: max(0, keep - len(characters))]
    kept = characters.union(best)
    return [piece for piece in pieces if piece in kept]


def _best_split(piece: str, scores: Mapping[str, float]) -> float:
    """The log-probability of the best segmentation of a piece into other pieces."""
    best = [0.0] + [-math.inf] * len(piece)
    for end in range(1, len(piece) + 1):
        for start in range(end):
            part = piece[start:end]
            if part != piece and part in scores:
                best[end] = max(best[end], best[start] + scores[part])
    return best[-1]
