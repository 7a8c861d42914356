"""The bar on stderr."""

from __future__ import annotations

import io
import sys

import pytest

from regard.cli.progress import bar_on_stderr, time_left


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_each_stage_and_how_much_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with bar_on_stderr() as show:
        show("translating", 3, 10)
        show("scoring", 7, None)
    seen = terminal.getvalue()
    assert "translating" in seen
    assert "3/10" in seen
    assert "scoring" in seen
    assert "7/?" in seen


@pytest.mark.parametrize("wanted", [True, False])
def test_others_see_nothing(wanted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO() if wanted else Terminal()
    monkeypatch.setattr(sys, "stderr", stderr)
    with bar_on_stderr(wanted=wanted) as show:
        show("translating", 3, 10)
    assert stderr.getvalue() == ""


def test_the_time_left_is_by_the_pace_of_the_whole_stage() -> None:
    assert time_left(1024, 4096, 5.0) == "0:00:15 left"
    assert time_left(7, None, 5.0) == time_left(0, 10, 5.0) == ""
