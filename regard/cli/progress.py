"""The bar on stderr that commands show while they work."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, progress.TaskID] = {}

        def show(stage: str, done: int, total: int | None) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total)
            bar.update(tasks[stage], completed=done)

        yield show
