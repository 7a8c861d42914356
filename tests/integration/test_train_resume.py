"""A training that is broken off and resumed equals the unbroken one, bit for bit."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from training_help import pairs, recipe

from regard.config.settings import Recipe
from regard.errors import ConfigError, ModelFolderError, TrainingError
from regard.storage.files import checked_files, write_checksums
from regard.training import Interrupted, train
from regard.training import loop as loop_module
from regard.training import saving as saving_module
from regard.training import selection as selection_module
from regard.training.checkpoint import Snapshot

TRAIN, VALID = pairs(150), pairs(15, seed=1)


class Killed(BaseException):
    """Stands for SIGKILL: nothing is saved or cleaned up by the code under test."""


def run_to_end(out: Path, chosen: Recipe, **more: Any) -> None:
    train(chosen, train=TRAIN, valid=VALID, out=out, progress=False, **more)


def killed_at(update: int, out: Path, chosen: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """Train until the update begins, and die."""
    real = loop_module.seed_of

    def seed_of(seed: int, number: int) -> int:
        if number == update:
            raise Killed
        return real(seed, number)

    with monkeypatch.context() as patch:
        patch.setattr(loop_module, "seed_of", seed_of)
        with pytest.raises(Killed):
            run_to_end(out, chosen)


def save_after(update: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the timed checkpoint fall due once, before the update after this one."""
    saved: list[int] = []
    real = loop_module.validation_is_due

    def due(run: Any) -> bool:
        if run.state.update == update and not saved and not real(run):
            saving_module.save(run)
            saved.append(update)
        return real(run)

    monkeypatch.setattr(loop_module, "validation_is_due", due)


def everything(out: Path) -> dict[str, Any]:
    """All that must be equal: weights, optimizer, kept weights, the state but for the clock, and the log."""
    checkpoint = max((out / "training").glob("checkpoint-*"))
    state = json.loads((checkpoint / "state.json").read_text())["state"]
    kept = [out / "training" / Snapshot(**each).file for each in state["snapshots"]]
    files = [out / "model.safetensors", *checkpoint.glob("*.safetensors"), *kept]
    found: dict[str, Any] = {path.name: path.read_bytes() for path in files}
    found["state"] = {name: value for name, value in state.items() if "seconds" not in name}
    clocks = ("time", "seconds", "tokens_per_second")
    found["log"] = [
        {name: value for name, value in json.loads(line).items() if name not in clocks}
        for line in (out / "log.jsonl").read_text().splitlines()
    ]
    return found


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "plateau, early stopping, averaging": {
        "schedule": "plateau",
        "plateau_patience": 0,
        "patience": 3,
        "validate_every": 2,
        "average": "best",
        "keep": 2,
        "learning_rate": 0.05,
    },
    "accumulation, sampling, adamw": {
        "accumulate": 3,
        "scheduled_sampling": 0.5,
        "optimizer": "adamw",
        "weight_decay": 0.01,
        "average": "last",
        "keep": 3,
        "validate_every": 3,
    },
    "guided attention": {"guided_attention": 0.5},
    "R-Drop": {"r_drop": 5.0, "accumulate": 2, "guided_attention": 0.5},
    "adadelta": {"optimizer": "adadelta", "learning_rate": 1.0},
    "sgd by loss": {"optimizer": "sgd", "select_by": "loss", "validation_bleu": False, "clip_norm": None},
}


@pytest.mark.parametrize("kind", ["seq2seq", "bahdanau", "luong", "gnmt", "transformer"])
def test_every_model_resumes_bit_for_bit(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = recipe(kind, {"dropout": 0.3})
    run_to_end(tmp_path / "whole", chosen)
    save_after(5, monkeypatch)  # in the middle of an epoch
    killed_at(8, tmp_path / "broken", chosen, monkeypatch)
    train(out=tmp_path / "broken", resume=True, progress=False)
    assert everything(tmp_path / "broken") == everything(tmp_path / "whole")


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_every_option_resumes_bit_for_bit(
    tmp_path: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = recipe(**options)
    run_to_end(tmp_path / "whole", chosen)
    save_after(5, monkeypatch)
    killed_at(7, tmp_path / "broken", chosen, monkeypatch)
    train(out=tmp_path / "broken", resume=True, progress=False)
    assert everything(tmp_path / "broken") == everything(tmp_path / "whole")


def test_a_death_before_the_first_timed_checkpoint_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = recipe()
    run_to_end(tmp_path / "whole", chosen)
    killed_at(1, tmp_path / "broken", chosen, monkeypatch)
    killed = tmp_path / "broken"
    with pytest.raises(ModelFolderError, match=r"holds an unfinished training: resume it with `regard train --resume"):
        run_to_end(killed, chosen)
    train(out=killed, resume=True, progress=False)
    assert everything(killed) == everything(tmp_path / "whole")


def test_a_kill_right_after_the_folder_appears_can_be_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """run.json never stands without a checkpoint."""
    chosen = recipe()
    run_to_end(tmp_path / "whole", chosen)
    broken = tmp_path / "broken"
    before, after = "before", "after"
    for moment in (before, after):
        real = Path.rename

        def rename(self: Path, target: Path, moment: str = moment, real: Any = real) -> Path:
            if self.name == ".training.part" and moment == before:
                os._exit(9)
            moved: Path = real(self, target)
            if self.name == ".training.part":
                os._exit(9)
            return moved

        if (child := os.fork()) == 0:
            monkeypatch.setattr(Path, "rename", rename)
            run_to_end(broken, chosen)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        assert (broken / "training").exists() == (moment == after)
    with pytest.raises(ModelFolderError, match="holds an unfinished training: resume it with"):
        run_to_end(broken, chosen)
    train(out=broken, resume=True, progress=False)
    assert everything(broken) == everything(tmp_path / "whole")


def test_a_training_without_any_checkpoint_is_no_dead_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_at(2, tmp_path, recipe(), monkeypatch)
    for path in (tmp_path / "training").glob("checkpoint-*"):
        shutil.rmtree(path)
    with pytest.raises(ModelFolderError, match="no intact checkpoint to resume from: start a new training"):
        train(out=tmp_path, resume=True, progress=False)
    with pytest.raises(ModelFolderError, match="a training without a checkpoint: add --overwrite"):
        run_to_end(tmp_path, recipe())
    run_to_end(tmp_path, recipe(), overwrite=True)


def test_a_damaged_checkpoint_falls_back_to_the_one_before_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_to_end(tmp_path / "whole", recipe())
    broken = tmp_path / "broken"
    save_after(5, monkeypatch)
    killed_at(8, broken, recipe(), monkeypatch)
    newest = max((broken / "training").glob("checkpoint-*"))
    weights = newest / "optimizer.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    train(out=broken, resume=True)
    said = capsys.readouterr().err
    assert f"warning: {weights}: is damaged (its checksum differs)." in said
    assert "resuming after update 0, from checkpoint-00000001" in said
    assert everything(broken) == everything(tmp_path / "whole")


def test_any_damage_of_the_prepared_corpus_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_at(3, tmp_path, recipe(guided_attention=0.5), monkeypatch)
    folder = tmp_path / "training"
    files = [path for path in folder.rglob("*") if path.is_file() and "checkpoint-" not in str(path)]
    assert len(files) > 15
    for path in files:
        whole = path.read_bytes()
        for damaged in (whole[:-3], whole[:9] + bytes([whole[9] ^ 1]) + whole[10:], None):
            path.unlink()
            if damaged is not None:
                path.write_bytes(damaged)
            with pytest.raises(ModelFolderError, match=path.name if path.name != "run.json" else "run.json|holds no"):
                train(out=tmp_path, resume=True, progress=False)
            path.write_bytes(whole)
    assert train(out=tmp_path, resume=True, progress=False).metrics["updates"] == 12


def test_a_changed_recipe_keeps_its_checksum_through_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_at(3, tmp_path, recipe(), monkeypatch)
    for calls in range(3):
        real, done = os.replace, [0]

        def replace(source: Any, target: Any, calls: int = calls, real: Any = real, done: list[int] = done) -> None:
            if done[0] == calls:
                raise Killed
            done[0] += 1
            real(source, target)

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", replace)
            with pytest.raises(Killed):
                train(out=tmp_path, resume=True, progress=False, overrides=["training.learning_rate=0.02"])
    assert train(out=tmp_path, resume=True, progress=False).metrics["updates"] == 12


def test_a_nan_takes_back_what_the_updates_before_it_ruined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints at 3 (sane), 6 and 8 (finite, but ruined), then a NaN at 10."""

    def save_often(run: Any) -> bool:
        if run.state.update in (3, 6, 8):
            saving_module.save(run)
        if run.state.update in (5, 9):
            factor = 300.0 if run.state.update == 5 else float("nan")
            with torch.no_grad():
                for parameter in run.model.parameters():
                    parameter.mul_(factor)
        return False

    with monkeypatch.context() as patch:
        patch.setattr(loop_module, "validation_is_due", save_often)
        with pytest.raises(TrainingError, match=r"update 10: the loss is nan.* of update 3, is kept"):
            run_to_end(tmp_path, recipe())
    state = json.loads((max((tmp_path / "training").glob("checkpoint-*")) / "state.json").read_text())["state"]
    assert state["update"] == 3
    train(out=tmp_path, resume=True, progress=False)
    run_to_end(tmp_path / "whole", recipe())
    assert everything(tmp_path)["model.safetensors"] == everything(tmp_path / "whole")["model.safetensors"]


def test_different_seeds_differ_and_the_same_seed_does_not(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run_to_end(tmp_path / name, recipe(seed=seed, updates=4))
    first, second, third = (everything(tmp_path / name)["model.safetensors"] for name in "abc")
    assert first == second
    assert first != third


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = recipe(validate_every=4)
    run_to_end(tmp_path / "whole", chosen)
    broken = tmp_path / "broken"
    real = loop_module.seed_of

    def seed_of(seed: int, number: int) -> int:
        if number == 6:
            os.kill(os.getpid(), signal.SIGINT)
        return real(seed, number)

    with monkeypatch.context() as patch:
        patch.setattr(loop_module, "seed_of", seed_of)
        advice = rf"saved after update 6\..*best model.*`regard train --resume {broken}( --threads \d+)?`"
        with pytest.raises(Interrupted, match=advice):
            run_to_end(broken, chosen)
    train(out=broken, resume=True, progress=False)
    assert everything(broken) == everything(tmp_path / "whole")


def test_ctrl_c_during_validation_validates_again_on_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = recipe(validate_every=4)
    run_to_end(tmp_path / "whole", chosen)
    broken = tmp_path / "broken"
    real = saving_module.stop_if_asked

    def stop_if_asked(run: Any) -> Any:
        if run.state.update == 8:
            os.kill(os.getpid(), signal.SIGTERM)
        return real(run)

    with monkeypatch.context() as patch:
        patch.setattr(selection_module, "stop_if_asked", stop_if_asked)
        with pytest.raises(Interrupted, match="after update 8") as caught:
            run_to_end(broken, chosen)
    assert caught.value.exit_code == 143
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    train(out=broken, resume=True, progress=False)
    assert everything(broken) == everything(tmp_path / "whole")


def test_ctrl_c_before_the_first_update_leaves_nothing(tmp_path: Path) -> None:
    def impatient() -> Any:
        yield from TRAIN
        os.kill(os.getpid(), signal.SIGINT)
        yield from TRAIN

    with pytest.raises(Interrupted, match="before an update was made") as caught:
        train(recipe(), train=impatient(), out=tmp_path / "out", progress=False)
    assert not caught.value.saved
    assert not list(tmp_path.iterdir())


def test_a_finished_training_can_be_made_longer_but_not_changed(tmp_path: Path) -> None:
    constant = {"schedule": "constant", "validate_every": 4}
    run_to_end(tmp_path / "whole", recipe(updates=12, **constant))
    out = tmp_path / "longer"
    run_to_end(out, recipe(updates=8, **constant))
    with pytest.raises(ModelFolderError, match=r"finished \(update 8\): to train longer, `regard train --resume"):
        train(out=out, resume=True, progress=False)
    with pytest.raises(ConfigError, match="model and text of a training cannot be changed"):
        train(out=out, resume=True, overrides=["model.hidden_size=8"], progress=False)
    train(out=out, resume=True, overrides=["training.updates=12"], progress=False)
    longer, whole = everything(out), everything(tmp_path / "whole")
    assert longer["model.safetensors"] == whole["model.safetensors"]
    assert longer["state"] == whole["state"]


def test_larger_batches_on_resume_end_an_epoch_that_has_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_after(6, monkeypatch)
    killed_at(8, tmp_path, recipe(updates=14), monkeypatch)
    state = max((tmp_path / "training").glob("checkpoint-*/state.json"))
    assert json.loads(state.read_text())["state"]["position"] == 6
    resumed = train(out=tmp_path, resume=True, progress=False, overrides=["training.batch_tokens=1000"])
    assert resumed.metrics["updates"] == 14


def test_another_thread_count_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    killed_at(3, tmp_path, recipe(), monkeypatch)
    (state,) = (tmp_path / "training").glob("checkpoint-*/state.json")
    record = json.loads(state.read_text())
    record["machine"]["threads"] = 99
    state.write_text(json.dumps(record))
    write_checksums(state.parent, checked_files(state.parent))
    train(out=tmp_path, resume=True)
    assert "warning: not the same machine (threads 99 before, " in capsys.readouterr().err


def test_resuming_nothing_says_so(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match="holds no unfinished training: start one"):
        train(out=tmp_path / "nothing", resume=True, progress=False)
    assert not (tmp_path / "nothing").exists()


@pytest.mark.slow
def test_sigkill_and_sigterm_of_a_real_process(tmp_path: Path) -> None:
    """100 updates = killed, terminated, resumed ones, through the command line."""
    corpus = tmp_path / "corpus.tsv"
    corpus.write_text("".join(f"{source}\t{target}\n" for source, target in pairs(400)))
    fields = {
        "text.tokenizer": "word",
        "model.hidden_size": "16",
        "model.embedding_size": "16",
        "model.attention_size": "16",
        "model.maxout_size": "16",
        "training.updates": "100",
        "training.batch_tokens": "128",
        "training.warmup": "10",
        "training.log_every": "5",
        "training.save_every": "0.01",
    }
    settings = [word for key, value in fields.items() for word in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "regard", "train", "--threads", "1"]
    start = [*command, "bahdanau", "--train", str(corpus), *settings, "--out"]
    subprocess.run([*start, str(tmp_path / "whole")], check=True)

    out = tmp_path / "broken"
    for number, (arguments, lines) in enumerate([([*start, str(out)], 4), ([*command, "--resume", str(out)], 8)]):
        process = subprocess.Popen(arguments)
        while not (out / "log.jsonl").exists() or (out / "log.jsonl").read_text().count("\n") < lines:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL if number == 0 else signal.SIGTERM)
        assert process.wait(60) == (-signal.SIGKILL if number == 0 else 143)
    subprocess.run([*command, "--resume", str(out)], check=True)
    assert everything(out) == everything(tmp_path / "whole")
