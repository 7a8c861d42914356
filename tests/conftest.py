"""What all tests share: quiet, repeatable surroundings."""

import os
import sys

import pytest
from hypothesis import settings

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
