"""A crash at any moment leaves a whole checkpoint; what is read is what was written."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.optim import Optimizer

from regard.config.models import BahdanauSettings
from regard.config.settings import TrainingSettings
from regard.errors import ModelFolderError
from regard.models import build_model
from regard.models.contract import Model
from regard.storage import files
from regard.storage.folder import model_tensors
from regard.training import checkpoint as checkpoint_module
from regard.training.checkpoint import Checkpoints, Snapshot, State, average
from regard.training.optimizer import build_optimizer

MACHINE: dict[str, str | int] = {"cpu": "x", "threads": 1}


def small(seed: int = 0, tie: str = "none") -> Model:
    torch.manual_seed(seed)
    settings = BahdanauSettings.model_validate(
        {"embedding_size": 4, "hidden_size": 6, "attention_size": 5, "maxout_size": 4, "tie_embeddings": tie}
    )
    return build_model(settings, 9, 9)


def stepped(model: Model, name: str = "adam", steps: int = 3) -> Optimizer:
    optimizer = build_optimizer(model, TrainingSettings.model_validate({"updates": 1, "optimizer": name}))
    for step in range(steps):
        torch.manual_seed(step)
        for parameter in model.parameters():
            parameter.grad = torch.randn_like(parameter)
        optimizer.step()
    return optimizer


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
@pytest.mark.parametrize("tie", ["none", "all"])
def test_model_and_optimizer_go_on_bit_for_bit(tmp_path: Path, name: str, tie: str) -> None:
    unbroken = small(tie=tie)
    stepped(unbroken, name, steps=3)
    first = small(tie=tie)
    half = stepped(first, name, steps=2)
    state = State(update=2, snapshots=[Snapshot(1, 0.1 + 0.2)], best_score=0.1 + 0.2)
    Checkpoints(tmp_path).save(state, first, half, MACHINE)
    second = small(seed=5, tie=tie)
    again = stepped(second, name, steps=0)
    assert Checkpoints(tmp_path).load(second, again) == (state, MACHINE)
    torch.manual_seed(2)
    for parameter in second.parameters():
        parameter.grad = torch.randn_like(parameter)
    again.step()
    for ours, theirs in zip(second.parameters(), unbroken.parameters(), strict=True):
        assert torch.equal(ours, theirs)


class Crash(BaseException):
    """The machine died."""


def crash_at(count: int) -> Callable[[], None]:
    left = [count]

    def step() -> None:
        if left[0] == 0:
            raise Crash
        left[0] -= 1

    return step


def after(step: Callable[[], None], real: Callable[..., object]) -> Callable[..., object]:
    def call(*given: object, **named: object) -> object:
        step()
        return real(*given, **named)

    return call


def test_a_crash_before_or_after_any_system_call_leaves_a_whole_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every fsync, rename and removal of a save is where the machine may die; nothing is cleaned up after it."""
    model = small()
    optimizer = stepped(model)
    crashes = 0
    for moment in range(100):
        folder = tmp_path / str(moment)
        folder.mkdir()
        store = Checkpoints(folder)
        old = State(update=1, snapshots=[Snapshot(1, 1.0)])
        store.keep_weights(old.snapshots[0], model)
        store.save(old, model, optimizer, MACHINE)
        new = State(update=2, snapshots=[Snapshot(2, 2.0)])
        with monkeypatch.context() as patch:
            step = crash_at(moment)
            for module, name in (
                (os, "fsync"),
                (os, "replace"),
                (os, "rename"),
                (shutil, "rmtree"),
                (Path, "unlink"),
                (Path, "mkdir"),
            ):
                patch.setattr(module, name, after(step, getattr(module, name)))
            try:
                store.keep_weights(new.snapshots[0], model)
                store.save(new, model, optimizer, MACHINE)
                finished = True
            except Crash:
                finished = False
                crashes += 1
        again = small(seed=3)
        state, _ = store.load(again, stepped(again, steps=0))
        assert state in (old, new)
        assert store.kept_weights(state.snapshots[0]).keys() == model_tensors(model).keys()
        for name, tensor in model_tensors(again).items():
            assert torch.equal(tensor, model_tensors(model)[name])
        # loading clears away what the crash left behind
        names = {path.name for path in folder.iterdir()}
        assert len(names) == 2, names
        if finished:
            break
    assert state == new
    assert crashes > 10


@pytest.mark.parametrize("written", range(6))
def test_a_full_disk_keeps_the_checkpoint_before_and_gives_its_space_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    model = small()
    optimizer = stepped(model)
    store = Checkpoints(tmp_path)
    store.save(State(update=1), model, optimizer, MACHINE)
    calls = [0]

    def full(descriptor: int) -> None:
        calls[0] += 1
        if calls[0] > written:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            store.save(State(update=2), model, optimizer, MACHINE)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-00000001"]
    assert store.load(model, optimizer)[0].update == 1


def test_a_folder_without_a_checkpoint_says_so(tmp_path: Path) -> None:
    model = small()
    with pytest.raises(ModelFolderError, match="holds no checkpoint to go on from: start training anew"):
        Checkpoints(tmp_path).load(model, stepped(model))


def test_a_state_of_another_version_is_refused() -> None:
    with pytest.raises(ModelFolderError, match="'novelty' does not fit this version"):
        State.from_dict({**State().to_dict(), "novelty": 1})


def test_the_average_of_weights() -> None:
    sets = [{"w": torch.tensor([1.0, value]), "n": torch.tensor(value)} for value in (1, 2, 6)]
    mean = average(sets)
    assert torch.equal(mean["w"], torch.tensor([1.0, 3.0]))
    assert mean["w"].dtype == torch.float32
    assert mean["n"] == 6


def test_nothing_is_pickled(tmp_path: Path) -> None:
    model = small()
    Checkpoints(tmp_path).save(State(), model, stepped(model), MACHINE)
    names = {path.suffix for path in tmp_path.rglob("*") if path.is_file()}
    assert names == {".json", ".safetensors"}
    assert "pickle" not in Path(checkpoint_module.__file__).read_text("utf-8")
