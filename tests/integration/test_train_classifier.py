"""Classifiers from images to a folder and back: through the one loop, resumed bit for bit, from the command line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.cli import main
from regard.config.classification import ClassifierRecipe
from regard.config.recipes import load_recipe, recipe_names
from regard.data.images.image_set import ImageSet
from regard.errors import ConfigError, DataError, ModelFolderError, NoAttention, TrainingError
from regard.inference.classifier import Classifier
from regard.look.views.image_maps import rows_of, save_look
from regard.models.image_classifier import Network
from regard.training import Interrupted, train
from regard.training import loop as loop_module
from regard.training import saving as saving_module
from regard.training.checkpoint import Snapshot


def picture_of(path: Path) -> tuple[int, int]:
    """The width and the frames of a picture."""
    with Image.open(path) as opened:
        return opened.width, getattr(opened, "n_frames", 1)


def bright_or_dark(count: int = 96, seed: int = 0) -> ImageSet:
    """12 x 12 images whose left or right half is bright: learned in some updates."""
    generator = np.random.default_rng(seed)
    labels = np.arange(count) % 2
    images = generator.integers(0, 60, (count, 1, 12, 12), dtype=np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[0, :, 6 * label : 6 * label + 6] += 150
    return ImageSet(images, labels.astype(np.int64), ("left", "right"))


def recipe(attention: str = "bam", **training: Any) -> ClassifierRecipe:
    model: dict[str, Any] = {"kind": "resnet", "attention": attention, "channels": [8, 8], "blocks": 1}
    if attention == "vit":
        model = {"kind": "vit", "patch_size": 4, "hidden_size": 16, "layers": 2, "heads": 2, "feedforward_size": 16}
    settings = {"updates": 12, "batch_images": 16, "warmup": 2, "learning_rate": 0.01, "log_every": 4, **training}
    return ClassifierRecipe.model_validate({"model": model, "training": settings})


def fit(out: Path, chosen: ClassifierRecipe | None = None, **more: Any) -> Classifier:
    return train(chosen or recipe(), train=bright_or_dark(), out=out, progress=False, **more)


@pytest.mark.parametrize("attention", ["none", "se", "cbam", "bam", "self_attention", "vit"])
def test_every_network_learns_and_its_folder_gives_it_back(tmp_path: Path, attention: str) -> None:
    classifier = fit(tmp_path / "model", recipe(attention, updates=30))
    test = bright_or_dark(40, seed=9)
    measured = classifier.evaluate(test)
    assert measured.accuracy == 1.0
    assert measured.confusions.tolist() == [[20, 0], [0, 20]]
    loaded = regard.load(tmp_path / "model")
    assert isinstance(loaded, Classifier)
    assert loaded.evaluate(test).loss == pytest.approx(measured.loss, rel=1e-5)
    assert (loaded.classes, loaded.shape) == (("left", "right"), (1, 12, 12))
    found = loaded.classify([test.images[0, 0], test.images[1, 0]])
    assert [str(each) for each in found] == ["left", "right"]
    assert repr(found[0]) == f"<Classification 'left', probability {found[0].probability:.2f}>"
    assert repr(loaded).startswith(f"<Classifier model: {loaded.recipe.model.kind}, ")
    assert repr(loaded).endswith(" parameters, 2 classes, 1 x 12 x 12, cpu>")
    assert sum(found[0].probabilities.values()) == pytest.approx(1)
    assert found[0].probability == max(found[0].probabilities.values())


def everything(out: Path) -> dict[str, Any]:
    checkpoint = max((out / "training").glob("checkpoint-*"))
    snapshots = json.loads((checkpoint / "state.json").read_text())["state"]["snapshots"]
    kept = [out / "training" / Snapshot(**each).file for each in snapshots]
    files = [out / "model.safetensors", *checkpoint.glob("*.safetensors"), *kept]
    clocks = ("time", "seconds", "images_per_second")
    log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return {path.name: path.read_bytes() for path in files} | {
        "log": [{name: value for name, value in line.items() if name not in clocks} for line in log]
    }


@pytest.mark.parametrize("attention", ["bam", "vit"])
def test_a_training_that_dies_resumes_bit_for_bit(
    tmp_path: Path, attention: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = recipe(attention, flip=True, shift=1, average="last", keep=2, validate_every=3)
    fit(tmp_path / "whole", chosen)
    real, seeds = loop_module.validation_is_due, loop_module.seed_of

    def due(run: Any) -> bool:
        if run.state.update == 5:
            saving_module.save(run)
        return real(run)

    def dies(seed: int, number: int) -> int:
        if number == 9:
            raise MemoryError
        return seeds(seed, number)

    with monkeypatch.context() as patch:
        patch.setattr(loop_module, "validation_is_due", due)
        patch.setattr(loop_module, "seed_of", dies)
        with pytest.raises(MemoryError):
            fit(tmp_path / "broken", chosen)
    train(out=tmp_path / "broken", resume=True, progress=False)
    assert everything(tmp_path / "broken") == everything(tmp_path / "whole")


def test_ctrl_c_saves_and_names_the_command_of_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = loop_module.seed_of

    def interrupt(seed: int, number: int) -> int:
        if number == 4:
            import signal

            signal.raise_signal(signal.SIGINT)
        return real(seed, number)

    with monkeypatch.context() as patch:
        patch.setattr(loop_module, "seed_of", interrupt)
        with pytest.raises(Interrupted, match="regard train --resume") as caught:
            fit(tmp_path)
    assert caught.value.saved
    with pytest.raises(ModelFolderError, match="resume it with `regard train --resume"):
        fit(tmp_path)
    train(out=tmp_path, resume=True, progress=False)
    with pytest.raises(ModelFolderError, match="its training is finished"):
        train(out=tmp_path, resume=True, progress=False)
    with pytest.raises(ConfigError, match="model and images of a training cannot be changed"):
        train(out=tmp_path, resume=True, progress=False, overrides=["model.blocks=2"])


def test_nothing_is_left_behind_where_nothing_began(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such folder"):
        train(recipe(), train=tmp_path / "none", out=tmp_path / "model", progress=False)
    with pytest.raises(ConfigError, match="no images were given"):
        train(recipe(), out=tmp_path / "model", progress=False)
    assert not (tmp_path / "model").exists()


def test_a_loss_that_is_not_finite_names_the_images(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"in the batch of the images .*regard train --resume"):
        fit(tmp_path, recipe(learning_rate=1e30, warmup=0, clip_norm=None))


def test_what_training_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(recipe(), train=bright_or_dark(), out=tmp_path, progress=True)
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "91 images to learn from and 5 to validate on; 12 x 12 pixels, grey; 2 classes"
    assert any("images/s" in line and "perplexity" not in line for line in told)
    assert any(line.startswith("validation at update 12: loss") and "accuracy" in line for line in told)
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["images"] == 12 * 91 / 6
    assert metrics["valid"]["images"] == 5
    card = (tmp_path / "README.md").read_text()
    assert "image-classification" in card
    assert "left, right" in card


# --- looking ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    for name in ("none", "bam", "self_attention", "vit"):
        fit(folder / name, recipe(name, updates=2))
    Image.fromarray(bright_or_dark().images[0, 0]).save(folder / "left.png")
    return {path.stem: path for path in folder.iterdir()}


@pytest.mark.parametrize(("name", "rows", "panels"), [("bam", 1, 4), ("self_attention", 1, 5), ("vit", 2, 2)])
def test_what_is_drawn_is_what_the_modules_did(models: dict[str, Path], name: str, rows: int, panels: int) -> None:
    classifier = Classifier.load(models[name])
    found = classifier.look(models["left"])
    drawn = rows_of(found)
    assert [len(row.panels) for row in drawn] == [panels] * rows
    assert all(0 <= panel.values.min() <= panel.values.max() <= 1 for row in drawn for panel in row.panels)
    torch.testing.assert_close(
        torch.tensor(list(found.probabilities.values())),
        torch.tensor(list(classifier.classify(models["left"]).probabilities.values())),
    )
    if name == "vit":
        weights = found.attention["encoder-self"]
        assert (weights.shape, found.grid, found.class_token) == ((2, 2, 10, 10), (3, 3), True)
        first = weights[0, 0, 0, 1:].reshape(3, 3)
        np.testing.assert_allclose(drawn[0].panels[0].values, first / first.max(), rtol=1e-5)
    if name == "bam":
        before, weights = found.seen[0].before[0].abs().mean(0).numpy(), found.seen[0].weights[0].numpy()
        assert np.argmax(drawn[0].panels[0].values) == np.argmax(before)
        np.testing.assert_allclose(drawn[0].panels[3].values, weights.mean((1, 2)), rtol=1e-5)
    if name == "self_attention":
        assert found.attention["encoder-self"].shape == (1, 1, 144, 144)
        assert drawn[0].panels[1].mark == (3, 3)


def test_pictures_animations_and_numbers_are_written(models: dict[str, Path], tmp_path: Path) -> None:
    found = Classifier.load(models["vit"]).look(models["left"])
    for name in ("look.png", "look.svg", "look.gif", "look.json"):
        save_look(found, tmp_path / name)
    assert picture_of(tmp_path / "look.png")[0] > 400
    assert picture_of(tmp_path / "look.gif")[1] == 2
    record = json.loads((tmp_path / "look.json").read_text())
    assert record["label"] == found.label
    assert [module["grid"] for module in record["modules"]] == [[3, 3], [3, 3]]
    assert sum(record["modules"][0]["weights"][0][0]) == pytest.approx(1, abs=1e-4)


def test_looking_where_there_is_nothing_or_the_image_does_not_fit(models: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(NoAttention, match="without attention has nothing to look at"):
        Classifier.load(models["none"]).look(models["left"])
    classifier = Classifier.load(models["bam"])
    large = tmp_path / "large.png"
    Image.new("L", (20, 12)).save(large)
    with pytest.raises(DataError, match=r"large.png: is 12 x 20 pixels, grey; the model reads 12 x 12 pixels, grey"):
        classifier.classify(large)
    Image.new("RGB", (12, 12)).save(tmp_path / "colour.png")
    with pytest.raises(DataError, match="grey is needed: convert it, or use `regard look --fit`"):
        classifier.classify(tmp_path / "colour.png")
    assert classifier.classify(large, fit=True).label in classifier.classes
    for image in (np.zeros((12, 12)), np.zeros((1, 12, 12), np.uint8), np.zeros((12, 12, 3), np.uint8)):
        with pytest.raises(DataError, match=r"this model needs uint8 \(height, width\); convert it"):
            classifier.classify(image)
    with pytest.raises(DataError, match="the image: is 9 x 12 pixels, grey; the model reads 12 x 12 pixels, grey"):
        classifier.classify(np.zeros((9, 12), np.uint8))
    assert classifier.classify(Image.new("L", (12, 12))).label in classifier.classes
    with pytest.raises(DataError, match="evaluate it on such"):
        classifier.evaluate(ImageSet(np.zeros((2, 1, 9, 9), np.uint8), np.array([0, 1]), ("left", "right")))


# --- the command line ---------------------------------------------------------------------------------------------

QUICK = ["--set", "training.budget=none", "--set", "training.updates=2", "--set", "training.batch_images=16"]


def folder_of_classes(path: Path) -> Path:
    for split, seed in (("train", 0), ("test", 1)):
        made = bright_or_dark(12, seed)
        for number, (image, label) in enumerate(zip(made.images, made.labels, strict=True)):
            place = path / split / made.classes[label] / f"{number}.png"
            place.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image[0]).save(place)
    return path


def test_train_evaluate_look_and_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, model = str(folder_of_classes(tmp_path / "data")), str(tmp_path / "model")
    assert main(["train", "bam", "--train", data, "--out", model, *QUICK]) == 0
    capsys.readouterr()
    assert main(["evaluate", model, "--data", data, "--format", "json"]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert measured["images"] == 12
    assert set(measured["by_class"]) == {"left", "right"}
    assert main(["evaluate", model, "--data", data]) == 0
    assert "accuracy" in capsys.readouterr().out
    image = f"{data}/test/left/0.png"
    assert main(["look", model, image, "-o", str(tmp_path / "look.gif")]) == 0
    assert picture_of(tmp_path / "look.gif")[1] == 3  # a frame for each of the recipe's three modules
    assert main(["look", model, image]) == 0
    assert "before" in capsys.readouterr().out
    assert main(["train", "--resume", model, "--set", "training.updates=3"]) == 0
    assert json.loads((tmp_path / "model" / "metrics.json").read_text())["updates"] == 3


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["train"], "no recipe was given"),
        (["train", "bam"], "no folder was given"),
        (["train", "bma", "--out", "x"], "did you mean 'bam'?"),
        (["train", "bam", "--out", "x"], "no images were given"),
        (["train", "bam", "--out", "x", "--set", "model.attentoin=se"], "did you mean model.attention?"),
        (["train", "bam", "--out", "x", "--set", "model.kind=resnt"], "did you mean 'resnet'?"),
        (["train", "--resume", "x", "--train", "y"], "--resume knows"),
        (["train", "--resume", "x"], "holds no unfinished training"),
        (["evaluate", "x", "--data", "y"], "x: there is no such model folder"),
        (["compare", "bam", "sam", "--train", "a", "--out", "x"], "sam: there is no such recipe or model folder"),
        (["train", "bam", "--train", "a", "b", "--out", "x"], "give one folder or file of images"),
        (
            ["train", "bam", "--train", "a", "--valid", "none", "--out", "x"],
            "--valid none: a resnet is always validated",
        ),
        (["train", "bam", "--train", "a", "--out", "x", "--dry-run"], "--dry-run: is for models that read text"),
        (["train", "bam", "--train", "a", "--out", "x", "--watch-sentence", "a"], "--watch-sentence: is for models"),
        (["recipes", "bem"], "did you mean 'bam'?"),
    ],
)
def test_a_wrong_call_is_one_line(
    arguments: list[str], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert line in told
    assert not list(tmp_path.iterdir())


def test_every_recipe_of_a_classifier_trains(tmp_path: Path) -> None:
    names = [name for name in recipe_names() if isinstance(load_recipe(name), ClassifierRecipe)]
    assert {"resnet", "bam", "cbam", "se", "self-attention", "vit", "two-ears"} == set(names)
    for name in names:
        changes = ["training.budget=none", "training.updates=1", "training.batch_images=8"]
        classifier = train(name, train=bright_or_dark(24), out=tmp_path / name, overrides=changes, progress=False)
        assert isinstance(classifier.network, Network)
