"""The figures of a fuzz run, after its last target."""

from __future__ import annotations

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    from fuzz_help import COUNTS, SLOWEST, TOTAL

    if not TOTAL:
        return
    for target in sorted({name for name, _ in COUNTS}):
        accepted, refused = COUNTS[target, "accepted"], COUNTS[target, "refused"]
        terminalreporter.write_line(
            f"{target:<12} {accepted + refused:>7,} inputs: {refused:>7,} refused, {accepted:>7,} accepted, "
            f"slowest {SLOWEST[target]:.2f} s"
        )
