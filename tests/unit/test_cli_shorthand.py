"""Options of `regard train` that are short for a setting."""

import json
from pathlib import Path

import pytest

from regard.cli import main
from regard.cli.shorthand import SETTINGS, shorthand, what_ends
from regard.config.recipes import load_recipe
from regard.errors import ConfigError

TINY = ("model.embedding_size=8", "model.hidden_size=8", "model.attention_size=8", "model.maxout_size=8")
SMALL = [word for change in (*TINY, "text.min_frequency=1") for word in ("--set", change)]


def test_each_option_is_its_setting() -> None:
    given = {"budget": "4m", "lr": 0.003, "batch_tokens": 99, "dropout": 0.25, "vocabulary": 300, "seed": 7}
    recipe = load_recipe("luong", shorthand(given, ["model.layers=3"]))
    training = recipe.training.model_dump()
    assert (training["budget"], training["learning_rate"], training["batch_tokens"]) == ("4m", 0.003, 99)
    assert (recipe.model.model_dump()["dropout"], recipe.model.model_dump()["layers"]) == (0.25, 3)
    assert (recipe.model_dump()["text"]["vocabulary_size"], training["seed"]) == (300, 7)


@pytest.mark.parametrize(
    ("given", "changes", "left"),
    [
        ({"epochs": 3}, [], (None, 3, None)),
        ({"updates": 9}, [], (None, None, 9)),
        ({"updates": 9, "budget": "1m"}, [], ("1m", None, 9)),
        ({"updates": 9}, ["training.budget=2m"], ("2m", None, 9)),
        ({}, ["training.updates=9"], ("10m", None, 9)),  # --set changes its one setting
        ({"lr": 1e-3}, [], ("10m", None, None)),
    ],
)
def test_an_end_replaces_that_of_the_recipe(given: dict[str, float | str], changes: list[str], left: object) -> None:
    training = load_recipe("fast", shorthand(given, changes)).training
    assert (training.budget, training.epochs, training.updates) == left


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"epochs": 3}, 'ends by --epochs 3, not by the recipe\'s training.budget = "10m"'),
        (
            {"epochs": 3, "updates": 9},
            'ends by --epochs 3 and --updates 9, not by the recipe\'s training.budget = "10m"',
        ),
        ({"budget": "3m"}, None),
        ({"lr": 1}, None),
    ],
)
def test_a_replaced_end_is_told(given: dict[str, float | str], line: str | None) -> None:
    assert what_ends("fast", shorthand(given, [])) == line


def test_one_setting_twice_is_refused() -> None:
    message = r"^--lr 3 and --set training\.learning_rate=4: both set training\.learning_rate: give one of them\.$"
    with pytest.raises(ConfigError, match=message):
        shorthand({"lr": 3}, ["training.learning_rate=4"])


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ("luong --dropout 2", "--dropout 2.0: model.dropout = 2.0: input should be less than 1."),
        ("luong --budget 4", "--budget 4: training.budget: 4 has no unit: write 4m or 240s."),
        (
            "luong --vocabulary 3",
            "--vocabulary 3: text.vocabulary_size = 3: input should be greater than or equal to 8.",
        ),
        ("luong --seed -1", "--seed -1: training.seed = -1: input should be greater than or equal to 0."),
        ("bam --batch-tokens 9", "--batch-tokens 9: there is no setting 'training.batch_tokens': did you mean train"),
        ("luong --epochs 3 --set search.n_best=9", "--set search.n_best=9: search: n_best = 9 is more than beam = 5"),
        ("luong --set lr=3", "--set lr=3: there is no setting 'lr': did you mean training.learning_rate?"),
    ],
)
def test_a_wrong_value_is_blamed_on_the_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: str, line: str
) -> None:
    recipe, *rest = options.split()
    assert main(["train", recipe, "--train", "toy:reverse:60", "--out", str(tmp_path / "out"), *rest]) == 2
    assert f"regard: error: {line}" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_help_names_each_setting(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for parameter, setting in SETTINGS.items():
        assert f"--{parameter.replace('_', '-')} " in text
        assert f"Short for --set {setting}." in text


def test_they_train_and_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    words = ["train", "fast", "--train", "toy:reverse:60", "--out", str(out), *SMALL]
    assert main([*words, "--updates", "2", "--lr", "1e-3", "--batch-tokens", "100", "--dropout", "0"]) == 0
    assert "ends by --updates 2, not by the recipe's training.budget" in capsys.readouterr().err
    config = json.loads((out / "config.json").read_text())
    assert (config["training"]["updates"], config["training"]["budget"]) == (2, None)
    assert (config["training"]["learning_rate"], config["model"]["dropout"]) == (1e-3, 0)
    assert main(["train", "--resume", str(out), "--updates", "3"]) == 0
    assert json.loads((out / "metrics.json").read_text())["updates"] == 3
