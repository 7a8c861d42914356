"""The benchmark's arithmetic, its reading of logs, and how it runs and stops a process."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from benchmarks import cost, joey, opennmt, regard_side
from benchmarks.process import AfterAWhile, RunError, environment, run
from benchmarks.side import BATCHES
from benchmarks.text import cut_into_pieces, peer_piece, read
from regard.config import Recipe, TextSettings, check_recipe
from regard.text.tokenizer import Tokenizer


def regards(kind: str) -> Recipe:
    return check_recipe(tomllib.loads(regard_side.recipe(kind, BATCHES[0], 5)), "benchmark")


@pytest.mark.parametrize("kind", ["luong", "bahdanau"])
def test_cost_counts_every_weight_that_the_model_multiplies(kind: str) -> None:
    from regard.models import build_model

    model = build_model(regards(kind).model, 900, 900)
    weights = {name: parameter for name, parameter in model.named_parameters() if parameter.dim() == 2}
    looked_up = ("embeddings.source.weight", "embeddings.target.weight")
    once_per_sentence = ("initial.weight",)
    multiplied = sum(weight.numel() for name, weight in weights.items() if name not in looked_up + once_per_sentence)
    costs = regard_side.MODELS[kind][1](900)
    assert costs.encoder + costs.decoder + costs.output == multiplied


def test_cost_of_the_peers_model() -> None:
    costs = cost.input_feeding(8000)
    assert costs.training(1.0) == pytest.approx(47.4e6, rel=1e-3)
    # twice the tokens or the hypotheses, twice the decoder's work; the encoder's stays
    once, twice = costs.translating(0, 10, 1), costs.translating(0, 10, 2)
    assert twice == 2 * once == costs.translating(0, 20, 1)
    assert costs.translating(10, 10, 1) - once == 2 * 10 * costs.encoder


@pytest.mark.parametrize("batch", BATCHES, ids=lambda batch: batch.name)
def test_both_batch_sizes_are_valid_recipes(batch) -> None:  # type: ignore[no-untyped-def]
    settings = check_recipe(tomllib.loads(regard_side.recipe("luong", batch, 7)), "benchmark").training
    assert settings.updates == 7
    assert settings.batch_sentences == batch.sentences
    if batch.tokens is None:
        assert settings.batch_tokens >= 128 * batch.sentences  # so that tokens never bound it
    else:
        assert settings.batch_tokens == batch.tokens


def test_speeds_are_target_tokens_per_second() -> None:
    line = (
        "[2026-01-01 00:00:00,000 INFO] Step 20/1000000; acc: 1.0; ppl: 9.0; xent: 2.0; lr: 0.00100; sents:     640; "
        "bsz:  800/ 900/64; 1107/1245 tok/s;     12 sec;"
    )
    assert opennmt.speeds(["loading", line]) == [1245.0]
    line = "2026-01-01 - INFO - Epoch 1, Step: 10, Batch Loss: 5.0, Batch Acc: 0.1, Tokens per Sec:      641, Lr: 0.001"
    assert joey.speeds(["loading", line]) == [641.0]
    log = '{"event": "update", "tokens_per_second": 2000.5}\n{"event": "validation", "loss": 1}\n'
    assert regard_side.speeds(log) == [2000.5]


def test_run_measures_memory_and_keeps_the_output(tmp_path: Path) -> None:
    # in a process of its own: a child counts the memory of the one that starts it, and pytest may be large
    code = f"""
import sys
from pathlib import Path
from benchmarks.process import environment, run
folder = Path({str(tmp_path)!r})
for size in (1, 200_000_000):
    child = f"block = bytearray({{size}}); block[::4096] = b'x' * len(block[::4096]); print('filled')"
    finished = run([sys.executable, "-c", child], folder, environment(1, "default"), folder / "log.txt")
    print(finished.lines, finished.peak_megabytes)
"""
    script = tmp_path / "script.py"
    script.write_text(code, "utf-8")
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, script], cwd=root, env=environment(1, "default") | {"PYTHONPATH": str(root)},
                          capture_output=True, text=True, check=True)  # fmt: skip
    small, large = (float(line.split()[-1]) for line in done.stdout.splitlines())
    assert small < 60
    assert large - small == pytest.approx(200e6 / 2**20, rel=0.1)
    assert done.stdout.count("['filled']") == 2
    assert (tmp_path / "log.txt").read_text() == "filled\n"


def test_run_fails_with_the_last_lines(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no such model"):
        run([sys.executable, "-c", "raise SystemExit('no such model')"], tmp_path, environment(1, "default"),
            tmp_path / "log.txt")  # fmt: skip


def test_run_stops_after_enough_lines(tmp_path: Path) -> None:
    code = "import time\nfor number in range(1000):\n    print('update', number, flush=True)\n    time.sleep(0.02)"
    stop = AfterAWhile(0.0, lambda line: line.startswith("update"))
    finished = run([sys.executable, "-c", code], tmp_path, environment(1, "default"), tmp_path / "log.txt", stop)
    assert AfterAWhile.LINES <= len(finished.lines) < 1000


def test_environment_tunes_the_allocator_only_where_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_MMAP_MAX_", "7")
    assert "MALLOC_MMAP_MAX_" not in environment(2, "default")
    tuned = environment(2, "tuned")
    assert (tuned["MALLOC_MMAP_MAX_"], tuned["OMP_NUM_THREADS"]) == ("0", "2")


def test_peers_read_the_tokens_that_regard_sees(tmp_path: Path) -> None:
    lines = ["ein Hund läuft", "zwei Hunde\u00a0laufen", "ein￨Rest \u2028 hier", "der Hund"] * 3
    for name in ("train", "test"):
        for language in ("en", "de"):
            (tmp_path / f"raw.{name}.{language}").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    tokenizer = Tokenizer.train(lines, TextSettings(vocabulary_size=320, joint=True))
    text = cut_into_pieces(tmp_path, ("en", "de"), tokenizer)

    vocabulary = text.vocabulary_file.read_text("utf-8").split("\n")[:-1]
    assert len(vocabulary) == len(set(vocabulary)) == tokenizer.size - 4
    ids = {peer_piece(tokenizer, number): number for number in range(tokenizer.size)}
    read_back = [[ids[piece] for piece in line.split()] for line in read(tmp_path, "train", "de")]
    assert read_back == [tokenizer.encode(line)[:-1] for line in lines]
    assert not any("￨" in piece for piece in vocabulary)
    assert text.source_per_target == 1.0
    assert text.test_source_tokens == sum(len(tokenizer.encode(line)) for line in lines)
