"""Batches of compiled engines: sentences of similar length, shared evenly by threads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from regard.config.settings import SearchSettings

SPLIT_ROWS = 32
"""From this many hypotheses on there are at least two batches, so that two threads share even one short request."""


def even_batches(sentences: Sequence[Sequence[int]], settings: SearchSettings, rows: int) -> Iterator[list[int]]:
    """The places of sentences in batches of about equal size, longest first, of at most `rows` hypotheses.

    More than two batches are a multiple of four, so that two or four threads end together. Batches depend on the
    sentences alone, not on the number of threads: neither do translations in int8, whose activations may have one scale
    per batch.
    """
    order = sorted(range(len(sentences)), key=lambda place: len(sentences[place]), reverse=True)
    total = len(sentences) * settings.beam
    fewest = max(math.ceil(total / rows), 2 if total >= SPLIT_ROWS else 1)
    if fewest > 2:
        fewest = 4 * math.ceil(fewest / 4)
    most = min(max(1, rows // settings.beam), math.ceil(len(sentences) / fewest))
    while order:
        count = min(most, max(1, settings.batch_tokens // len(sentences[order[0]])))
        places, order = order[:count], order[count:]
        yield places
