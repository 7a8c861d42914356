"""`regard settings` and docs/settings.md: every setting, as the code has it."""

import importlib.util
import json
from pathlib import Path

import pytest

from regard.cli import main
from regard.config.captioning import CaptionRecipe
from regard.config.classification import ClassifierRecipe
from regard.config.recipes import ARCHITECTURES, load_recipe
from regard.config.reference import all_settings, matching
from regard.config.settings import LoopSettings, Recipe, SearchSettings, TextSettings, TrainingSettings

DOCS = Path(__file__).parents[2] / "docs"


def test_no_setting_is_left_out() -> None:
    names = {setting.name for setting in all_settings()}
    for table, settings in {"text": TextSettings, "training": TrainingSettings, "search": SearchSettings}.items():
        assert {f"{table}.{name}" for name in settings.model_fields} <= names
    for settings in ARCHITECTURES.values():
        assert {f"model.{name}" for name in settings.model_fields if name != "kind"} <= names
    for recipe in (CaptionRecipe, ClassifierRecipe):
        assert {f"training.{name}" for name in recipe.model_fields["training"].annotation.model_fields} <= names


def test_every_setting_has_a_meaning() -> None:
    assert [setting.name for setting in all_settings() if not setting.meaning or not setting.type] == []


def test_the_recipes_that_change_a_setting_are_told_with_their_values() -> None:
    (rate,) = matching("training.learning_rate")
    assert rate.default == "0.001"
    fast = load_recipe("fast")
    assert isinstance(fast, Recipe)
    assert rate.recipes["fast"] == f"{fast.training.learning_rate:g}"
    assert "bahdanau" not in matching("layer_norm")[0].recipes
    (gnmt,) = (each for each in matching("layers") if each.models == ("gnmt",))
    assert set(gnmt.recipes) <= {"gnmt", "gnmt-small", "gnmt-v2"}


def test_a_setting_of_several_tasks_names_the_task_and_its_recipes_alone() -> None:
    by_task = {setting.tasks: setting for setting in matching("training.select_by")}
    assert set(by_task) == {("translation",), ("captioning",), ("classification",)}
    for (task,), setting in by_task.items():
        assert not setting.recipes, task  # each has its own default, and no recipe changes it
    (batch,) = (each for each in matching("training.batch_images") if each.tasks == ("classification",))
    assert batch.recipes["bam"] == "64"
    assert "captioner" not in batch.recipes
    assert matching("training.seed")[0].tasks == ()  # of all tasks


def test_settings_of_one_name_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings"]) == 0
    heads = [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()]
    assert "model.maxout_size = 256 (seq2seq)" in " ".join(heads)
    same = [setting for setting in all_settings() if setting.name == "training.select_by"]
    assert len({setting.applies_to for setting in same}) == len(same) == 3


def test_settings_are_found_by_name_and_by_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "temperature"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("search.temperature = 1\n")
    assert main(["settings", "lr"]) == 0  # as other toolkits call it
    assert capsys.readouterr().out.startswith("training.learning_rate = 0.001\n")
    assert main(["settings", "batch_tok"]) == 0
    assert {"training.batch_tokens", "search.batch_tokens"} <= {
        line.split(" = ")[0] for line in capsys.readouterr().out.splitlines()
    }
    assert main(["settings"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(all_settings())
    assert max(map(len, lines)) <= 80


def test_an_unknown_setting_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "learnign_rate"]) == 2
    assert "did you mean 'learning_rate'?" in capsys.readouterr().err
    assert main(["settings", "zzz"]) == 2
    assert "`regard settings` lists all of them" in capsys.readouterr().err


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "training.seed", "--format", "json"]) == 0
    (seed,) = json.loads(capsys.readouterr().out)
    assert (seed["name"], seed["default"]) == ("training.seed", str(LoopSettings.model_fields["seed"].default))


def test_the_page_of_the_docs_is_what_the_settings_say() -> None:
    spec = importlib.util.spec_from_file_location("settings_page", DOCS / "settings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (DOCS / "settings.md").read_text("utf-8") == module.page(), "run: python docs/settings.py"
