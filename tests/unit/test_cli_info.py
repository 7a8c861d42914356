"""`regard info`: what it says of a good folder, and of a bad one."""

import json
import re

import pytest
import torch

from regard.cli import main
from regard.config.recipes import check_recipe
from regard.data.text.hashes import fingerprint
from regard.data.text.overlap import FINGERPRINT_FILE
from regard.data.text.tokenizer import Tokenizer
from regard.inference.folder import write_folder
from regard.machine.processor import Verdict
from regard.models import build_model
from regard.storage.weights import model_tensors

TEXT = {"text": "news.en, news.fr", "pairs": 1234, "skipped_empty": 5, "fingerprint": "0f0f"}
VALID = {"bleu": 12.3456789, "bleu_signature": "nrefs:1"}
METRICS = {"valid": VALID, "updates": 3, "epochs": 4.99947, "seconds": 90.06, "data": {"train": TEXT}}


def make_folder(path, *, joint=False, model_class=None, weights=None, **settings):
    """A folder with an untrained tiny model."""
    table = {
        "description": "a test",
        "model": {"kind": "bahdanau", "hidden_size": 7, "embedding_size": 5, **settings},
        "text": {"tokenizer": "word", "min_frequency": 1, "joint": joint},
        "training": {"updates": 3000},
    }
    recipe = check_recipe(table, "test")
    source = Tokenizer.train(["a b c"], recipe.text)
    target = source if joint else Tokenizer.train(["a b"], recipe.text)
    model = build_model(recipe.model, source.size, target.size)
    write_folder(
        path,
        recipe=recipe,
        source_tokenizer=source,
        target_tokenizer=target,
        weights=model_tensors(model) if weights is None else weights,
        metrics=METRICS,
        card="# card\n",
        fingerprint=fingerprint(["a b", "b a", "a b"]),
        model_class=model_class,
    )
    return model


@pytest.fixture
def folder(tmp_path):
    """A model folder."""
    make_folder(tmp_path / "model")
    return tmp_path / "model"


def rows_of(capsys, folder):
    """The rows of the text by their first word."""
    assert main(["info", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    return dict(line.strip().split("  ", maxsplit=1) for line in lines if "  " in line.strip())


def test_says_what_the_folder_holds(capsys, folder):
    rows = {name: value.strip() for name, value in rows_of(capsys, folder).items()}
    assert rows["model"] == "bahdanau"
    assert rows["paper"] == "Bahdanau et al. 2015"
    assert rows["parameters"].endswith("(float32)")
    assert rows["training, encoder"].startswith("fast: a layer at a time")
    assert rows["training, decoder"] == "readable: word by word"
    assert rows["translating"] == "encoder as above; decoder readable: word by word"
    assert rows["source vocabulary"] == "7 words"
    assert rows["overlap check"].startswith("against 2 distinct")
    assert rows["train"] == "news.en, news.fr: pairs 1,234, skipped empty 5"
    assert rows["valid.bleu"] == "12.3457"
    assert rows["valid.bleu_signature"] == "nrefs:1"
    assert rows["epochs"] == "5.0"
    assert rows["minutes"] == "1.5"
    assert rows["architecture"].startswith("bidirectional GRU")
    assert rows["model.hidden_size"] == "7"
    assert rows["training.updates"] == "3000"  # as one would write it in a recipe
    assert "training.clip_norm" not in rows  # a default
    assert "model.safetensors" in rows
    assert "training state" not in rows


def test_the_backends_that_cannot_run_are_told_with_the_reason(capsys, folder):
    said = rows_of(capsys, folder)["decoding backend"].strip()
    assert said.startswith("onnxruntime (fastest; ctranslate2: it supports a single Transformer only")
    assert "torch" not in said  # it can, and is slower
    assert main(["info", str(folder), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["engines"]["torch"] == "onnxruntime is faster"


def test_what_an_installed_model_keeps_for_its_tests_is_left_to_json(capsys, folder):
    box = {"licence": "CC0", "floor": {"value": 7.0}, "weights": "2ffd"}
    (folder / "metrics.json").write_text(json.dumps({"box": box}))
    rows = rows_of(capsys, folder)
    assert rows["box.licence"].strip() == "CC0"
    assert not {name for name in rows if name.startswith(("box.floor", "box.weights"))}
    assert main(["info", str(folder), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["box"] == box


def test_json_has_everything(capsys, tmp_path):
    model = make_folder(tmp_path, tie_embeddings="all", joint=True, maxout_size=5)
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "state").write_bytes(b"12345")
    assert main(["info", str(tmp_path), "--format", "json"]) == 0
    about = json.loads(capsys.readouterr().out)
    own = sum(parameter.numel() for parameter in model.parameters())  # a shared one counts once
    assert about["parameters"] == sum(about["parameters_by_part"].values()) == own
    assert about["parameters_by_part"]["embeddings.output_bias"] == about["target_vocabulary"]
    assert about["joint"] is True
    assert about["can_resume"] is True
    assert about["training_bytes"] == 5
    assert about["bytes"] == sum(path.stat().st_size for path in tmp_path.iterdir() if path.is_file())
    assert about["metrics"] == METRICS
    assert about["recipe"]["training"]["clip_norm"] == 1.0


def test_a_folder_that_can_go_on_says_how(capsys, folder):
    (folder / "training").mkdir()
    assert f"regard train --resume {folder}" in rows_of(capsys, folder)["training state"]


def test_a_class_of_ones_own_is_named(capsys, tmp_path):
    make_folder(tmp_path, model_class="mine.Model", weights={"one": torch.zeros(2, 3)})
    rows = rows_of(capsys, tmp_path)
    assert rows["model"].strip() == "mine.Model"
    assert rows["parameters"].strip() == "6 (float32)"


@pytest.mark.parametrize("damage", ["missing", "truncated", "empty folder", "file", "weights", "fingerprint", "json"])
def test_a_bad_folder_is_one_line(capsys, folder, damage):
    path = folder
    if damage == "missing":
        path = folder / "nowhere"
    elif damage == "truncated":
        path = folder / "model.safetensors"
        path.write_bytes(path.read_bytes()[:-3])
    elif damage == "empty folder":
        path = folder / "training"
        path.mkdir()
    elif damage == "weights":  # of another model
        path = folder / "model.safetensors"
        make_folder(folder.parent / "other", hidden_size=8)
        path.write_bytes((folder.parent / "other" / "model.safetensors").read_bytes())
    elif damage == "fingerprint":
        path = folder / FINGERPRINT_FILE
        path.write_bytes(b"nothing")
    elif damage == "json":
        path = folder / "metrics.json"
        path.write_text("{")
    else:
        path = folder / "config.json"
    shown = path if damage in ("missing", "empty folder", "file") else folder
    assert main(["info", str(shown)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"regard: error: {path}")
    assert err.count("\n") == 1


def test_the_machine_is_told_without_a_model(capsys, monkeypatch):
    monkeypatch.setattr("regard.machine.processor.verdict", lambda path: Verdict(path != "int8"))
    assert main(["info", "--machine", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["tried"]["bfloat16"] == "works"
    assert told["tried"]["int8"].startswith("dies")
    assert told["versions"]["torch"] == torch.__version__
    assert told["gemm_gflops"]["1 thread"] > 0
    assert main(["info", "--machine"]) == 0
    out = capsys.readouterr().out
    for name in ("processor", "advertised", " thread", "GFLOP/s", "int8", torch.__version__):
        assert name in out


@pytest.mark.parametrize("arguments", [[], ["m", "--machine"]])
def test_a_model_or_the_machine(arguments, capsys):
    assert main(["info", *arguments]) == 2
    assert capsys.readouterr().err.startswith("regard: error: name a model folder, or --machine")


def test_it_says_the_languages(capsys, tmp_path):
    make_folder(tmp_path)
    model = tmp_path
    config = json.loads((model / "config.json").read_text("utf-8"))
    config["text"]["languages"] = ["de", "en"]
    (model / "config.json").write_text(json.dumps(config), "utf-8")
    assert main(["info", str(model)]) == 0
    assert re.search(r"\n  languages +de→en\n", capsys.readouterr().out)
