"""The benchmark's tables: medians, shares of the limit, ratios, and where they are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import recurrent, transformer
from benchmarks.benchmark import Benchmark, Plan, command_line, parse
from benchmarks.plot import draw, panels
from benchmarks.report import (
    markers,
    render,
    training_ratios,
    training_table,
    translation_ratios,
    translation_table,
    tried_table,
    write_report,
)

BEGIN, END = markers("recurrent")
PLANS = [recurrent.PLAN, transformer.PLAN]

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
    translated |= {"whole_process": False, "shortlist": False}
    return {
        "name": "recurrent",
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
            translated | {"job": "first", "batch": 1, "whole_process": True, "sentences_per_second": 0.5},
        ],
    }


def test_training_table_has_medians_and_shares_of_the_median_limit(results: dict[str, Any]) -> None:
    table = training_table(results)
    assert "| Regard luong | malloc default | – | 1,600 | 80% | 1,002 |" in table
    assert "| Peer | malloc default | 10.2 M | 800 | 32% | 1,002 |" in table
    assert "| Peer | malloc tuned | 10.2 M | 1,000 | 40% | 1,002 |" in table


def test_ratios_are_against_the_fastest_peer_of_each_allocator(results: dict[str, Any]) -> None:
    results["train"] += training("Slow peer", "default", 700, 700, 700)
    words = training_ratios(results)
    assert "Regard luong runs at 2.00× Peer malloc default, 1.60× Peer malloc tuned." in words
    assert "Slow" not in words


def test_translation_table_gives_latency_for_lone_sentences(results: dict[str, Any]) -> None:
    assert "| Peer | malloc default | 250/s of 10.0 tokens (50%) | 4.0 ms | 2.0 s | 500 |" in translation_table(results)


def with_own(results: dict[str, Any], side: str, speed: float, **changes: Any) -> None:
    """Another side that translates greedily."""
    record = results["translate"][0] | {"side": side, "sentences_per_second": speed}
    results["translate"].append(record | changes)


def test_translation_is_held_against_every_peer_at_its_best_and_like_against_like(results: dict[str, Any]) -> None:
    with_own(results, "Peer", 300.0, allocator="tuned")
    with_own(results, "Peer, use_vmap", 500.0, shortlist=True)
    with_own(results, "Long peer", 100.0, tokens_per_sentence=20.0)
    with_own(results, "Regard x", 600.0)
    with_own(results, "Regard x, shortlist", 1000.0, shortlist=True)
    full, short = sorted(line for line in translation_ratios(results).splitlines() if "greedy" in line)
    assert "Regard x runs at" in full
    assert "2.00× Peer," in full
    assert "6.00× Long peer (3.00× in tokens)" in full
    assert "vmap" not in full
    assert "2.00× Peer, use_vmap" in short


def test_a_shortlist_has_no_share_of_the_limit_and_text_has_bleu(results: dict[str, Any]) -> None:
    with_own(results, "Regard x, shortlist", 1000.0, shortlist=True, bleu=31.27)
    del results["translate"][-1]["flop_per_sentence"]
    table = translation_table(results)
    assert "| Regard x, shortlist | malloc default | 1,000/s of 10.0 tokens | – | – | 31.3 | 500 |" in table
    assert "| Peer | malloc default | 250/s of 10.0 tokens (50%) | 4.0 ms | 2.0 s | – | 500 |" in table


def test_tried_settings_are_shown_with_the_chosen_one_in_bold(results: dict[str, Any]) -> None:
    assert tried_table(results) == ""
    same = {"side": "Peer", "job": "greedy"}
    results["tried"] = [same | {"setting": "batch 32", "sentences_per_second": 90.0, "chosen": False}]
    results["tried"] += [same | {"setting": "batch 64", "sentences_per_second": 100.0, "chosen": True}]
    assert "| Peer | batch 64 | **100** |" in tried_table(results)
    assert "| Peer | batch 32 | 90 |" in render(results)


def test_the_picture_has_a_panel_for_each_measure_with_the_best_first(results: dict[str, Any], tmp_path: Path) -> None:
    with_own(results, "Regard x", 600.0)
    drawn = panels(results)
    assert [title.split(":")[0] for title in drawn] == ["training, 64 sentences", "greedy", "lone", "first"]
    assert drawn["training, 64 sentences: tokens/s"][0] == ("Regard luong", 1600.0)
    assert drawn["greedy: sentences/s"] == [("Regard x", 600.0), ("Peer", 250.0)]
    assert drawn["first: seconds"] == [("Peer", 2.0)]
    draw(results, tmp_path / "images" / "performance.png")
    assert (tmp_path / "images" / "performance.png").read_bytes().startswith(b"\x89PNG")


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


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
def test_the_recorded_command_holds_no_local_path(plan: Plan, tmp_path: Path) -> None:
    options = parse(plan, ["--data", str(tmp_path), "--work", str(tmp_path), "--only", "train", "--repeats", "2"])
    line = command_line(plan, options)
    assert line.startswith(f"python benchmarks/{plan.name}.py ")
    assert str(tmp_path) not in line
    assert "--data DIR" in line
    assert "--repeats 2" in line


def test_sides_take_turns_and_the_first_one_changes(tmp_path: Path) -> None:
    plan = recurrent.PLAN
    bench = Benchmark(plan, parse(plan, ["--data", str(tmp_path), "--work", str(tmp_path), "--only", "train"]))
    bench.results["translate"] = ["kept"]
    bench.begin("train")
    assert bench.results["translate"] == ["kept"]

    class Fake:
        def __init__(self, name: str, *allocators: str) -> None:
            self.name, self.allocators, self.translation_allocators = name, allocators, ("best",)

    bench.sides = [Fake("a", "default"), Fake("b", "default", "tuned")]  # type: ignore[list-item]
    turns = [[(side.name, allocator) for side, allocator in bench.turns(repeat, "train")] for repeat in range(3)]
    assert turns[0] == [("a", "default"), ("b", "default"), ("b", "tuned")]
    assert turns[1] == [("b", "default"), ("b", "tuned"), ("a", "default")]
    assert {turn[0] for turn in turns} == set(turns[0])
    assert [(side.name, allocator) for side, allocator in bench.turns(1, "translate")] == [("b", "best"), ("a", "best")]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
def test_every_borrowed_model_belongs_to_a_side_of_the_plan(plan: Plan, tmp_path: Path) -> None:
    options = parse(plan, ["--data", str(tmp_path), "--work", str(tmp_path)])
    sides = {side.name: side for side in (make(options, 8000) for make in plan.makers.values())}
    assert len(sides) == len(plan.makers)
    for side in sides.values():
        assert side.borrows is None or side.borrows in sides
        assert side.allocators or side.translation_allocators
        assert side.borrows is None or sides[side.borrows].translation_allocators
        # a lender's model is there before the borrower's: it borrows none itself, or the order of the plan has it first
        if side.borrows is not None:
            assert list(sides).index(side.borrows) < list(sides).index(side.name)
