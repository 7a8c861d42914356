"""The benchmark of training beside a busy program: its ways, its arithmetic, and that what it starts is ended."""

import subprocess
import sys

import pytest

from benchmarks.beside import Way, _ended_after, busy, settled, table, verdict, ways

ONE, THREADS, PROCESSES = Way(1, 1), Way(1, 2), Way(2, 1)
SPEEDS = {
    (ONE, "quiet"): 4000.0, (ONE, "beside"): 3600.0,
    (THREADS, "quiet"): 7000.0, (THREADS, "beside"): 700.0,
    (PROCESSES, "quiet"): 7700.0, (PROCESSES, "beside"): 5600.0,
}  # fmt: skip


@pytest.mark.parametrize(("cores", "expected"), [
    (1, [ONE]), (2, [ONE, THREADS, PROCESSES]), (4, [ONE, Way(1, 4), Way(4, 1)]),
])  # fmt: skip
def test_the_ways_of_using_the_cores(cores: int, expected: list[Way]):
    assert ways(cores) == expected


def test_speeds_are_set_against_the_quiet_ones_and_one_process():
    rows = table(SPEEDS).splitlines()[2:]
    assert rows == [
        "| 1 process, 1 thread each | 4,000 | 3,600 | 90% | 0.57 | 5.14 |",
        "| 1 process, 2 threads each | 7,000 | 700 | 10% | 1.00 | 1.00 |",
        "| 2 processes, 1 thread each | 7,700 | 5,600 | 73% | 1.10 | 8.00 |",
    ]
    assert verdict(SPEEDS).endswith("1 process, 1 thread each; 2 processes, 1 thread each.")
    assert verdict({(THREADS, condition): SPEEDS[THREADS, condition] for condition in ("quiet", "beside")}).endswith(
        "speed: none."
    )


def test_speeds_are_read_while_the_log_is_written():
    update = '{"event": "update", "tokens_per_second": %d}\n'
    log = update % 1 + '{"event": "validation"}\n' + update % 2 + update % 3 + update[:20]
    assert settled(log, 1) == [2, 3]


def test_what_is_started_is_ended():
    with _ended_after(subprocess.Popen([sys.executable, "-c", "while True: pass"])) as process:
        assert process.poll() is None
    assert process.returncode not in (None, 0)
    with busy(False):
        pass
