"""What all tests share: quiet, repeatable surroundings."""

import os
import sys

import pytest
from hypothesis import settings

from regard.errors import ConfigError
from regard.machine import processor

# Two workers share two cores: a library that starts its own threads would only slow both down.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# matplotlib must not look for a screen.
os.environ.setdefault("MPLBACKEND", "Agg")

# The same examples on every run, and no deadline: a busy machine is not a failure.
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=50)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def _plain_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """No debugging, no colours, and 80 columns, whatever the caller's shell says; numbers as the processor has them."""
    monkeypatch.delenv("REGARD_DEBUG", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    if "torch" in sys.modules:  # a test that trained before has tuned the process
        sys.modules["torch"].set_flush_denormal(False)


# --- what the processor executes ----------------------------------------------------------------------------------

_REFUSED: dict[str, str] = {}  # path of `regard.machine.processor` -> why tests marked with it are left out
_LIMITS: dict[str, str] = {}


def pytest_configure(config: pytest.Config) -> None:
    """Try the processor before torch computes anything; workers learn the verdict from the environment."""
    for path in processor.LIMITS:
        try:
            _LIMITS.update(processor.use(path, path, "left out"))
        except ConfigError as error:
            _REFUSED[path] = str(error)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests that this processor cannot run."""
    for item in items:
        for mark in item.iter_markers("processor"):
            if mark.args[0] in _REFUSED:
                item.add_marker(pytest.mark.skip(reason=f"processor: {_REFUSED[mark.args[0]]}"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out, and under which limits the rest ran."""
    for path in _REFUSED:
        terminalreporter.write_line(f"left out for this processor: {path} (tests marked `processor`)")
    if _LIMITS:
        terminalreporter.write_line(f"instruction set limited for this processor: {processor.settings_text(_LIMITS)}")
