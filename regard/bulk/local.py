"""Shards translated in this process, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from regard.bulk.shards import Shard
from regard.bulk.work import Events, Job, attempt, load_translator


def execute(job: Job, shards: Sequence[Shard], workers: int) -> Events:
    """The events of every shard; `workers` share its batches."""
    translator = load_translator(job)
    translator.use_workers(workers)
    for shard in shards:
        for event in attempt(translator, job, shard):
            yield shard, event
