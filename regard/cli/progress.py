"""The bar on stderr that commands show while they work."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

Show = Callable[[str, int, int | None], None]
"""Takes the stage, how much of it is done, and how much it is in all, or None if nobody knows."""


@contextmanager
def bar_on_stderr(*, wanted: bool = True) -> Iterator[Show]:
    """A bar for each stage with the time left, gone when all is done; nothing if stderr is no terminal."""
    if not wanted or not sys.stderr.isatty():
        yield lambda stage, done, total: None
        return
    from rich import progress
    from rich.console import Console

    columns = (
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TextColumn("{task.fields[left]}"),
    )
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, progress.TaskID] = {}

        def show(stage: str, done: int, total: int | None) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total, left="")
            elapsed = bar.tasks[list(tasks).index(stage)].elapsed or 0.0
            bar.update(tasks[stage], completed=done, left=time_left(done, total, elapsed))

        yield show


def time_left(done: int, total: int | None, elapsed: float) -> str:
    """By the mean pace of the whole stage: results come in bursts, and the pace of a burst says nothing."""
    if not total or not done:
        return ""
    return f"{timedelta(seconds=round(elapsed * (total - done) / done))} left"
