"""Shards translated in this process, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from regard.bulk.shards import Shard
from regard.bulk.work import Events, Job, attempt, load_translator


def execute(job: Job, shards: Sequence[Shard]) -> Events:
    """The events of every shard."""
    translator = load_translator(job)
    for shard in shards:
        for event in attempt(translator, job, shard):
            yield shard, event
