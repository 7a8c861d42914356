"""Model folders: what is written can be read, and what is damaged is named."""

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from regard.config.recipes import check_recipe
from regard.config.settings import Recipe, TextSettings
from regard.data.text.tokenizer import Tokenizer
from regard.errors import ModelFolderError
from regard.inference.folder import read_folder, write_folder
from regard.models import build_model
from regard.storage.folder import remove_training
from regard.storage.weights import load_tensors, model_tensors

RECIPE = check_recipe(
    {
        "model": {
            "kind": "bahdanau",
            "embedding_size": 4,
            "hidden_size": 6,
            "attention_size": 5,
            "maxout_size": 4,
            "tie_embeddings": "target",
        },
        "text": {"tokenizer": "word", "min_frequency": 1},
        "training": {"updates": 1},
    },
    "test",
)
SOURCE = Tokenizer.train(["a b c", "b c"], TextSettings(tokenizer="word", min_frequency=1))
TARGET = Tokenizer.train(["x y z w v"], TextSettings(tokenizer="word", min_frequency=1))


def write(path: Path, recipe: Recipe = RECIPE, joint: bool = False) -> None:
    torch.manual_seed(0)
    target = SOURCE if joint else TARGET
    model = build_model(recipe.model, SOURCE.size, target.size)
    write_folder(
        path,
        recipe=recipe,
        source_tokenizer=SOURCE,
        target_tokenizer=target,
        weights=model_tensors(model),
        metrics={"updates": 1},
        card="# card\n",
        fingerprint=np.array([1, 2], dtype=np.uint64),
    )


@pytest.mark.parametrize("joint", [False, True])
def test_what_is_written_is_read(tmp_path: Path, joint: bool) -> None:
    path = tmp_path / "model"
    write(path, joint=joint)
    folder = read_folder(path)
    assert folder.recipe == RECIPE
    assert folder.metrics == {"updates": 1}
    assert (folder.source_tokenizer is folder.target_tokenizer) == joint
    assert folder.source_tokenizer.encode("b a") == SOURCE.encode("b a")
    torch.manual_seed(0)
    wanted = build_model(RECIPE.model, SOURCE.size, (SOURCE if joint else TARGET).size)
    model = folder.model()
    assert not model.training
    for name, tensor in model_tensors(wanted).items():
        assert torch.equal(tensor, model_tensors(model)[name]), name


def test_shared_weights_are_written_once(tmp_path: Path) -> None:
    write(tmp_path)
    tensors = safetensors.torch.load_file(tmp_path / "model.safetensors")
    shapes = [tuple(tensor.shape) for tensor in tensors.values()]
    assert shapes.count((TARGET.size, 4)) == 1  # the target embedding is the output matrix too
    model = read_folder(tmp_path).model()
    assert len(model_tensors(model)) < len(model.state_dict())


def test_config_is_written_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    import regard.storage.files as files

    real = files.os.replace

    def replace(source: Path, target: Path) -> None:
        order.append(Path(target).name)
        real(source, target)

    monkeypatch.setattr(files.os, "replace", replace)
    write(tmp_path)
    assert order[-1] == "config.json"
    assert not list(tmp_path.glob(".*"))


def test_a_half_written_folder_is_no_model(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "config.json").unlink()
    with pytest.raises(ModelFolderError, match=r"holds no model \(config.json is missing\)"):
        read_folder(tmp_path)
    (tmp_path / "training").mkdir()
    with pytest.raises(ModelFolderError, match="not finished: resume it with `regard train --resume"):
        read_folder(tmp_path)


@pytest.mark.parametrize("name", ["model.safetensors", "source.tokenizer.json", "target.tokenizer.json", "config.json"])
def test_a_missing_or_truncated_file_is_named(tmp_path: Path, name: str) -> None:
    write(tmp_path)
    content = (tmp_path / name).read_bytes()
    for length in (0, 1, len(content) // 2, len(content) - 3):
        (tmp_path / name).write_bytes(content[:length])
        with pytest.raises(ModelFolderError, match=name) as caught:
            read_folder(tmp_path).model()
        assert "\n" not in str(caught.value)
    (tmp_path / name).unlink()
    with pytest.raises(ModelFolderError, match=name):
        read_folder(tmp_path).model()


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    write(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["model"]["hidden_size"] = 8
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelFolderError, match=r"model.safetensors: the tensor .* has the shape .* needs"):
        read_folder(tmp_path).model()
    model = build_model(RECIPE.model, SOURCE.size, TARGET.size)
    tensors = dict(model_tensors(model))
    name = min(tensors)
    with pytest.raises(ModelFolderError, match=f"the tensor {name} is missing"):
        load_tensors(model, {key: value for key, value in tensors.items() if key != name}, "here")
    with pytest.raises(ModelFolderError, match="the tensor odd is not part of the model"):
        load_tensors(model, {**tensors, "odd": torch.zeros(1)}, "here")


def test_folders_from_before_a_change_say_how_to_bring_them_over() -> None:
    settings = RECIPE.model.model_copy(update={"layer_norm": True})
    model = build_model(settings, SOURCE.size, TARGET.size)
    old = {
        name.replace(".gates.", "."): value for name, value in model_tensors(model).items() if ".candidate." not in name
    }
    with pytest.raises(ModelFolderError, match=r"layer normalisation covered a GRU.*: train it again\.$"):
        load_tensors(model, old, "here")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"regard": {"format": 99, "version": "9.0"}}, r"has format 99 \(Regard 9.0\).*update Regard"),
        ({"regard": {"format": 0, "version": "0.0"}}, "train the model again"),
        ({"regard": None}, "was not written by Regard"),
        ({"surprise": 1}, "unknown key 'surprise'"),
    ],
)
def test_a_config_of_another_kind_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    write(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(ModelFolderError, match=message):
        read_folder(tmp_path)


def test_what_is_no_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match="there is no such model folder"):
        read_folder(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelFolderError, match="is a file, not a model folder"):
        read_folder(tmp_path / "file")


def test_a_model_of_the_users_own_class_needs_the_user(tmp_path: Path) -> None:
    model = build_model(RECIPE.model, SOURCE.size, TARGET.size)
    write_folder(
        tmp_path,
        recipe=RECIPE,
        source_tokenizer=SOURCE,
        target_tokenizer=TARGET,
        weights=model_tensors(model),
        metrics={},
        card="",
        model_class="mine.Model",
    )
    with pytest.raises(ModelFolderError, match=r"class mine\.Model, which Regard cannot build"):
        read_folder(tmp_path).model()
    assert read_folder(tmp_path).model(model) is model


def test_an_interrupted_removal_leaves_no_half_of_a_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training, other = tmp_path / "training", tmp_path / "mine.txt"
    training.mkdir()
    for path in (training / "run.json", training / "state", other):
        path.touch()

    def interrupted(path: Path, ignore_errors: bool) -> None:
        if path.exists():
            (path / "run.json").unlink()
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("regard.storage.folder.shutil.rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            remove_training(tmp_path)
    assert not training.exists()
    remove_training(tmp_path)
    assert list(tmp_path.iterdir()) == [other]
