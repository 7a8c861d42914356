"""The bar on stderr."""

from __future__ import annotations

import io
import sys

import pytest

from regard.cli.progress import bar_on_stderr


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
