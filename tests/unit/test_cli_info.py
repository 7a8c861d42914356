"""`regard info`: what it says of a good folder, and of a bad one."""

import json

import pytest
import torch

from regard.cli import main
from regard.config import check_recipe
from regard.folder import write_folder
from regard.text.tokenizer import Tokenizer


@pytest.fixture
def folder(tmp_path):
    """A model folder with two small tensors."""
    table = {
        "description": "a test",
        "model": {"kind": "bahdanau", "hidden_size": 7},
        "text": {"tokenizer": "word", "min_frequency": 1},
        "training": {"updates": 3},
    }
    recipe = check_recipe(table, "test")
    source = Tokenizer.train(["a b c"], recipe.text)
    target = Tokenizer.train(["a b"], recipe.text)
    path = tmp_path / "model"
    write_folder(
        path,
        recipe=recipe,
        source_tokenizer=source,
        target_tokenizer=target,
        weights={"one": torch.zeros(2, 3), "two": torch.zeros(4)},
        metrics={"bleu": {"score": 12.3456789, "signature": "nrefs:1"}, "updates": 3},
        card="# card\n",
    )
    return path


def test_says_what_the_folder_holds(capsys, folder):
    assert main(["info", str(folder)]) == 0
    out = capsys.readouterr().out
    rows = dict(line.split(maxsplit=1) for line in out.splitlines() if line.startswith("  ") and " " in line.strip())
    assert rows["model"] == "bahdanau"
    assert rows["parameters"] == "10 (float32)"
    assert rows["bleu.score"] == "12.3457"
    assert rows["model.hidden_size"] == "7"
    assert rows["training.updates"] == "3"
    assert rows["text.tokenizer"] == "word"
    assert "training.clip_norm" not in rows  # a default
    assert "model.safetensors" in rows
    assert "resume" not in out


def test_json_has_everything(capsys, folder):
    (folder / "training").mkdir()
    assert main(["info", str(folder), "--format", "json"]) == 0
    about = json.loads(capsys.readouterr().out)
    assert about["parameters"] == 10
    assert about["source_vocabulary"] == about["target_vocabulary"] + 1
    assert about["can_resume"] is True
    assert about["metrics"]["bleu"]["score"] == 12.3456789
    assert about["recipe"]["training"]["clip_norm"] == 1.0


def test_a_folder_that_can_go_on_says_how(capsys, folder):
    (folder / "training").mkdir()
    assert main(["info", str(folder)]) == 0
    assert f"regard train --resume {folder}" in capsys.readouterr().out


@pytest.mark.parametrize("damage", ["missing", "truncated", "empty folder", "file"])
def test_a_bad_folder_is_one_line(capsys, folder, damage):
    path = folder
    if damage == "missing":
        path = folder / "nowhere"
    elif damage == "truncated":
        weights = folder / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-3])
    elif damage == "empty folder":
        path = folder / "training"
        path.mkdir()
    else:
        path = folder / "config.json"
    assert main(["info", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"regard: error: {path}")
    assert err.count("\n") == 1
