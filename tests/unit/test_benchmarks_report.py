"""The benchmark's tables: medians, shares of the limit, ratios, and where they are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.recurrent import Benchmark, command_line, parse
from benchmarks.report import BEGIN, END, render, training_ratios, training_table, translation_table, write_report

MACHINE = {"cpu": "A CPU", "cores": 2, "memory_gib": 24.0, "threads": 2, "python": "3.11", "torch": "2.13.0"}


def training(side: str, allocator: str, *speeds: float) -> list[dict[str, Any]]:
    return [
        {
            "side": side,
            "allocator": allocator,
            "repeat": repeat,
            "batch": "64 sentences",
            "tokens_per_second": speed,
            "peak_megabytes": 1000.0 + repeat,
        }
        for repeat, speed in enumerate(speeds)
    ]


@pytest.fixture
def results() -> dict[str, Any]:
    translated = {"side": "Peer", "allocator": "default", "repeat": 0, "tokens_per_sentence": 10.0}
    translated |= {"peak_megabytes": 500.0, "flop_per_sentence": 2e8, "sentences_per_second": 250.0}
    return {
        "machine": MACHINE,
        "date": "2026-01-01",
        "text": "en→de.",
        "repeats": 3,
        "commands": ["python benchmarks/recurrent.py --data DIR"],
        "gemm": {"train": [90.0, 100.0, 190.0], "translate": [100.0]},
        "parameters": {"Peer": 10_200_000},
        "flop_per_token": {"Regard luong": 50e6, "Peer": 40e6},
        "train": training("Regard luong", "default", 1500, 1600, 9999)
        + training("Peer", "default", 800, 790, 810)
        + training("Peer", "tuned", 1000, 1, 1280),
        "translate": [
            translated | {"job": "greedy", "batch": 32},
            translated | {"job": "lone", "batch": 1},
        ],
    }


def test_training_table_has_medians_and_shares_of_the_median_limit(results: dict[str, Any]) -> None:
    table = training_table(results)
    assert "| Regard luong | as it comes | – | 1,600 | 80% | 1,002 |" in table
    assert "| Peer | as it comes | 10.2 M | 800 | 32% | 1,002 |" in table
    assert "| Peer | malloc tuned | 10.2 M | 1,000 | 40% | 1,002 |" in table


def test_ratios_are_against_the_fastest_peer_of_each_allocator(results: dict[str, Any]) -> None:
    results["train"] += training("Slow peer", "default", 700, 700, 700)
    words = training_ratios(results)
    assert "Regard luong runs at 2.00× Peer as it comes, 1.60× Peer malloc tuned." in words
    assert "Slow" not in words


def test_translation_table_gives_latency_for_lone_sentences(results: dict[str, Any]) -> None:
    assert "| Peer | as it comes | 250/s of 10.0 tokens (50%) | 4.0 ms | 500 |" in translation_table(results)


def test_report_replaces_only_what_is_between_the_markers(results: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "performance.md"
    path.write_text(f"# Mine\n\n{BEGIN}\nold figures\n{END}\n\nAfter.\n", "utf-8")
    write_report(path, results)
    once = path.read_text("utf-8")
    write_report(path, results)
    assert path.read_text("utf-8") == once
    assert once.startswith(f"# Mine\n\n{BEGIN}\n")
    assert once.endswith(f"{END}\n\nAfter.\n")
    assert "old figures" not in once
    assert render(results) in once


def test_report_refuses_a_file_without_the_second_marker(results: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "performance.md"
    path.write_text(f"{BEGIN}\n", "utf-8")
    with pytest.raises(SystemExit, match="without"):
        write_report(path, results)
    assert path.read_text("utf-8") == f"{BEGIN}\n"


def test_the_recorded_command_holds_no_local_path(tmp_path: Path) -> None:
    options = parse(["--data", str(tmp_path), "--work", str(tmp_path), "--only", "train", "--repeats", "2"])
    line = command_line(options)
    assert str(tmp_path) not in line
    assert "--data DIR" in line
    assert "--repeats 2" in line


def test_sides_take_turns_and_the_first_one_changes(tmp_path: Path) -> None:
    bench = Benchmark(parse(["--data", str(tmp_path), "--work", str(tmp_path), "--only", "train"]))
    bench.results["translate"] = ["kept"]
    bench.begin("train")
    assert bench.results["translate"] == ["kept"]

    class Fake:
        def __init__(self, name: str, *allocators: str) -> None:
            self.name, self.allocators = name, allocators

    bench.sides = [Fake("a", "default"), Fake("b", "default", "tuned")]  # type: ignore[list-item]
    turns = [[(side.name, allocator) for side, allocator in bench.turns(repeat)] for repeat in range(3)]
    assert turns[0] == [("a", "default"), ("b", "default"), ("b", "tuned")]
    assert turns[1] == [("b", "default"), ("b", "tuned"), ("a", "default")]
    assert {turn[0] for turn in turns} == set(turns[0])
