"""`regard translate --input 'shards/*.txt.gz' --output out/`: progress, messages and Ctrl-C of a run over shards."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import typer

from regard.bulk.shards import is_pattern
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.bulk.run import Status
    from regard.config.settings import Recipe

EXIT_INTERRUPTED = 130
LINE_SECONDS = 60.0  # between lines of progress where stderr is no terminal

Show = tuple[Callable[["Status"], None], Callable[[str], None]]
"""What is called with the status after each event, and with each remark."""


def wants_shards(
    source: Path | None, target: Path | None, only_shards: Mapping[str, object], others: Mapping[str, object]
) -> bool:
    """Whether the command line asks for shards; options that do not fit raise."""
    asking = next((option for option, value in only_shards.items() if value is not None), None)
    if asking is None and not (source is not None and (is_pattern(source) or (target is not None and target.is_dir()))):
        return False
    if source is None or target is None:
        what = asking or f"--input {source}"
        raise ConfigError(f"{what}: shards need --input 'FOLDER/*.txt.gz' and a folder as --output: name both.")
    if unfit := next((option for option, value in others.items() if value is not None), None):
        where = " with --ray" if unfit == "--threads" else ""
        raise ConfigError(f"{unfit}: does not fit shards{where}: leave it out.")
    return True


def first_recipe(models: list[Path]) -> "Recipe":
    """The recipe of the first model, whose search settings an ensemble uses."""
    from regard.config.settings import Recipe
    from regard.inference.box import model_folder
    from regard.storage.folder import read_config

    return read_config(model_folder(models[0]), Recipe)[0]


def ray_address(given: str | None) -> str | None:
    """The address of `--ray ADDRESS`; a bare `--ray` means RAY_ADDRESS, or a Ray on this machine."""
    return None if given is None else given or os.environ.get("RAY_ADDRESS") or "local"


@contextmanager
def shown_run() -> Iterator[Show]:
    """Show the progress of a run, and its result; Ctrl-C and SIGTERM say how to continue and exit 130 and 143."""
    last: list[Status] = []
    with _terminal_bar() if sys.stderr.isatty() else _lines() as (show, say), _sigterm_raises() as signals:

        def remember(status: "Status") -> None:
            last[:] = [status]
            show(status)

        try:
            yield remember, say
        except KeyboardInterrupt:
            finished = f"{last[0].finished} of {last[0].shards} shards are finished: " if last else ""
            say(f"interrupted; {finished}the same command continues")
            raise typer.Exit(128 + signals[-1] if signals else EXIT_INTERRUPTED) from None
        if last:
            status = last[0]
            took = timedelta(seconds=round(status.elapsed))
            say(f"{status.sentences:,} sentences in {took}, {status.rate:,.0f} sentences/s")


@contextmanager
def _sigterm_raises() -> Iterator[list[int]]:
    """SIGTERM interrupts as Ctrl-C does; the list tells that it came, since Ray raises a KeyboardInterrupt anew."""
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return

    def stop(number: int, frame: FrameType | None) -> None:
        came.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield came
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _lines() -> Iterator[Show]:
    """A line every minute, for logs."""
    before = [time.monotonic()]

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    def show(status: "Status") -> None:
        if time.monotonic() - before[0] >= LINE_SECONDS:
            before[0] = time.monotonic()
            say(f"{status.finished} of {status.shards} shards, {_speed(status)}")

    yield show, say


@contextmanager
def _terminal_bar() -> Iterator[Show]:
    """A bar by the bytes of the input, transient."""
    from rich import progress
    from rich.console import Console

    columns = (
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TextColumn("{task.fields[speed]}"),
        progress.TimeElapsedColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None, speed="")

        def show(status: "Status") -> None:
            description = f"{status.finished}/{status.shards} shards"
            bar.update(
                task, description=description, completed=status.bytes_now, total=status.bytes, speed=_speed(status)
            )

        yield show, lambda line: bar.console.print(line, markup=False, highlight=False, soft_wrap=True)


def _speed(status: "Status") -> str:
    if not status.sentences_now:
        return "starting"
    text = f"{status.sentences_now:,} sentences, {status.rate:,.0f} sentences/s"
    left = status.seconds_left
    return text if left is None else f"{text}, {timedelta(seconds=round(left))} left"
