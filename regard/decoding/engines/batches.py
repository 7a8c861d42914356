"""Batches of compiled engines: sentences of similar length, shared evenly by threads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from regard.config.settings import SearchSettings
from regard.decoding.engines.engine import maximum_length

MOST_STEPS = 16_384
"""Hypotheses times decoding steps of a batch, at most: no batch takes more than seconds, whatever the sentences are.
A batch of 96 hypotheses reaches it with sentences of 75 subwords."""

SPLIT_ROWS = 32
"""From this many hypotheses on there are at least two batches, so that two threads share even one short request."""


def even_batches(sentences: Sequence[Sequence[int]], settings: SearchSettings, rows: int) -> Iterator[list[int]]:
    """The places of sentences in batches of about equal size, longest first, of at most `rows` hypotheses.

    More than two batches are a multiple of four, so that two or four threads end together; `batch_tokens` and
    `MOST_STEPS` may cut them further. Batches depend on the sentences alone, not on the number of threads: neither do
    translations in int8, whose activations may have one scale per batch.
    """
    order = sorted(range(len(sentences)), key=lambda place: len(sentences[place]), reverse=True)
    room = max(1, rows // settings.beam)  # sentences
    batches = max(math.ceil(len(order) / room), 2 if len(order) * settings.beam >= SPLIT_ROWS else 1)
    if batches > 2:
        batches = 4 * math.ceil(batches / 4)
    size, larger = divmod(len(order), batches)
    start = 0
    for number in range(batches):
        end = start + size + (number < larger)
        while start < end:
            longest = sentences[order[start]]
            steps = settings.beam * maximum_length(longest, settings)
            count = max(1, min(settings.batch_tokens // len(longest), MOST_STEPS // steps))
            places = order[start : min(end, start + count)]
            yield places
            start += len(places)
