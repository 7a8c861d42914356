"""The benchmark's arithmetic, its reading of logs, and how it runs and stops a process."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import cost, ctranslate2_side, huggingface_side, joey, opennmt, regard_side
from benchmarks.peer_environment import PeerEnvironment
from benchmarks.process import AfterAWhile, Finished, RunError, environment, run
from benchmarks.same_weights import Choice, Driver
from benchmarks.side import BATCHES, BEAM, GREEDY, Job, Setting, lone
from benchmarks.text import Text, cut_into_pieces, digest, peer_piece, read
from benchmarks.tokenise import tokenised
from regard.config.recipes import check_recipe
from regard.config.settings import Recipe, TextSettings
from regard.data.text.tokenizer import Tokenizer


def regards(kind: str) -> Recipe:
    return check_recipe(tomllib.loads(regard_side.recipe(kind, BATCHES[0], 5)), "benchmark")


@pytest.mark.parametrize("kind", ["luong", "bahdanau", "transformer"])
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
    assert cost.transformer(8000).training(1.0) == pytest.approx(45.4e6, rel=1e-2)


@pytest.mark.parametrize("batch", BATCHES, ids=lambda batch: batch.name)
def test_both_batch_sizes_are_valid_recipes(batch) -> None:  # type: ignore[no-untyped-def]
    settings = check_recipe(tomllib.loads(regard_side.recipe("luong", batch, 7)), "benchmark").training
    assert settings.updates == 7
    assert settings.batch_sentences == batch.sentences
    if batch.tokens is None:
        assert settings.batch_tokens >= 128 * batch.sentences  # so that tokens never bound it
    else:
        assert settings.batch_tokens == batch.tokens


@pytest.mark.parametrize("kind", list(regard_side.MODELS))
def test_models_that_translate_are_trained_until_the_learning_rate_is_zero(kind: str) -> None:
    read = check_recipe(tomllib.loads(regard_side.translation_recipe(kind, 5)), "benchmark")
    assert read.model.model_dump(exclude={"dropout"}) == regards(kind).model.model_dump(exclude={"dropout"})
    assert read.training.epochs == 5
    assert read.training.schedule in ("cosine", "linear")


def test_epochs_in_updates_of_a_peer() -> None:
    assert TEXT.updates(2, 64) == round(2 * 29_000 / 64)


def test_speeds_are_target_tokens_per_second() -> None:
    line = (
        "[2026-01-01 00:00:00,000 INFO] Step 20/1000000; acc: 1.0; ppl: 9.0; xent: 2.0; lr: 0.00100; sents:     640; "
        "bsz:  800/ 900/64; 1107/1245 tok/s;     12 sec;"
    )
    assert opennmt.speeds(["loading", line]) == [1245.0]
    line = "2026-01-01 - INFO - Epoch 1, Step: 10, Batch Loss: 5.0, Batch Acc: 0.1, Tokens per Sec:      641, Lr: 0.001"
    assert joey.speeds(["loading", line]) == [641.0]
    assert huggingface_side.speeds(["loading", "update 2: 1587.3 tok/s"]) == [1587.3]
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
    before = digest(tmp_path, ("en", "de"))
    (tmp_path / "raw.train.de").write_text("anders\n", "utf-8")
    assert digest(tmp_path, ("en", "de")) != before


def test_the_last_match_of_a_log_counts(tmp_path: Path) -> None:
    finished = Finished(["took 1 s", "took 2 s", "done"], 0.0, 0.0)
    assert finished.last(re.compile(r"took (\d)")) == "2"
    with pytest.raises(RunError, match="no line with 'lasted"):
        finished.last(re.compile("lasted (.)"))


# --- the same weights on all sides --------------------------------------------------------------------------------

TEXT = Text(Path("text"), "en", "de", 8000, 29_000, 1.0, 1000, 15_000)


def test_marian_has_the_size_of_regards_transformer() -> None:
    settings = regards("transformer").model
    model = huggingface_side.config(TEXT, BATCHES[1])["model"]
    assert (model["d_model"], model["encoder_layers"], model["decoder_ffn_dim"]) == (
        settings.hidden_size,
        settings.encoder_layers,  # type: ignore[union-attr]
        settings.feedforward_size,  # type: ignore[union-attr]
    )
    opennmts = opennmt.config("transformer", TEXT, BATCHES[1], 5, Path("folder"))
    assert (opennmts["hidden_size"], opennmts["dec_layers"], opennmts["transformer_ff"]) == (256, 3, 1024)
    assert "rnn_type" not in opennmts


def test_text_is_tokenised_as_the_gold_alignments_are() -> None:
    assert tokenised("It’s yesterday's “news” – 3.5 %, isn't it?", "en") == (
        "It 's yesterday 's \" news \" - 3.5 % , isn't it ?"
    )
    assert tokenised("„Ja“, sagte er.", "de") == '" Ja " , sagte er .'


def test_ctranslate2_is_tried_with_threads_over_batches_and_within_them() -> None:
    tried = ctranslate2_side.candidates(GREEDY, 4, shortlist=False)
    for compute in ("float32", "int8"):  # the best of one need not be that of the other
        threads = {(each["inter_threads"], each["intra_threads"]) for each in tried if each["compute_type"] == compute}
        assert threads == {(1, 4), (4, 1)}
    assert len({each["batch"] for each in tried}) > 1
    alone = ctranslate2_side.candidates(lone(1, 9), 4, shortlist=True)
    assert {(each["inter_threads"], each["intra_threads"], each["batch"]) for each in alone} == {(1, 4, 1), (1, 1, 1)}
    assert {each["compute_type"] for each in alone if each["intra_threads"] == 1} == {"float32", "int8"}
    assert all(each["use_vmap"] for each in alone)
    assert len(ctranslate2_side.candidates(GREEDY, 1, shortlist=False)) == 2 * len(ctranslate2_side.BATCHES)


class Pretended(Driver):
    """Batches of 64 are the quickest, int8 is slower, tuned malloc quicker with a beam only."""

    def run(self, text: Any, job: Job, choices: list[Choice], *rest: Any) -> tuple[list[dict[str, Any]], Finished]:
        assert len({choice.allocator for choice in choices}) == 1  # they share a process
        results = []
        for choice in choices:
            seconds = 1.0 + abs(choice.settings["batch"] - 64) + 5 * (choice.settings["compute_type"] == "int8")
            seconds += {"default": 0.0, "tuned": -0.5 if job.beam == 5 else 0.5}[choice.allocator]
            results.append({"sentences": 10, "seconds": seconds, "tokens": 100})
        return results, Finished([], 100.0, 9.0)


def test_a_peer_is_measured_at_the_best_setting_of_each_job(tmp_path: Path) -> None:
    driver = Pretended(PeerEnvironment(tmp_path, ctranslate2_side.RECIPE, None), "translate_with_ctranslate2.py")
    candidates = [{"compute_type": compute, "batch": batch} for compute in ("float32", "int8") for batch in (32, 64)]
    setting = Setting(tmp_path, 2, "default")
    for job, allocator in ((GREEDY, "default"), (BEAM, "tuned")):
        tried = driver.tune(TEXT, job, tmp_path, setting, candidates)
        assert len(tried) == len(candidates) + 1  # the best of them with the tuned allocator
        assert tried[-1].setting == "compute type float32, batch 64, malloc tuned"
        assert [each.chosen for each in tried].count(True) == 1
        assert driver.chosen[job.beam, job.batch] == Choice({"compute_type": "float32", "batch": 64}, allocator)
    assert driver.translate(TEXT, BEAM, tmp_path, setting).seconds == 0.5


def test_the_plain_loop_has_full_batches_of_similar_length() -> None:
    from benchmarks.train_with_huggingface import batches

    generator = np.random.default_rng(1)
    pairs = [([5] * int(length), [6] * int(length + 1)) for length in generator.integers(3, 30, 600)]
    epoch, sentences = [], 0
    for batch in batches(list(pairs), 400, None):
        epoch.append(batch)
        sentences += len(batch)
        if sentences == len(pairs):
            break
    longest = [max(len(target) for _, target in batch) for batch in epoch]
    assert all(most * len(batch) <= 400 for most, batch in zip(longest, epoch, strict=True))
    padded = sum(most * len(batch) for most, batch in zip(longest, epoch, strict=True))
    assert sum(len(target) for _, target in pairs) / padded > 0.9
    assert all(len(batch) <= 8 for batch, _ in zip(batches(list(pairs), None, 8), range(20), strict=False))
