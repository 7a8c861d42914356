"""Every recipe that is shipped trains through the command line, if only for two updates; then it is used."""

from pathlib import Path

import pytest
from PIL import Image

from regard.cli import main
from regard.config.captioning import CaptionRecipe
from regard.config.recipes import load_recipe, recipe_names
from regard.config.settings import Recipe
from regard.data.toy import toy_corpus
from regard.data.toy.scenes import scenes

SMALL = [
    "model.hidden_size=16",
    "model.dropout=0.1",
    "text.vocabulary_size=300",
    "training.updates=2",
    "training.batch_tokens=200",
    "training.validation_sentences=5",
    "training.warmup=1",
]
SIZES = {
    "bahdanau": ["model.attention_size=16", "model.maxout_size=16"],
    "gnmt": ["model.attention_size=16"],
    "transformer": ["model.feedforward_size=16"],
}


@pytest.mark.parametrize("name", [name for name in recipe_names() if isinstance(load_recipe(name), Recipe)])
def test_recipe_trains_and_translates(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kind = load_recipe(name).model.kind
    changes = SMALL + SIZES.get(kind, []) + ([] if kind == "transformer" else ["model.embedding_size=16"])
    out = tmp_path / "model"
    options = [word for change in changes for word in ("--set", change)]
    text = tmp_path / "text.tsv"
    pairs = toy_corpus("phrases", "en-fr").generate("train", 60, max_words=10)
    text.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in pairs), "utf-8")
    assert main(["train", name, "--train", str(text), "--valid", str(text), "--out", str(out), *options]) == 0
    source = tmp_path / "in.txt"
    source.write_text("The cat sleeps.\n\nA dog\n", "utf-8")
    capsys.readouterr()
    assert main(["translate", str(out), "--input", str(source), "--beam", "2"]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert len(lines) == 4  # three, and what follows the last newline
    assert lines[1] == ""


@pytest.mark.parametrize("name", [name for name in recipe_names() if not isinstance(load_recipe(name), Recipe)])
def test_recipe_trains_on_images_and_looks(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    captions = isinstance(load_recipe(name), CaptionRecipe)
    image = tmp_path / "image.png"
    Image.fromarray(next(scenes("test", 1)).scene.image()).save(image)
    changes = ["training.budget=none", "training.updates=2", "training.batch_images=8"]
    options = [word for change in changes for word in ("--set", change)]
    data = "toy:scenes:16" if captions else "toy:two-ears:40"
    assert main(["train", name, "--train", data, "--out", str(tmp_path / "model"), *options]) == 0
    assert main(["info", str(tmp_path / "model")]) == 0
    assert load_recipe(name).model.kind in capsys.readouterr().out
    status = main(["look", str(tmp_path / "model"), str(image), *([] if captions else ["--fit"])])
    told = capsys.readouterr()
    assert status == 0 or "without attention has nothing to look at" in told.err
