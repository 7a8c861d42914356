"""A crash at any moment leaves a whole checkpoint; what is read is what was written."""

import errno
import math
import os
import random
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
from regard.storage.weights import model_tensors
from regard.training import checkpoint as checkpoint_module
from regard.training.checkpoint import Checkpoints, Loaded, Snapshot, TrainingState, average, sane_loss
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
    state = TrainingState(update=2, snapshots=[Snapshot(1, 0.1 + 0.2)], best_score=0.1 + 0.2)
    Checkpoints(tmp_path).keep_weights(state.snapshots[0], first)
    Checkpoints(tmp_path).save(state, first, half, MACHINE)
    second = small(seed=5, tie=tie)
    again = stepped(second, name, steps=0)
    assert Checkpoints(tmp_path).load(second, again) == Loaded(state, MACHINE, "checkpoint-00000001", [])
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
        old = TrainingState(update=1, snapshots=[Snapshot(1, 1.0)])
        store.keep_weights(old.snapshots[0], model)
        store.save(old, model, optimizer, MACHINE)
        new = TrainingState(update=2, snapshots=[Snapshot(2, 2.0)])
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
        state = store.load(again, stepped(again, steps=0)).state
        assert state in (old, new)
        assert store.kept_weights(state.snapshots[0]).keys() == model_tensors(model).keys()
        for name, tensor in model_tensors(again).items():
            assert torch.equal(tensor, model_tensors(model)[name])
        # loading clears away what the crash left behind
        names = {path.name for path in folder.iterdir()}
        assert len(names) == (4 if state == new else 2), names
        if finished:
            break
    assert state == new
    assert crashes > 10


def saved(folder: Path, *updates: int, good: bool = True) -> Checkpoints:
    """Checkpoints of these updates, the weights of each all equal to its number."""
    store = Checkpoints(folder)
    for update in updates:
        model = small()
        optimizer = stepped(model)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.fill_(update)
        state = TrainingState(update=update, snapshots=[Snapshot(update, 1.0)])
        store.keep_weights(state.snapshots[0], model)
        store.save(state, model, optimizer, MACHINE, good)
    return store


def loaded(folder: Path) -> tuple[Loaded, float]:
    """What is loaded, and the weights' one value."""
    model = small(seed=9)
    found = Checkpoints(folder).load(model, stepped(model, steps=0))
    values = {float(value) for parameter in model.parameters() for value in parameter.detach().flatten()}
    assert len(values) == 1
    return found, values.pop()


def test_two_checkpoints_are_kept_the_older_one_known_to_be_good(tmp_path: Path) -> None:
    store = saved(tmp_path, 1, 2, 3)
    assert [path.name for path in store.all()] == ["checkpoint-00000002", "checkpoint-00000003"]
    saved(tmp_path, 4, 5, 6, good=False)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [
        "checkpoint-00000003",
        "checkpoint-00000006",
        "weights-00000003.safetensors",
        "weights-00000006.safetensors",
    ]


def test_a_sane_loss_of_the_next_update_makes_a_checkpoint_good(tmp_path: Path) -> None:
    store = saved(tmp_path, 1, good=False)
    store.prove(sane=False)
    store.prove(sane=True)  # of later weights
    assert not list(tmp_path.glob("*/good"))
    store = saved(tmp_path, 2, good=False)
    store.prove(sane=True)
    assert [path.parent.name for path in tmp_path.glob("*/good")] == ["checkpoint-00000002"]


def test_after_a_nan_the_last_good_checkpoint_is_the_newest(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2)
    store = saved(tmp_path, 3, good=False)
    assert store.only_good() == 2
    found, value = loaded(tmp_path)
    assert (found.state.update, value, found.damaged) == (2, 2.0, [])
    saved(tmp_path, 4)
    assert [path.name for path in store.all()] == ["checkpoint-00000002", "checkpoint-00000004"]
    assert not list(tmp_path.glob("aside-*"))


def test_what_a_sane_loss_is() -> None:
    assert sane_loss(math.log(1000), 1000, None)
    assert not sane_loss(3 * math.log(1000), 1000, None)
    assert sane_loss(3 * math.log(1000), 1000, 2 * math.log(1000))
    assert not sane_loss(math.nan, 1000, 5.0)


def test_any_damage_is_found_and_the_checkpoint_before_is_taken(tmp_path: Path) -> None:
    """One bit, one byte less, one more, nothing, no file, a folder or a FIFO in its place."""
    generator = random.Random(1)
    (tmp_path / "whole").mkdir()
    saved(tmp_path / "whole", 1, 2)
    names = ["state.json", "model.safetensors", "optimizer.safetensors", "checksums.json"]
    for number in range(80):
        folder = tmp_path / str(number)
        shutil.copytree(tmp_path / "whole", folder)
        path = folder / "checkpoint-00000002" / names[number % 4]
        if number % 10 == 9:
            path = folder / "weights-00000002.safetensors"
        damage(path, number // 4 % 7, generator)
        found, value = loaded(folder)
        assert (found.state.update, value, found.name) == (1, 1.0, "checkpoint-00000001"), path
        (fault,) = found.damaged
        assert str(folder) in fault
        assert loaded(folder)[0].damaged == []  # said once


def damage(path: Path, how: int, generator: random.Random) -> None:
    content = bytearray(path.read_bytes())
    place = generator.randrange(len(content))
    path.unlink()
    match how:
        case 0 | 1:
            content[place] ^= 1 << generator.randrange(8)
        case 2:
            del content[place:]
        case 3:
            content.append(0 if path.suffix != ".json" else ord("x"))
        case 4:
            return
        case 5:
            path.mkdir()
            return
        case 6:
            os.mkfifo(path)
            return
    path.write_bytes(content)


def test_when_every_checkpoint_is_damaged_that_is_one_line(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2)
    for path in tmp_path.glob("checkpoint-*/model.safetensors"):
        path.write_bytes(b"")
    model = small()
    with pytest.raises(
        ModelFolderError, match=r"no intact checkpoint.*checksum differs\)\): start a new training with --"
    ):
        Checkpoints(tmp_path).load(model, stepped(model))


def test_weights_that_all_checkpoints_name_may_be_lost(tmp_path: Path) -> None:
    store = saved(tmp_path, 1)
    model = small()
    store.save(
        TrainingState(update=2, best_score=1.0, snapshots=store._read(store.all()[0])[0].snapshots),
        model,
        stepped(model),
        MACHINE,
    )
    (tmp_path / "weights-00000001.safetensors").unlink()
    again = small(seed=4)
    found = store.load(again, stepped(again, steps=0))
    assert (found.state.update, found.state.snapshots, found.state.best_score) == (2, [], None)
    assert "weights-00000001.safetensors: is missing" in found.damaged[0]


def test_a_state_of_wrong_types_is_refused() -> None:
    for name, value in (("update", "1"), ("update", True), ("seconds", None), ("snapshots", [1]), ("snapshots", {})):
        with pytest.raises(ModelFolderError, match="the checkpoint's"):
            TrainingState.from_dict({**TrainingState().to_dict(), name: value})


@pytest.mark.parametrize("written", range(8))
def test_a_full_disk_keeps_the_checkpoint_before_and_gives_its_space_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    model = small()
    optimizer = stepped(model)
    store = Checkpoints(tmp_path)
    store.save(TrainingState(update=1), model, optimizer, MACHINE)
    calls = [0]

    def full(descriptor: int) -> None:
        calls[0] += 1
        if calls[0] > written:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            store.save(TrainingState(update=2), model, optimizer, MACHINE)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-00000001"]
    assert store.load(model, optimizer).state.update == 1


def test_a_folder_without_a_checkpoint_says_so(tmp_path: Path) -> None:
    model = small()
    with pytest.raises(ModelFolderError, match="holds no intact checkpoint to resume from: start a new training"):
        Checkpoints(tmp_path).load(model, stepped(model))


def test_a_state_of_another_version_is_refused() -> None:
    with pytest.raises(ModelFolderError, match="'novelty' does not fit this version"):
        TrainingState.from_dict({**TrainingState().to_dict(), "novelty": 1})


def test_the_average_of_weights() -> None:
    sets = [{"w": torch.tensor([1.0, value]), "n": torch.tensor(value)} for value in (1, 2, 6)]
    mean = average(sets)
    assert torch.equal(mean["w"], torch.tensor([1.0, 3.0]))
    assert mean["w"].dtype == torch.float32
    assert mean["n"] == 6


def test_nothing_is_pickled(tmp_path: Path) -> None:
    model = small()
    Checkpoints(tmp_path).save(TrainingState(), model, stepped(model), MACHINE)
    names = {path.suffix for path in tmp_path.rglob("*") if path.is_file()}  # and `good`, which is empty
    assert names == {".json", ".safetensors"}
    assert "pickle" not in Path(checkpoint_module.__file__).read_text("utf-8")
