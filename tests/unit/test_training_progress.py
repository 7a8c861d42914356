"""What training shows and logs."""

import io
import json
import math
from pathlib import Path

import pytest
from rich.console import Console

from regard.training.checkpoint import TrainingState
from regard.training.progress import LineReporter, Live, Log, Silent, choose_reporter, duration, time_left
from regard.training.validation import Validation


def test_the_log_forgets_updates_that_will_be_done_again(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with Log(path, 0, 0) as log:
        for update in (10, 20, 30):
            log.write("update", update, {"loss": 1 / update})
        log.write("validation", 20, {"loss": 1.0})  # not in the checkpoint: it will be done again
    with path.open("a") as file:
        file.write('{"event": "update", "update": 40, "lo')  # cut short by a crash
    with Log(path, 20, 0) as log:
        log.write("update", 30, {"loss": 0.5})
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [record["update"] for record in records] == [10, 20, 30]
    assert records[-1]["loss"] == 0.5


def test_time_left_comes_from_the_speed_so_far() -> None:
    assert time_left(TrainingState(update=10, total=100, seconds=20)) == "3m00s"
    assert time_left(TrainingState(update=10, total=None, seconds=20)) == ""
    assert time_left(TrainingState(update=0, total=10)) == ""
    assert [duration(seconds) for seconds in (0.4, 59, 61, 3600, 7260)] == ["0s", "59s", "1m01s", "1h00m", "2h01m"]


def test_plain_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = choose_reporter(True)
    assert isinstance(reporter, LineReporter)
    assert isinstance(choose_reporter(False), Silent)
    state = TrainingState(update=50, total=200, epoch=1, seconds=10)
    record = {"loss": 2.0, "perplexity": 5.5, "tokens_per_second": 12345.6, "learning_rate": 3e-4}
    reporter.logged(state, record)
    sample = {"source": "a\nb", "translation": "x" * 200}
    reporter.validated(state, Validation(math.log(4), 10, 33.333, samples=(sample,)), best=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "update 50/200  epoch 2  loss 2.000  perplexity 5.50  12,346 tokens/s  lr 3.00e-04  ETA 30s",
        "validation at update 50: loss 1.386  perplexity 4.00  BLEU 33.3  (best so far)",
        "  source       a b",
        "  translation  " + "x" * 119 + "…",
    ]


def test_a_live_bar_on_a_terminal() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=110, color_system=None)
    reporter = Live(console)
    reporter.say("reading [corpus]")
    state = TrainingState(update=50, total=200, seconds=10, window_loss=20.0, window_likelihood=15.0, window_tokens=10)
    reporter.updated(state, 3e-4, 12345.6)
    reporter.validated(state, Validation(1.0, 10, 33.3), best=False)
    reporter.updated(state, 3e-4, 12345.6)
    reporter.bar.refresh()
    reporter.close()
    shown = screen.getvalue()
    assert "reading [corpus]" in shown
    for part in ("update 50/200", "loss 2.00", "ppl 4.5", "12,346 tok/s", "lr 3.0e-04", "BLEU 33.3", "30s left"):
        assert part in shown, part


def test_a_validation_is_compared_by_what_was_asked() -> None:
    assert Validation(2.0, 5, bleu=30.0, signature="s").score == 30.0
    assert Validation(2.0, 5, bleu=30.0, signature="s", select_by="loss").score == -2.0
    assert Validation(2.0, 5).score == -2.0
    assert "perplexity" not in Validation(1e4, 5).to_dict()
