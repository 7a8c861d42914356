"""Which target pieces a source piece is translated by: IBM model 1 (Brown et al. 1993), over the training text.

    t(f | e) ∝ Σ over the pairs of  t(f | e) / Σⱼ t(f | eⱼ)

for a source piece e and a target piece f that stand in one sentence pair. The table of all pairs of pieces is dense,
V_source · V_target numbers, so this is for vocabularies of pieces (8,000 and 8,000: 256 MB), not for those of words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

ITERATIONS = 4
CHUNK = 4_000_000  # links held at once: some 100 MB


def translation_table(
    pairs: Sequence[tuple[Tensor, Tensor]], source_size: int, target_size: int, iterations: int = ITERATIONS
) -> Tensor:
    """t(f | e) as (V_source, V_target), from ids (S,) and (T,) of each pair; rows of unseen pieces are 0."""
    table = torch.zeros(source_size * target_size)
    for links, _ in _links(pairs, target_size):
        table[links] = 1.0  # uniform over what was ever seen together
    for _ in range(iterations):
        counts = torch.zeros_like(table)
        for links, words in _links(pairs, target_size):
            weight = table[links]
            total = torch.zeros(int(words[-1]) + 1).index_add_(0, words, weight)
            counts.index_add_(0, links, weight / total[words])
        square = counts.view(source_size, target_size)
        square /= square.sum(1, keepdim=True).clamp(min=1e-12)
        table = counts
    return table.view(source_size, target_size)


def _links(pairs: Iterable[tuple[Tensor, Tensor]], target_size: int) -> Iterable[tuple[Tensor, Tensor]]:
    """Every pair of positions of every sentence pair, as places in the table and as numbers of the target word."""
    places: list[Tensor] = []
    words: list[Tensor] = []
    held = word = 0
    for source, target in pairs:
        places.append((source.long().unsqueeze(0) * target_size + target.long().unsqueeze(1)).flatten())
        words.append(torch.arange(word, word + len(target)).repeat_interleave(len(source)))
        word += len(target)
        held += len(places[-1])
        if held >= CHUNK:
            yield torch.cat(places), torch.cat(words)
            places, words, held, word = [], [], 0, 0
    if places:
        yield torch.cat(places), torch.cat(words)
