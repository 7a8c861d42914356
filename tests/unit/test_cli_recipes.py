"""`regard architectures` and `regard recipes`: complete, one line each, and helpful with a wrong name."""

import tomllib

import pytest

from regard.cli import main
from regard.config import recipes as recipe


def unwrapped(text: str) -> str:
    return " ".join(text.split())


def test_models_lists_every_model_with_paper_and_score(capsys):
    assert main(["architectures"]) == 0
    out = capsys.readouterr().out
    names = [line.split()[0] for line in out.splitlines() if line[2] != " "]
    assert names == list(recipe.ARCHITECTURES)
    for settings in recipe.ARCHITECTURES.values():
        assert unwrapped(settings.title) in unwrapped(out)
        assert unwrapped(f"{settings.paper}: {settings.published}") in unwrapped(out)


@pytest.mark.parametrize(
    "arguments", [["architectures"], ["recipes"], *(["architectures", kind] for kind in recipe.ARCHITECTURES)]
)
def test_lists_fit_eighty_columns(capsys, arguments):
    assert main(arguments) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


@pytest.mark.parametrize("name", recipe.ARCHITECTURES)
def test_a_model_shows_every_setting_with_its_default(capsys, name):
    assert main(["architectures", name]) == 0
    out = capsys.readouterr().out
    written = dict(line.removeprefix("model.").split("=", 1) for line in out.splitlines() if line.startswith("model."))
    shown = {key.strip(): value.strip() for key, value in written.items()}
    fields = {key: field for key, field in recipe.ARCHITECTURES[name].model_fields.items() if key != "kind"}
    assert shown.keys() == fields.keys()
    for key, field in fields.items():
        if field.default is not None:
            default = list(field.default) if isinstance(field.default, tuple) else field.default
            assert tomllib.loads(f"x = {shown[key]}")["x"] == default


@pytest.fixture
def two_recipes(tmp_path, monkeypatch):
    """A folder with two recipes in place of those that come with Regard."""
    for name in ("first", "second"):
        (tmp_path / f"{name}.toml").write_text(
            f'description = "what it is"\npaper = "{name} et al."\npublished = "1{len(name)} BLEU"\n'
            '[model]\nkind = "bahdanau"\n[training]\nepochs = 1\n'
        )
    monkeypatch.setattr(recipe, "recipe_folder", lambda: tmp_path)
    return tmp_path


@pytest.mark.usefixtures("two_recipes")
def test_recipes_lists_each_with_description_paper_and_score(capsys):
    assert main(["recipes"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Text",
        "",
        "  first   what it is",
        "          first et al.: 15 BLEU",
        "  second  what it is",
        "          second et al.: 16 BLEU",
    ]


def test_no_recipe_without_a_published_score_prints_one(capsys):
    assert main(["recipes"]) == 0
    out = unwrapped(capsys.readouterr().out)
    assert ": none" not in out
    assert "none (see" not in out
    assert unwrapped(recipe.load_recipe("gnmt-small").paper) in out


def test_text_and_image_recipes_stand_apart(capsys):
    assert main(["recipes"]) == 0
    text, images = capsys.readouterr().out.split("\nImages\n")
    assert "\n  fast " in text
    assert "\n  captioner " in images
    assert "\n  bam " in images
    assert unwrapped(recipe.load_recipe("fast").description) in unwrapped(text)


def test_a_recipe_is_printed_as_it_stands(capsys, two_recipes):
    assert main(["recipes", "first"]) == 0
    assert capsys.readouterr().out == (two_recipes / "first.toml").read_text()


@pytest.mark.usefixtures("two_recipes")
@pytest.mark.parametrize(
    ("command", "name", "message"),
    [
        ("architectures", "badhanau", "there is no architecture 'badhanau': did you mean 'bahdanau'?"),
        ("recipes", "secnd", "there is no recipe 'secnd': did you mean 'second'?"),
    ],
)
def test_a_wrong_name_is_one_line_with_the_nearest(capsys, command, name, message):
    assert main([command, name]) == 2
    assert capsys.readouterr().err == f"regard: error: {message}\n"


def test_a_damaged_recipe_is_named(capsys, two_recipes):
    (two_recipes / "second.toml").write_text("[model\n")
    assert main(["recipes"]) == 2
    assert "second.toml" in capsys.readouterr().err


def test_recipes_that_come_with_regard_all_load():
    names = recipe.recipe_names()
    assert names
    for name in names:
        read = recipe.load_recipe(name)
        assert read.paper
        assert read.published


def test_the_recipe_of_an_installed_model_is_printed_too(capsys):
    assert main(["recipes", "box/luong"]) == 0
    assert tomllib.loads(capsys.readouterr().out)["model"]["kind"] == "luong"
