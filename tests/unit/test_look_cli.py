"""`regard look` and `regard diagram` as a user meets them, with a small untrained model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from rich.cells import cell_len

from regard.cli import main
from regard.config.recipes import check_recipe
from regard.data.text.tokenizer import Tokenizer
from regard.inference.folder import write_folder
from regard.look.record import Look
from regard.models import build_model
from regard.storage.weights import model_tensors

LINES = ["the small house", "a green tree stands here", "the cat saw a small dog", "작은 고양이"] * 3


def write_model(folder: Path, kind: str, model_class: str | None = None) -> Path:
    table = {
        "model": {"kind": kind, "embedding_size": 8, "hidden_size": 12},
        "text": {"vocabulary_size": 320, "joint": True, "min_frequency": 1},
        "training": {"updates": 1},
        "search": {"max_length_extra": 4, "max_length_ratio": 1.0},
    }
    recipe = check_recipe(table, "test")
    tokenizer = Tokenizer.train(LINES, recipe.text)
    torch.manual_seed(1)
    write_folder(
        folder,
        recipe=recipe,
        source_tokenizer=tokenizer,
        target_tokenizer=tokenizer,
        weights=model_tensors(build_model(recipe.model, tokenizer.size, tokenizer.size)),
        metrics={},
        card="a test",
        model_class=model_class,
    )
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {kind: write_model(folder / kind, kind) for kind in ("bahdanau", "seq2seq", "gnmt")}


def test_look_prints_the_translation_and_a_matrix_of_words(
    models: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["look", str(models["bahdanau"]), "the small house", "--reference", "작은 고양이"]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert lines[0] == "작은 고양이"
    assert "the" in lines[2]
    assert "house" in lines[2]
    assert [line.split(" ")[0] for line in lines[3:5]] == ["작은", "고양이"]
    assert "\x1b" not in "".join(lines)
    assert max(map(cell_len, lines)) <= 80


def test_a_terminal_that_knows_only_ascii_gets_digits(
    models: dict[str, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rich.console.Console.encoding", property(lambda console: "ascii"))
    assert main(["look", str(models["bahdanau"]), "the small house", "--reference", "a tree"]) == 0
    assert capsys.readouterr().out.isascii()


def test_json_is_the_whole_record_a_line_for_each_sentence(
    models: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    sentences = ["the small house", "a dog"]
    assert main(["look", str(models["gnmt"]), *sentences, "--format", "json", "--tree", "--candidates", "3"]) == 0
    looks = [Look.from_dict(json.loads(line)) for line in capsys.readouterr().out.splitlines()]
    assert [look.source.text for look in looks] == sentences
    for look in looks:
        assert look.alignment is not None
        assert all(sum(row) == pytest.approx(1, abs=1e-4) for row in look.alignment)
        assert look.beam is not None
        assert {len(step.candidates) for step in look.steps} == {3}


def test_a_prefix_begins_the_translation(models: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["look", str(models["bahdanau"]), "the cat", "--prefix", "a tree", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["target"]["text"].startswith("a tree")
    assert found["prefix"] > 0


def test_a_model_without_attention_shows_its_vector(
    models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["look", str(models["seq2seq"]), "the cat"]) == 0
    assert "source subwords into one fixed\nvector of" in capsys.readouterr().out
    assert main(["look", str(models["seq2seq"]), "the cat", "-o", str(tmp_path / "vector.png")]) == 0
    assert (tmp_path / "vector.png").stat().st_size > 1000


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_a_picture_is_written_and_the_translation_printed(
    models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    picture = tmp_path / f"map.{suffix}"
    assert main(["look", str(models["bahdanau"]), "the cat", "--reference", "le chat", "-o", str(picture)]) == 0
    out, err = capsys.readouterr()
    assert out == "le chat\n"
    assert err == f"wrote {picture}\n"
    assert picture.stat().st_size > 1000


def test_looking_without_a_reference_translates(models: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["look", str(models["bahdanau"]), "the small house", "--format", "json", "--beam", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["source"]["text"] == "the small house"
    assert found["target"]["words"] == found["target"]["text"].split()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["look", "{seq2seq}", "the cat", "--layer", "1", "-o", "a.png"], "a seq2seq model has no attention, so"),
        (["look", "{bahdanau}", "the cat", "--layer", "0", "-o", "a.png"], "layer 0: they are numbered from 1 to 1"),
        (["look", "{bahdanau}", "the cat", "--kind", "self", "-o", "a.png"], "has no 'self' attention"),
        (["look", "{bahdanau}", "the cat", "--head", "2"], "head 2: they are numbered from 1 to 1"),
        (["look", "{bahdanau}"], "no sentence was given"),
        (["look", "{bahdanau}", "photo.png"], "photo.png: is an image, and this model translates text"),
        (["look", "{bahdanau}", __file__], "is a file: give"),
        (["look", "{bahdanau}", "a", "b", "--reference", "c"], "2 sentences but 1 references"),
        (["look", "{bahdanau}", "a", "b", "-o", "steps.gif"], "one sentence at a time"),
        (["look", "{bahdanau}", "a", "--reference", "b", "--prefix", "b"], "leave --prefix out"),
        (["look", "{bahdanau}", "--over-time"], "no sentence was watched"),
        (["look", "{bahdanau}", "  "], "the sentence is empty"),
        (["look", "{bahdanau}", "the cat", "--reference", ""], "--reference is empty"),
        (["look", "{bahdanau}", "the cat", "--output", "map.bmp"], ".png, .svg, .pdf, .gif or .html"),
        (["look", "{bahdanau}", "the cat", "--output", "nowhere/map.png"], "the folder nowhere does not exist"),
        (["look", "nowhere", "the cat"], "no such model folder"),
        (["diagram", "luonk"], "did you mean 'luong'?"),
        (["diagram", "luong", "--source", ""], "0 words"),
        (["diagram", "luong", "--target", "a b c d e f g h i"], "--target"),
        (["diagram", "luong", "--output", "model.png"], "drawn as .svg"),
        (["diagram", "luong", "--set", "model.windov=global"], "did you mean model.window?"),
        (["diagram", "{empty}"], "holds no model"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(
    models: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    places = {kind: str(path) for kind, path in models.items()} | {"empty": str(tmp_path / "empty")}
    assert main([argument.format(**places) for argument in arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_a_diagram_of_a_recipe_and_of_a_trained_model(
    models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagram", str(models["gnmt"]), "--source", "작은 고양이", "--target", "a cat"]) == 0
    drawn = capsys.readouterr().out
    assert "고양이" in drawn
    assert "LSTM 8" in drawn
    target = tmp_path / "luong.svg"
    assert main(["diagram", "luong", "--set", "model.window=local-m", "-o", str(target)]) == 0
    assert "local-m" in target.read_text("utf-8")
    assert capsys.readouterr().out == ""


def test_a_users_own_class_cannot_be_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_model(tmp_path / "own", "bahdanau", model_class="mine.Model")
    assert main(["diagram", str(folder)]) == 2
    assert "your own class mine.Model" in capsys.readouterr().err
