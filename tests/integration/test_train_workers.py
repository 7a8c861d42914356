"""Several ranks train as one process does: the same updates, bit for bit again, through signals and kills."""

import importlib
import json
import mmap
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from training_help import pairs, recipe

from regard.cli import main
from regard.config.captioning import CaptionRecipe
from regard.config.classification import ClassifierRecipe
from regard.config.recipes import check_as
from regard.data.text.batches import collate
from regard.errors import ConfigError
from regard.inference.translator import Translator
from regard.machine import processor
from regard.models.contract import Batch, Model
from regard.storage.run import read_run
from regard.storage.weights import read_tensors
from regard.training import dry_run, saving, speed, train
from regard.training.distributed import Group, RankLost, Ranks
from regard.training.gradients import Gradients
from regard.training.launch import _status
from regard.training.progress import Silent
from regard.training.tasks import task_of
from regard.training.validation import in_order

ROOT = Path(__file__).parents[2]
TRAIN, VALID = pairs(150), pairs(15, seed=1)
STILL = {"dropout": 0.0}
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def weights(out: Path) -> dict[str, torch.Tensor]:
    """Of the last checkpoint: in float32, which those of the model folder need not be."""
    return dict(read_tensors(max((out / "training").glob("checkpoint-*")) / "model.safetensors"))


def lines(out: Path, event: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (out / "log.jsonl").read_text("utf-8").splitlines()]
    return [record for record in found if record["event"] == event]


def distance(first: Path, second: Path) -> float:
    """The largest difference of two models' weights."""
    ours, theirs = weights(first), weights(second)
    assert ours.keys() == theirs.keys()
    return max(float((ours[name] - theirs[name]).abs().max()) for name in ours)


# --- the parts ----------------------------------------------------------------------------------------------------


def test_the_rows_of_all_ranks_are_the_batch() -> None:
    sources = [[5] * length for length in (3, 6, 2, 4, 5)]
    targets = [[7] * length for length in (2, 7, 1, 3, 4)]
    batch = replace(collate(sources, targets), indices=(10, 11, 12, 13, 14))
    shares = [batch.rows(rank, 3) for rank in range(3)]
    assert [share.indices for share in shares] == [(10, 13), (11, 14), (12,)]
    assert [tuple(share.source.shape) for share in shares] == [(2, 4), (2, 6), (1, 2)]
    assert [tuple(share.target_out.shape) for share in shares] == [(2, 3), (2, 7), (1, 1)]
    assert sum(share.target_tokens for share in shares) == batch.target_tokens
    assert len(collate([[5]], [[5]]).rows(1, 2).target_out) == 0, "more ranks than rows"
    whole = batch.rows(0, 1)
    assert torch.equal(whole.source, batch.source)
    assert torch.equal(whole.target_in, batch.target_in)


def test_shared_texts_come_back_in_their_order() -> None:
    order = [3, 0, 4, 1, 2]
    shares = [["d", "e", "c"], ["a", "b"]]
    assert in_order(order, shares) == ["a", "b", "c", "d", "e"]
    assert Group().gather(["a"]) == [["a"]]
    assert Group().sum(1.0, 2.0) == (1.0, 2.0)


def test_one_status_for_all_ranks() -> None:
    assert _status([75, -9]) == -9, "a kill, and the loss that it caused"
    assert _status([75, 2]) == 2, "an error that rank 0 has printed"
    assert _status([130, 75]) == 130
    assert _status([75]) == 75


def test_no_rank_leaves_a_validation_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[object] = []
    monkeypatch.setattr(saving, "save_and_stop", stopped.append)
    requested = SimpleNamespace(requested=True)
    alone = SimpleNamespace(interrupts=requested, group=Group())
    one_of_two = SimpleNamespace(interrupts=requested, group=SimpleNamespace(size=2, rank=1))
    for run in (one_of_two, alone):
        saving.stop_if_asked(run)()  # type: ignore[arg-type]
    assert stopped == [alone]


def test_only_a_failed_exchange_is_a_lost_rank(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "1")
    ranks = Ranks.__new__(Ranks)
    ranks.rank, ranks.size, ranks.device = 1, 2, torch.device("cpu")

    def fails(*given: object, **more: object) -> None:
        raise RuntimeError("not enough memory")

    with monkeypatch.context() as patch:
        patch.setattr(torch, "zeros", fails)
        with pytest.raises(RuntimeError, match="not enough memory"):
            ranks.attach(torch.nn.Linear(2, 2))
    ranks._gradients = Gradients(torch.nn.Linear(2, 2), 2, ranks.device)
    with monkeypatch.context() as patch:
        patch.setattr(Gradients, "collect", fails)
        with pytest.raises(RuntimeError, match="not enough memory"):
            ranks.sum_gradients(1.0)
    assert not capsys.readouterr().err
    monkeypatch.setattr(torch.distributed, "all_reduce", fails)
    with pytest.raises(RankLost):
        ranks.sum(1.0)
    assert capsys.readouterr().err == "rank 1: not enough memory\n"


def build_nothing(source: int, target: int) -> Model:
    raise AssertionError


def test_workers_that_cannot_be_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="workers = 0: at least one"):
        train(recipe(), train=TRAIN, out=tmp_path / "none", workers=0)
    with pytest.raises(ConfigError, match="a model of your own trains in one process"):
        train(recipe(), train=TRAIN, out=tmp_path / "own", workers=2, model=build_nothing)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "job")
    with pytest.raises(ConfigError, match="torchrun has started the workers"):
        train(recipe(), train=TRAIN, out=tmp_path / "both", workers=2)
    assert not any(tmp_path.iterdir())


# --- how many -----------------------------------------------------------------------------------------------------


@pytest.fixture
def two_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two cores, an empty cache folder, and no training too short to measure for."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(speed, "SHORTEST", 0.0)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_the_faster_way_is_chosen_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ratio, measured = 1.0, []
    monkeypatch.setattr(speed, "seconds_per_update", lambda *given: 2.0)

    def seconds_of_ranks(folder: Path, workers: int, threads: int, updates: int) -> float:
        measured.append((workers, threads, updates))
        return 2.0 * ratio

    def chosen(name: str) -> int:
        folder = tmp_path / name / "training"
        if not folder.exists():
            train(recipe(), train=TRAIN, valid=VALID, out=tmp_path / name, progress=False)
        task = task_of(read_run(folder).recipe).open(folder)
        return speed.fastest(task, task.build(), folder, Silent(), several=True).workers

    monkeypatch.setattr(speed, "seconds_of_ranks", seconds_of_ranks)
    ratio = 1.2
    assert chosen("slower") == 1
    assert measured == [(2, 1, 2)]
    ratio = 0.5
    assert chosen("slower") == 1, "kept"
    kept = tmp_path / "cache/regard/speed.json"
    kept.write_text("{", "utf-8")
    assert chosen("slower") == 2, "damaged, so measured again"
    kept.unlink()
    ratio = 1.03
    assert chosen("slower") == 2, "a tie goes to several"
    kept.unlink()
    monkeypatch.setattr(speed, "SHORTEST", 1000.0)
    measured.clear()
    assert chosen("slower") == 1
    assert measured == [], "12 updates of 2 s are not worth it"


@pytest.mark.usefixtures("two_threads")
def test_bfloat16_has_to_be_faster_by_a_margin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"float32": 2.0, "bfloat16": 1.0}
    monkeypatch.setattr(speed, "seconds_per_update", lambda task, *given: seconds[task.settings.precision])
    verdict = processor.Verdict(works=True)
    monkeypatch.setattr(processor, "verdict", lambda path: verdict)

    def trained(precision: str) -> str:
        shutil.rmtree(tmp_path / "cache", ignore_errors=True)
        chosen = recipe(precision=precision)
        made = train(chosen, train=TRAIN, out=tmp_path / "model", overwrite=True, progress=False)
        recorded = read_run(tmp_path / "model/training").recipe.training.precision
        assert made.recipe.training.precision == recorded
        return recorded

    assert trained("auto") == "bfloat16"
    assert trained("float32") == "float32"
    seconds["bfloat16"] = 1.9
    assert trained("auto") == "float32", "5 % faster is not worth rounding"
    seconds["bfloat16"] = 1.0
    monkeypatch.setattr(speed, "SHORTEST", 1000.0)
    assert trained("auto") == "float32", "12 updates of 2 s are not measured"
    monkeypatch.setattr(speed, "SHORTEST", 0.0)
    verdict = processor.Verdict(works=False)
    assert trained("auto") == "float32", "the processor does not execute it"


@pytest.mark.usefixtures("two_threads")
def test_a_dry_run_is_of_what_the_training_would_choose(
    files: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = {"float32": 2.0, "bfloat16": 1.0}
    monkeypatch.setattr(speed, "seconds_per_update", lambda task, *given: seconds[task.settings.precision])
    monkeypatch.setattr(speed, "seconds_of_ranks", lambda *given: 1.0)
    monkeypatch.setattr(processor, "verdict", lambda path: processor.Verdict(works=True))
    asked = []

    def answer_of_ranks(function: str, words: list[str], workers: int, threads: int) -> dict[str, Any]:
        asked.append((function, read_run(Path(words[0])).recipe.training.precision, workers, threads))
        return {"seconds_per_token": 1.0, "memory": 3 * 10**9}

    # `regard.training.dry_run` names the function
    monkeypatch.setattr(importlib.import_module("regard.training.dry_run"), "answer_of_ranks", answer_of_ranks)

    def estimated(*more: str) -> str:
        assert main([*files, "--dry-run", *more]) == 0
        return capsys.readouterr().out

    shown = estimated()
    assert "s each, 2 processes of 1 thread, bfloat16;" in shown
    assert "memory: about 3.0 GB in each of 2 processes, " in shown
    assert asked == [("regard.training.dry_run:measure_as_rank", "bfloat16", 2, 1)]
    tokens = re.search(r"train: .*source and ([\d,]+) target tokens", shown)
    batches = re.search(r"batches in an epoch: ([\d,]+)", shown)
    assert tokens
    assert batches
    each = int(tokens[1].replace(",", "")) / int(batches[1].replace(",", ""))
    assert f"({each:.2f} s each" in shown, "a second for each target token"

    assert "2 processes of 1 thread, float32;" in estimated("--set", "training.precision=float32")
    assert "3 processes of 2 threads, bfloat16;" in estimated("--workers", "3", "--threads", "2")
    assert "1 process of 2 threads, bfloat16;" in estimated("--workers", "1")
    assert "1 process of 2 threads, bfloat16;" in estimated("--threads", "2")
    asked.clear()
    monkeypatch.setattr(speed, "SHORTEST", 1000.0)
    shown = estimated("--updates", "10")
    assert "1 process of 2 threads, float32;" in shown, "10 updates of 2 s are not worth measuring"
    assert "GB in one process\n" in shown
    assert not asked


def test_a_measured_update_accumulates_as_the_training_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(recipe(accumulate=3, updates=1), train=TRAIN, valid=VALID, out=tmp_path, progress=False)
    task = task_of(read_run(tmp_path / "training").recipe).open(tmp_path / "training")
    real, batches, tokens = speed.add_gradient, [], []

    def add_gradient(task: Any, model: Any, batch: Batch, total_tokens: int, *given: Any, **more: Any) -> Any:
        batches.append(batch.target_tokens)
        tokens.append(total_tokens)
        return real(task, model, batch, total_tokens, *given, **more)

    monkeypatch.setattr(speed, "add_gradient", add_gradient)
    speed.seconds_per_update(task, task.build(), Group(), 1)
    assert tokens == [sum(batches[:3])] * 3 + [sum(batches[3:])] * 3
    single = task.changed(["training.accumulate=1"])
    assert speed._key(task, task.build(), 2) != speed._key(single, task.build(), 2)


@pytest.mark.slow
@pytest.mark.usefixtures("two_threads")
def test_auto_measures_and_records(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    train(recipe("transformer"), train=TRAIN, valid=VALID, out=tmp_path / "auto", workers="auto")
    said = capfd.readouterr().err
    found = re.search(r"an update takes \S+ s in one process, \S+ s in 2.*: training in (\d), in (\w+)\.", said)
    assert found is not None, said
    machine = json.loads((tmp_path / "auto/metrics.json").read_text("utf-8"))["machine"]
    assert machine["workers"] == int(found[1])
    assert machine["threads"] == 2 // machine["workers"]
    assert Translator.load(tmp_path / "auto").recipe.training.precision == found[2]
    assert "not the same machine" not in said
    assert "Warning" not in said


# --- two ranks on one machine -------------------------------------------------------------------------------------


def test_two_workers_make_the_updates_of_one(tmp_path: Path) -> None:
    # SGD: Adam would blow up rounding errors of tiny gradients to whole steps.
    chosen = recipe("transformer", STILL, optimizer="sgd", learning_rate=0.1, accumulate=2, validate_every=6)
    train(chosen, train=TRAIN, valid=VALID, out=tmp_path / "one", progress=False)
    translator = train(chosen, train=TRAIN, valid=VALID, out=tmp_path / "two", progress=False, workers=2)
    assert isinstance(translator, Translator)
    assert 0 < distance(tmp_path / "one", tmp_path / "two") < 1e-5, "other sums, the same updates"
    for event in ("update", "validation"):
        ours, theirs = lines(tmp_path / "one", event), lines(tmp_path / "two", event)
        assert [each["update"] for each in ours] == [each["update"] for each in theirs]
        for one, two in zip(ours, theirs, strict=True):
            assert one["loss"] == pytest.approx(two["loss"], rel=1e-5)
    metrics = json.loads((tmp_path / "two/metrics.json").read_text("utf-8"))
    assert (metrics["machine"]["workers"], metrics["machine"]["threads"]) == (2, 1)
    assert metrics["tokens"] == json.loads((tmp_path / "one/metrics.json").read_text("utf-8"))["tokens"]


@LINUX
def test_a_dry_run_of_two_workers_measures_in_two() -> None:
    with mmap.mmap(-1, 7 * 10**8) as large:
        for place in range(0, len(large), mmap.PAGESIZE):
            large[place] = 1
        report = dry_run(recipe("transformer"), train=TRAIN, valid=VALID, workers=2, threads=1, progress=False)
    assert (report.workers, report.threads, report.precision) == (2, 1, "float32")
    assert report.seconds == pytest.approx(12 * report.seconds_per_update)
    assert report.memory is not None
    assert report.launcher_memory is not None
    assert report.memory < 7 * 10**8 < report.launcher_memory, "a worker's own memory, without that of this process"


@pytest.mark.slow
def test_two_trainings_are_equal_and_a_resume_keeps_the_workers(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    chosen = recipe("luong", updates=12, validate_every=4, average="last", keep=2)
    for name in ("first", "second"):
        train(chosen, train=TRAIN, valid=VALID, out=tmp_path / name, progress=False, workers=2)
    assert distance(tmp_path / "first", tmp_path / "second") == 0
    train(out=tmp_path / "second", resume=True, overrides=["training.updates=20"])
    assert "training in 2 processes" in capfd.readouterr().err
    train(out=tmp_path / "first", resume=True, overrides=["training.updates=20"], workers=1)
    assert "workers 2 before, 1 now" in capfd.readouterr().err


def images(kind: str) -> ClassifierRecipe | CaptionRecipe:
    steps = {"updates": 6, "warmup": 2, "optimizer": "sgd", "learning_rate": 0.1, "log_every": 2, "validate_every": 3}
    if kind == "captioner":
        sizes = {"image_size": 32, "channels": [8, 8, 16], "embedding_size": 8, "hidden_size": 12, "attention_size": 8}
        table = {"model": {"kind": "captioner", **sizes}, "training": {"batch_images": 8, **steps}}
        return check_as(CaptionRecipe, table, "test")
    sizes = {"hidden_size": 16, "heads": 2, "layers": 1, "patch_size": 8, "dropout": 0.0}
    return check_as(ClassifierRecipe, {"model": {"kind": kind, **sizes}, "training": steps}, "test")


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "data"), [("captioner", "toy:scenes:40"), ("vit", "toy:two-ears")])
def test_images_take_the_same_way(tmp_path: Path, kind: str, data: str) -> None:
    for name, workers in (("one", 1), ("two", 2), ("again", 2)):
        train(images(kind), train=data, out=tmp_path / name, progress=False, workers=workers)
    assert distance(tmp_path / "two", tmp_path / "again") == 0
    # batch normalisation takes the statistics of a rank's own rows, so a captioner's updates differ
    assert kind == "captioner" or distance(tmp_path / "one", tmp_path / "two") < 1e-4
    assert len(lines(tmp_path / "two", "validation")) == 2


# --- signals and kills, through the command -----------------------------------------------------------------------

LONG = (
    "updates = 400\nvalidate_every = 150\nlog_every = 10\nsave_every = 0.02\nbatch_tokens = 200\nwarmup = 20\n"
    "learning_rate = 0.001\n"
)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """A recipe, and files to train on."""
    sizes = 'kind = "transformer"\nhidden_size = 16\nencoder_layers = 1\ndecoder_layers = 1\nheads = 2\n'
    text = '[text]\ntokenizer = "word"\nmin_frequency = 1\njoint = true\n'
    (tmp_path / "tiny.toml").write_text(f"[model]\n{sizes}feedforward_size = 24\n{text}[training]\n{LONG}", "utf-8")
    for place, name in enumerate(("source", "target")):
        (tmp_path / name).write_text("".join(f"{pair[place]}\n" for pair in pairs(600)), "utf-8")
    source, target = str(tmp_path / "source"), str(tmp_path / "target")
    return ["train", str(tmp_path / "tiny.toml"), "--train", source, target, "--valid", source, target]


def start(command: list[str], log: Path) -> "subprocess.Popen[bytes]":
    with log.open("ab") as file:
        return subprocess.Popen([sys.executable, "-m", *command], cwd=ROOT, stderr=file, stdout=file)


def until(what: Callable[[], object], process: "subprocess.Popen[bytes]", seconds: float = 180) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert process.poll() is None, "it ended before"
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


def reached(out: Path, update: int) -> Callable[[], bool]:
    return lambda: (out / "log.jsonl").exists() and any(each["update"] >= update for each in lines(out, "update"))


def ranks_of(launcher: int) -> list[int]:
    """The ranks of a launcher, by rank."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            variables = dict(each.split("=", 1) for each in (entry / "environ").read_text().split("\0") if "=" in each)
        except (OSError, ValueError, UnicodeDecodeError):
            continue
        if parent == launcher and "RANK" in variables:
            found[int(variables["RANK"])] = int(entry.name)
    return [found[rank] for rank in sorted(found)]


@pytest.fixture
def whole(files: list[str], tmp_path: Path) -> Path:
    """The training that nothing disturbs."""
    out = tmp_path / "whole"
    subprocess.run([sys.executable, "-m", "regard", *files, "--out", str(out), "--workers", "2"], cwd=ROOT, check=True)
    return out


@LINUX
@pytest.mark.slow
def test_signals_save_and_kills_go_on_from_the_last_checkpoint(whole: Path, files: list[str], tmp_path: Path) -> None:
    out, log = tmp_path / "disturbed", tmp_path / "log"
    process = start(["regard", *files, "--out", str(out), "--workers", "2"], log)
    until(reached(out, 50), process)
    os.kill(ranks_of(process.pid)[1], signal.SIGKILL)
    until(lambda: "a worker was killed by SIGKILL: starting all again" in log.read_text("utf-8"), process)
    until(reached(out, 120), process)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert "stopped and saved after update" in log.read_text("utf-8")
    assert "torch/distributed" not in log.read_text("utf-8"), "we report what happens, torch's launcher need not"

    process = start(["regard", "train", "--resume", str(out)], log)
    until(reached(out, 200), process)
    os.kill(ranks_of(process.pid)[0], signal.SIGKILL)
    until(reached(out, 260), process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143

    process = start(["regard", "train", "--resume", str(out)], log)
    until(reached(out, 310), process)
    ranks = ranks_of(process.pid)
    process.kill()  # the launcher itself: its ranks save and end
    process.wait()
    end = time.monotonic() + 60
    while any(Path(f"/proc/{rank}").exists() for rank in ranks):
        assert time.monotonic() < end
        time.sleep(0.1)
    assert start(["regard", "train", "--resume", str(out)], log).wait(180) == 0
    assert distance(whole, out) == 0
    assert "Traceback" not in log.read_text("utf-8")


@LINUX
@pytest.mark.slow
def test_torchrun_restarts_from_the_last_checkpoint(whole: Path, files: list[str], tmp_path: Path) -> None:
    out, log = tmp_path / "torchrun", tmp_path / "log"
    agent = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "2", "-m"]
    process = start([*agent, "regard", *files, "--out", str(out)], log)
    until(reached(out, 60), process)
    os.kill(ranks_of(process.pid)[0], signal.SIGKILL)
    try:
        assert process.wait(180) == 0
    finally:
        process.terminate()
    assert distance(whole, out) == 0
    said = log.read_text("utf-8")
    assert "rank 1: waiting for rank 0 to prepare the training" in said
    assert "resuming after update" in said


@LINUX
@pytest.mark.slow
def test_an_error_in_the_ranks_is_one_line(files: list[str], tmp_path: Path) -> None:
    out, log = tmp_path / "bad", tmp_path / "log"
    hot = ["--workers", "2", "--set", "training.learning_rate=1e30", "--set", "training.optimizer=sgd"]
    assert start(["regard", *files, "--out", str(out), *hot], log).wait(180) == 2
    said = [line for line in log.read_text("utf-8").splitlines() if line.startswith("regard: error")]
    assert len(said) == 1
    assert "lower the rate" in said[0]
