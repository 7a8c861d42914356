"""Names of installed models: through every door, beside local folders, and when they are wrong."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from box_help import write_box
from test_cli_translate import write_model

import regard
from regard.cli import main
from regard.cli.quickstart import _show_installed
from regard.comparison.entrants import parse_entrants
from regard.config.classification import ClassifierRecipe
from regard.errors import ModelFolderError
from regard.inference import box
from regard.inference.box import BoxWarning, boxed_models, boxed_names, model_folder
from regard.inference.translator import Translator
from regard.serve.models import load_models

MODELS = {"de-en/bahdanau": 45.0, "de-en/luong": 47.5, "en-de/bahdanau": 40.0}
NAMES = ["de-en", "de-en/bahdanau", "de-en/luong", "en-de", "en-de/bahdanau"]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_box(tmp_path_factory.mktemp("site"), MODELS)


@pytest.fixture(autouse=True)
def here(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, with the package installed."""
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_group_is_its_best_model_and_a_name_its_folder(package: Path) -> None:
    assert boxed_names() == NAMES
    assert model_folder("de-en") == package / "de-en/luong"
    assert model_folder(Path("de-en/bahdanau")) == package / "de-en/bahdanau"
    assert model_folder("en-de") == package / "en-de/bahdanau"
    assert [model.name for model in boxed_models("de-en/*")] == ["de-en/luong", "de-en/bahdanau"]  # the best first
    assert boxed_models()[0].languages == ("de", "en")
    assert "regard_models" not in sys.modules  # found, not imported


def test_an_unfinished_packing_is_no_model(package: Path) -> None:
    unfinished = package / "de-en" / ".transformer.part"
    shutil.copytree(package / "de-en/luong", unfinished)
    (unfinished / "metrics.json").write_text("{}", "utf-8")  # without the entry `box`
    try:
        assert boxed_names() == NAMES
        assert [model.name for model in boxed_models("de-en/*")] == ["de-en/luong", "de-en/bahdanau"]
        assert model_folder("de-en") == package / "de-en/luong"
    finally:
        shutil.rmtree(unfinished)


def test_every_door_takes_a_name(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = here / "in.txt"
    source.write_text("a dog\n", "utf-8")
    assert regard.load("de-en").recipe.model.kind == "luong"
    assert Translator.load("de-en").recipe.model.kind == "luong"
    for command in (
        ["translate", "de-en", "--input", str(source)],
        ["look", "de-en/bahdanau", "a dog"],
        ["info", "de-en"],
        ["score", "de-en", "--source", str(source), "--target", str(source)],
        ["evaluate", "de-en", "--source", str(source), "--reference", str(source)],
        ["diagram", "de-en/luong"],
        ["export", "de-en", "--to", "compact", "--out", str(here / "small")],
    ):
        assert main(command) == 0, command
        captured = capsys.readouterr()
        assert captured.out, command
        assert "warning" not in captured.err


@pytest.mark.filterwarnings("default::regard.inference.box.BoxWarning")
def test_a_local_model_wins_and_says_so_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_model(here / "de-en", "bahdanau")
    (here / "in.txt").write_text("a dog\n", "utf-8")
    assert main(["translate", "de-en", "--input", "in.txt"]) == 0
    assert capsys.readouterr().err == "regard: warning: de-en: the folder here is used, not the installed model.\n"
    with pytest.warns(BoxWarning) as said:
        assert regard.load("de-en").recipe.model.kind == "bahdanau"
    assert len(said) == 1


def test_another_folder_of_that_name_does_not(here: Path, package: Path) -> None:
    (here / "de-en").mkdir()
    with pytest.warns(BoxWarning, match="de-en: the folder here holds no model: the installed model is used"):
        assert model_folder("de-en") == package / "de-en/luong"


def test_a_path_is_a_path(here: Path) -> None:
    folder = write_model(here / "mine", "luong")
    assert model_folder("mine") == Path("mine")
    assert model_folder(folder) == folder
    (here / "empty").mkdir()
    assert model_folder("empty") == Path("empty")  # whoever reads it says what is wrong
    assert main(["translate", "empty"]) == 2


@pytest.mark.parametrize("name", ["de-en/bahdanu", "models/nothing"])
def test_a_wrong_name_gets_the_nearest_and_the_installed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", name]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"regard: error: {name}: there is no such model folder or installed model: ")
    assert said.count("\n") == 1
    assert ("did you mean 'de-en/bahdanau'?" in said) == (name == "de-en/bahdanu")
    assert "de-en, de-en/bahdanau, de-en/luong, en-de, en-de/bahdanau." in said


@pytest.mark.parametrize("model", [None, 3, ["de-en"]])
def test_what_is_no_path_is_refused_as_such(model: object) -> None:
    with pytest.raises(regard.RegardError, match="is not a model: give the path of its folder"):
        regard.load(model)  # type: ignore[call-overload]


def test_a_damaged_installed_model_does_not_stop_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package = write_box(tmp_path / "site", {"de-en/luong": 1.0, "en-de/luong": 1.0})
    (package / "de-en/luong/metrics.json").write_text("{}", "utf-8")
    monkeypatch.syspath_prepend(str(package.parent))
    assert model_folder("en-de") == package / "en-de/luong"
    assert main(["models"]) == 2
    assert "de-en/luong/metrics.json: is no installed model's" in capsys.readouterr().err


# --- regard models, regard serve ----------------------------------------------------------------------------------


def test_models_lists_languages_size_score_and_licence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0].split("  ")[0] == "name"
    assert lines[1].split() == ["de-en/luong", "de→en", "0.1", "MB", "47.5", "BLEU", "CC", "BY", "2.0"]
    assert lines[-2:] == ["1.3 MB in all.", "`de-en` is short for de-en/luong, the best model of its group."]
    assert max(map(len, lines)) <= 80
    assert main(["models", "en-de"]) == 0
    assert "de-en/" not in capsys.readouterr().out
    assert main(["models", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told[0]["name"], told[0]["languages"], told[0]["test"]["value"]) == ("de-en/luong", ["de", "en"], 47.5)
    assert main(["models", "*/bahdanau"]) == 0  # not the best of its group
    assert "de-en/luong, the best model of its group" in capsys.readouterr().out
    assert main(["models", "xx"]) == 2
    assert "xx: no installed model has that name. Installed: de-en, " in capsys.readouterr().err


def test_the_server_serves_the_box_by_names_and_patterns() -> None:
    served = load_models(["*"])
    assert [model.name for model in served] == ["de-en/luong", "de-en/bahdanau", "en-de/bahdanau"]
    best = served.translating("de", "en")
    assert best is not None
    assert best.name == "de-en/luong"
    assert served.languages == {"de": ["de", "en"], "en": ["de", "en"]}
    assert [model.name for model in load_models(["de-en", "x=en-de/bahdanau"])] == ["de-en", "x"]


def test_without_models_each_door_says_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(write_box(tmp_path / "site", {}).parent))
    assert main(["models"]) == 0
    assert capsys.readouterr().out == "no models are installed: pip install 'regard[models]'\n"
    assert main(["serve"]) == 2
    assert "name a model folder, or install models: pip install 'regard[models]'." in capsys.readouterr().err
    with pytest.raises(ModelFolderError, match=r"de-en: there is no such model folder: .*'regard\[models\]'"):
        regard.load("de-en")


def test_a_checkout_finds_its_own_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(box, "find_spec", lambda name: None)
    assert box.box_folder() == Path(__file__).parents[2] / "packages/regard-models/regard_models"


def test_a_comparison_takes_names_and_patterns(package: Path) -> None:
    entrants = parse_entrants(["de-en/*", "en-de"], [])
    assert [each.name for each in entrants] == ["de-en/luong", "de-en/bahdanau", "en-de"]
    assert entrants[2].folder == package / "en-de/bahdanau"
    with pytest.raises(ModelFolderError, match=r"xx/\*: no installed model has such a name: installed are de-en, "):
        parse_entrants(["xx/*"], [])


def test_a_recipe_with_the_name_of_a_group_stays_a_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.comparison.entrants.boxed_names", lambda: ["two-ears", "two-ears/bam"])
    plain, without = parse_entrants(["two-ears", "two-ears:model.attention=none"], [])
    assert plain.folder is None
    assert plain.recipe is not None
    assert isinstance(without.recipe, ClassifierRecipe)
    assert without.recipe.model.attention == "none"


def test_installed_models_of_one_direction_bring_their_test(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "de-en/*"]) == 0
    assert "2 models: tested on 2 sentences of regard-models" in capsys.readouterr().out
    assert len((here / "comparison" / "comparison.html").read_bytes()) > 1000
    for words in (["de-en", "en-de"], [str(write_model(here / "own", "luong")), "de-en"]):
        assert main(["compare", *words, "--out", str(here / "other")]) == 2
        assert "there is no test set: give --test" in capsys.readouterr().err


def test_the_quickstart_begins_with_them(capsys: pytest.CaptureFixture[str]) -> None:
    _show_installed()
    out = capsys.readouterr().out
    assert "   ein Hund\n   -> " in out
    assert "(de-en/luong)\n" in out
    assert "(en-de/bahdanau)\n" in out
    assert 'regard look de-en/bahdanau "ein Hund"' in out
    assert out.endswith("Now a model of your own.\n\n")


def test_the_quickstart_does_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(write_box(tmp_path / "site", {}).parent))
    _show_installed()
    assert capsys.readouterr().out == ""
