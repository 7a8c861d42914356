"""Fast top-k of wide rows, for every step of a search.

torch's `topk` and `argmax` scan a row number by number. Here a row is folded to columns, and the column maxima are
computed with SIMD, eight numbers at a time. Only the columns with the k largest maxima can hold the top k.
"""

from __future__ import annotations

import torch
from torch import Tensor

COLUMNS = 128  # columns of a folded row: a multiple of the SIMD width
MIN_ROWS = 16  # minimum rows after folding; with fewer there is no gain
MIN_ELEMENTS = 2**17  # minimum elements for which folding pays
MAX_K = 16  # maximum k; with more, too many columns hold one of the top k


def best(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest values of each row (N, V), sorted, and their indices; both (N, count)."""
    rows, total = scores.shape
    depth = total // COLUMNS
    if depth < MIN_ROWS or count > MAX_K or scores.numel() < MIN_ELEMENTS:
        return _largest(scores, count)
    folded = scores[:, : depth * COLUMNS].view(rows, depth, COLUMNS)  # a view
    column = _largest(folded.amax(1), count)[1].unsqueeze(1)  # (N, 1, count)
    above = torch.arange(0, depth * COLUMNS, COLUMNS, device=scores.device).view(1, depth, 1)
    values = folded.gather(2, column.expand(-1, depth, -1)).flatten(1)
    places = (column + above).flatten(1)
    if depth * COLUMNS < total:  # the remainder
        values = torch.cat([values, scores[:, depth * COLUMNS :]], 1)
        rest = torch.arange(depth * COLUMNS, total, device=scores.device)
        places = torch.cat([places, rest.expand(rows, -1)], 1)
    value, place = _largest(values, count)
    return value, places.gather(1, place)


def _largest(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    # on ties `max` returns the first index, `topk` any
    found = scores.max(-1, keepdim=True) if count == 1 else scores.topk(count)
    return found.values, found.indices
