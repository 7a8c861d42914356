"""Progress of training: a bar on a terminal, plain lines elsewhere, and log.jsonl for programs."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from regard.errors import ConfigError
from regard.storage.files import write_bytes
from regard.training.checkpoint import TrainingState
from regard.training.task import Measured

SAMPLE_LENGTH = 120  # printed characters of a sample
WORKING_SECONDS = 30.0  # between two lines about a long step
STEP_SECONDS = 0.2  # between two changes of its bar
# validation metrics besides the loss, with their format
QUALITIES = {"perplexity": "perplexity {:.2f}", "bleu": "BLEU {:.1f}", "accuracy": "accuracy {:.2%}"}


class Reporter(Protocol):
    """Receives the progress of training."""

    def say(self, line: str) -> None:
        """A message."""

    def working(self, what: str, share: float | None = None, left: str = "") -> None:
        """The current step before the first update; its completed share and the time left, if known."""

    def updated(self, state: TrainingState, rate: float, speed: float) -> None:
        """After each update: the learning rate, target tokens (or images) per second."""

    def logged(self, state: TrainingState, record: dict[str, Any]) -> None:
        """After each log line."""

    def validated(self, state: TrainingState, result: Measured, best: bool) -> None:
        """After each validation."""

    def close(self) -> None:
        """Training ended or was interrupted."""


class Silent:
    """Prints nothing."""

    def say(self, line: str) -> None:
        """Nothing."""

    def working(self, what: str, share: float | None = None, left: str = "") -> None:
        """Nothing."""

    def updated(self, state: TrainingState, rate: float, speed: float) -> None:
        """Nothing."""

    def logged(self, state: TrainingState, record: dict[str, Any]) -> None:
        """Nothing."""

    def validated(self, state: TrainingState, result: Measured, best: bool) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class LineReporter(Silent):
    """Plain lines on stderr, for files and pipes."""

    def __init__(self, unit: str = "tokens") -> None:
        self.unit = unit
        self._worked = time.monotonic()

    def say(self, line: str) -> None:
        """Print the message."""
        print(line, file=sys.stderr, flush=True)

    def working(self, what: str, share: float | None = None, left: str = "") -> None:
        """Print the progress of a long step, now and then."""
        if share is not None and time.monotonic() - self._worked >= WORKING_SECONDS:
            self.say(f"{what} ({share:.0%})" + (f", {left} left" if left else ""))
            self._worked = time.monotonic()

    def logged(self, state: TrainingState, record: dict[str, Any]) -> None:
        """Print the log line."""
        last = "" if state.total is None else f"/{state.total}"
        left = time_left(state)
        self.say(
            f"update {state.update}{last}  epoch {state.epoch + 1}  loss {record['loss']:.3f}  "
            f"{qualities(record)}{record[f'{self.unit}_per_second']:,.0f} {self.unit}/s  "
            f"lr {record['learning_rate']:.2e}" + (f"  ETA {left}" if left else "")
        )

    def validated(self, state: TrainingState, result: Measured, best: bool) -> None:
        """Print the result."""
        self.say(validation_line(state, result, best))
        for line in sample_lines(result):
            self.say(line)


class Live(Silent):
    """A bar with loss, speed and time left, on a terminal."""

    def __init__(self, console: Console | None = None, unit: str = "tokens") -> None:
        self.unit = unit
        self.console = console or Console(stderr=True)
        self.bar = Progress(
            TextColumn("{task.fields[what]}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[numbers]}"),
            _Left(),
            console=self.console,
            transient=True,
            expand=True,
        )
        self.task = self.bar.add_task("", total=None, what="", numbers="", left="", visible=False)
        self.headline = ""
        self.bar.start()

    def say(self, line: str) -> None:
        """Print the message above the bar."""
        self.console.print(escape(line), highlight=False, soft_wrap=True)

    def working(self, what: str, share: float | None = None, left: str = "") -> None:
        """Show a bar, without a total if the share is unknown."""
        total = None if share is None else 1.0
        self.bar.update(
            self.task, visible=True, what=what, completed=share or 0.0, total=total, left=f"{left} left" if left else ""
        )

    def updated(self, state: TrainingState, rate: float, speed: float) -> None:
        """Advance the bar; loss and perplexity are averages since the last log line."""
        loss = state.window_loss / state.window_tokens
        perplexity = perplexity_of(state.window_likelihood / state.window_tokens)
        pace = f"ppl {perplexity:.1f} {speed:,.0f} tok/s" if self.unit == "tokens" else f"{speed:,.0f} {self.unit}/s"
        numbers = f"loss {loss:.2f} {pace} lr {rate:.1e}{self.headline}"
        self.bar.update(
            self.task,
            completed=state.update,
            total=state.total,
            visible=True,
            what=f"update {state.update}" + ("" if state.total is None else f"/{state.total}"),
            numbers=numbers,
            left=f"{time_left(state)} left" if time_left(state) else "measuring",
        )

    def validated(self, state: TrainingState, result: Measured, best: bool) -> None:
        """Print the result above the bar, and show its metrics in the bar."""
        quality = qualities({**result.to_dict(), "perplexity": None})
        if quality:
            self.headline = f" {quality.rstrip()}"
        self.say(validation_line(state, result, best))
        for line in sample_lines(result):
            self.say(line)

    def close(self) -> None:
        """Remove the bar."""
        self.bar.stop()


class Steps:
    """The progress of one long step before the first update; call it with the number of finished pairs."""

    def __init__(self, what: str, total: int, reporter: Reporter) -> None:
        self.what, self.total, self.reporter = what, total, reporter
        self._start: tuple[float, int] | None = None  # time and pairs at the first call
        self._shown = 0.0
        reporter.working(what)

    def __call__(self, done: int) -> None:
        """Report, at most a few times a second."""
        now = time.monotonic()
        if self._start is None:
            self._start = now, done
        if now - self._shown < STEP_SECONDS:
            return
        self._shown = now
        began, before = self._start
        left = duration((self.total - done) * (now - began) / (done - before)) if done > before else ""
        self.reporter.working(f"{self.what}, {done:,} of {self.total:,} pairs", done / max(1, self.total), left)


class _Left(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(task.fields["left"], style="cyan")


def choose_reporter(progress: bool, unit: str = "tokens") -> Reporter:
    """A bar if stderr is a terminal, else lines; silent if progress is off."""
    if not progress:
        return Silent()
    return Live(unit=unit) if sys.stderr.isatty() else LineReporter(unit)


def validation_line(state: TrainingState, result: Measured, best: bool) -> str:
    """The result of a validation, in one line."""
    remark = "(best so far)" if best else ""
    line = f"validation at update {state.update}: loss {result.loss:.3f}  {qualities(result.to_dict())}{remark}"
    return line.rstrip()


def sample_lines(result: Measured) -> list[str]:
    """The samples of a validation, one line per text."""
    width = max((len(name) for sample in result.samples for name in sample), default=0)
    return [f"  {name:<{width}}  {_one_line(text)}" for sample in result.samples for name, text in sample.items()]


def _one_line(text: str) -> str:
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    return plain if len(plain) <= SAMPLE_LENGTH else f"{plain[: SAMPLE_LENGTH - 1]}…"


def qualities(values: Mapping[str, Any]) -> str:
    """The metrics besides the loss, each followed by two spaces."""
    return "".join(f"{form.format(values[key])}  " for key, form in QUALITIES.items() if values.get(key) is not None)


def time_left(state: TrainingState) -> str:
    """Remaining time at the speed so far; empty while unknown."""
    if state.total is None or state.update == 0 or state.seconds <= 0:
        return ""
    return duration((state.total - state.update) * state.seconds / state.update)


def duration(seconds: float) -> str:
    """5s, 3m05s, 2h10m."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def perplexity_of(loss: float) -> float:
    """exp(loss per token without smoothing), capped at the largest float."""
    return math.exp(min(loss, 700.0))


class Log:
    """One JSON object per line in log.jsonl, and optionally TensorBoard events.

    On resume, lines of updates that will be repeated are dropped first.
    """

    def __init__(self, path: Path, after_update: int, validated: int, tensorboard: Path | None = None) -> None:
        _keep_lines(path, after_update, validated)
        self.file = open(path, "a", encoding="utf-8")  # noqa: SIM115 (closed by __exit__)
        self.writer = _tensorboard_writer(tensorboard, after_update) if tensorboard else None

    def __enter__(self) -> Log:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.file.close()
        if self.writer is not None:
            self.writer.close()

    def write(self, event: str, update: int, values: dict[str, Any]) -> None:
        """Append a line."""
        record = {"event": event, "update": update, "time": round(time.time(), 3), **values}
        print(json.dumps(record, ensure_ascii=False), file=self.file, flush=True)
        if self.writer is not None:
            for name, value in values.items():
                if isinstance(value, float):
                    self.writer.add_scalar(f"{event}/{name}", value, update)


class NoLog(Log):
    """The log of a rank that does not write one."""

    def __init__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def write(self, event: str, update: int, values: dict[str, Any]) -> None:
        """Nothing."""


def _keep_lines(path: Path, after_update: int, validated: int) -> None:
    if not path.exists():
        return
    kept = []
    for line in path.read_text("utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue  # truncated by a crash
        if isinstance(record, dict) and _is_before(record, after_update, validated):
            kept.append(line)
    write_bytes(path, "".join(f"{line}\n" for line in kept).encode())


def _is_before(record: dict[str, Any], after_update: int, validated: int) -> bool:
    """Whether a line belongs to an update that will not be repeated."""
    if record.get("event") in ("validation", "finished"):
        return bool(record.get("update", 0) <= validated) and record.get("event") == "validation"
    return bool(record.get("update", 0) <= after_update)


def check_tensorboard() -> None:
    """Refuse --tensorboard if TensorBoard is not installed."""
    if importlib.util.find_spec("tensorboard") is None:
        raise ConfigError("TensorBoard is not installed: run `pip install tensorboard`, or leave --tensorboard out.")


def _tensorboard_writer(folder: Path, after_update: int) -> Any:
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder), purge_step=after_update + 1)
