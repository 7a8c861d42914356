"""The largest numbers of wide rows, as every step of a search wants them.

`topk` and `argmax` look at a row number by number. The maxima of the columns of a folded row are found eight numbers at
a time, and only a column with a large maximum can hold a large number: the others are never looked at again.
"""

from __future__ import annotations

import torch
from torch import Tensor

COLUMNS = 128  # of a folded row: whole vectors of the processor
DEEP = 16  # rows that folding must give, or there is little to leave out
MANY = 2**17  # numbers from which it pays
FEW = 16  # numbers that may be wanted, or too many columns hold one of them


def best(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest of each row (N, V), the largest first, and their places; both (N, count)."""
    rows, total = scores.shape
    depth = total // COLUMNS
    if depth < DEEP or count > FEW or scores.numel() < MANY:
        return _largest(scores, count)
    folded = scores[:, : depth * COLUMNS].view(rows, depth, COLUMNS)  # no copy, whatever the rows lie in
    column = _largest(folded.amax(1), count)[1].unsqueeze(1)  # (N, 1, count)
    above = torch.arange(0, depth * COLUMNS, COLUMNS, device=scores.device).view(1, depth, 1)
    values = folded.gather(2, column.expand(-1, depth, -1)).flatten(1)
    places = (column + above).flatten(1)
    if depth * COLUMNS < total:  # what is left over
        values = torch.cat([values, scores[:, depth * COLUMNS :]], 1)
        rest = torch.arange(depth * COLUMNS, total, device=scores.device)
        places = torch.cat([places, rest.expand(rows, -1)], 1)
    value, place = _largest(values, count)
    return value, places.gather(1, place)


def _largest(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    # of equal ones `max` takes the first, `topk` any
    found = scores.max(-1, keepdim=True) if count == 1 else scores.topk(count)
    return found.values, found.indices
