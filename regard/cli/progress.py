"""The progress bar of commands, on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

Show = Callable[[str, int, int | None], None]
"""Called with the stage, the finished count, and the total, None if unknown."""


@contextmanager
def bar_on_stderr(*, wanted: bool = True) -> Iterator[Show]:
    """A bar with the time left for each stage, removed at the end; nothing if stderr is not a terminal."""
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
    """Time left, from the mean speed of the whole stage: results come in bursts."""
    if not total or not done:
        return ""
    return f"{timedelta(seconds=round(elapsed * (total - done) / done))} left"
