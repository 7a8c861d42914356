"""Recipes: all that are shipped parse, and whatever is wrong with one is told in one line with its remedy."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from regard.config.base import Settings
from regard.config.models import MODEL_SETTINGS, BahdanauSettings, LuongSettings, Seq2SeqSettings, TransformerSettings
from regard.config.overrides import Override
from regard.config.recipes import check_as, check_recipe, load_recipe, recipe_folder, recipe_names, with_overrides
from regard.config.settings import Recipe, SearchSettings, TextSettings, TrainingSettings, duration_seconds
from regard.decoding.search_settings import changed_settings
from regard.errors import ConfigError, did_you_mean

SHIPPED = (
    "attention",
    "attention-bi",
    "bahdanau",
    "gnmt",
    "gnmt-small",
    "gnmt-v2",
    "luong",
    "luong-bi",
    "luong-local-p",
    "seq2seq",
    "seq2seq-cho",
    "transformer",
    "transformer-small",
    "transformer-tiny",
)
KINDS = "bahdanau, captioner, gnmt, luong, resnet, seq2seq, transformer, vit"


def table(**changes: Any) -> dict[str, Any]:
    """A small recipe with changes: model__hidden_size=3 sets a key, model=… a whole table."""
    made: dict[str, Any] = {"model": {"kind": "luong"}, "training": {"updates": 10}}
    for key, value in changes.items():
        group, _, name = key.partition("__")
        if name:
            made.setdefault(group, {})[name] = value
        else:
            made[group] = value
    return made


def complaint(**changes: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        check_recipe(table(**changes), "my.toml")
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("my.toml: ")
    return message.removeprefix("my.toml: ")


@pytest.fixture
def recipe_file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text('[model]\nkind = "luong"\nhidden_size = 64\n[training]\nupdates = 10\nbudget = "10m"\n')
    return path


# --- what is shipped -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHIPPED)
def test_promised_recipes_are_there(name: str):
    assert name in recipe_names()


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_parses_and_says_what_it_is(name: str):
    recipe = load_recipe(name)
    assert recipe.description
    assert recipe.paper
    assert recipe.published
    assert load_recipe(f"{name}.toml") == load_recipe(f"recipes/{name}.toml") == recipe
    assert load_recipe(recipe_folder() / f"{name}.toml") == recipe


@pytest.mark.parametrize("name", recipe_names())
def test_recipe_survives_json(name: str):
    """config.json holds the resolved recipe; reading it back changes nothing."""
    recipe = load_recipe(name)
    assert check_as(type(recipe), json.loads(recipe.model_dump_json()), "config.json") == recipe


def test_recipes_are_the_papers():
    sutskever, cho = load_recipe("seq2seq").model, load_recipe("seq2seq-cho").model
    assert isinstance(sutskever, Seq2SeqSettings)
    assert isinstance(cho, Seq2SeqSettings)
    assert (sutskever.context, sutskever.cell, sutskever.reverse_source) == ("start", "lstm", True)
    assert (cho.context, cho.cell, cho.layers, cho.reverse_source) == ("every_step", "gru", 1, False)
    bahdanau = load_recipe("bahdanau").model
    assert isinstance(bahdanau, BahdanauSettings)
    assert bahdanau.score == "additive"
    for name, window in (("luong", "global"), ("luong-local-p", "local-p"), ("box/luong", "global")):
        luong = load_recipe(name).model
        assert isinstance(luong, LuongSettings)
        assert (luong.window, luong.score, luong.input_feeding) == (window, "general", True)
        assert (luong.layers, luong.bidirectional, luong.reverse_source) == (2, False, True)  # the paper: 4 layers
    textbook = load_recipe("attention").model
    assert isinstance(textbook, LuongSettings)
    assert (textbook.layers, textbook.bidirectional, textbook.reverse_source, textbook.score) == (
        1,
        False,
        False,
        "dot",
    )
    assert load_recipe("gnmt").model.model_dump()["layers"] == 8
    for name in ("gnmt", "gnmt-small", "box/gnmt"):
        gnmt = load_recipe(name).model.model_dump()
        assert (gnmt["context_to"], gnmt["query"]) == ("upper", "previous")
    for name in ("seq2seq", "seq2seq-cho", "attention", "bahdanau", "luong", "luong-local-p", "gnmt", "gnmt-small"):
        assert load_recipe(name).model.model_dump()["tie_embeddings"] == "none"  # no paper before 2016 ties
    transformer = load_recipe("transformer").model
    assert transformer == TransformerSettings()  # the defaults are the paper's base model
    assert (transformer.norm, transformer.tie_embeddings, transformer.heads) == ("post", "all", 8)


@pytest.mark.parametrize("settings", [*MODEL_SETTINGS.values(), TextSettings, TrainingSettings, SearchSettings])
def test_every_setting_is_documented(settings: type[Settings]):
    for name, field in settings.model_fields.items():
        if name != "kind":
            assert field.description, f"{settings.__name__}.{name}"
            assert not field.is_required(), f"{settings.__name__}.{name} has no default"


@pytest.mark.parametrize("kind", MODEL_SETTINGS)
def test_every_model_has_a_title_a_paper_and_a_score(kind: str):
    settings = MODEL_SETTINGS[kind]
    assert settings.title
    assert any(year in settings.paper for year in ("2014", "2015", "2016", "2017"))
    assert "BLEU" in settings.published


def test_settings_are_frozen():
    settings = SearchSettings()
    with pytest.raises(ValidationError):
        settings.beam = 3


def test_reading_recipes_needs_no_torch():
    read = "import sys, regard.config.recipes as c; [c.load_recipe(n) for n in c.recipe_names()]"
    code = f"{read}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- unknown keys and wrong values -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"modle": {}}, "unknown key 'modle': did you mean 'model'?"),
        ({"model__hiden_size": 3}, "unknown key 'model.hiden_size': did you mean 'hidden_size'?"),
        ({"model__input_feding": True}, "unknown key 'model.input_feding': did you mean 'input_feeding'?"),
        ({"text__tokeniser": "bpe"}, "unknown key 'text.tokeniser': did you mean 'tokenizer'?"),
        ({"training__learning-rate": 1}, "unknown key 'training.learning-rate': did you mean 'learning_rate'?"),
        ({"search__beams": 3}, "unknown key 'search.beams': did you mean 'beam'?"),
        ({"model": {"kind": "luongg"}}, "model.kind = 'luongg': there is no such model: did you mean 'luong'?"),
        (
            {"model": {"kind": 3}},
            f"model.kind = 3: there is no such model: choose one of {KINDS}.",
        ),
        (
            {"model": {}},
            f"model.kind = None: there is no such model: choose one of {KINDS}.",
        ),
    ],
)
def test_unknown_names_suggest_the_nearest(changes: dict[str, Any], message: str):
    assert complaint(**changes) == message


def test_key_of_another_model_is_unknown_and_the_known_ones_are_that_models():
    message = complaint(model={"kind": "gnmt", "xyz": 1})
    assert message.startswith("unknown key 'model.xyz': choose one of ")
    assert "context_to" in message
    assert "input_feeding" not in message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model__hidden_size": "big"}, "model.hidden_size = 'big': input should be a valid integer"),
        ({"model__hidden_size": 0}, "model.hidden_size = 0: input should be greater than or equal to 1."),
        ({"model__hidden_size": 2.5}, "model.hidden_size = 2.5: input should be a valid integer"),
        ({"model__dropout": 1.0}, "model.dropout = 1.0: input should be less than 1."),
        ({"model__score": "dots"}, "model.score = 'dots': input should be 'dot', 'scaled_dot'"),
        ({"model": 3}, "model = 3: "),
        ({"text": "bpe"}, "text = 'bpe': "),
        ({"text__vocabulary_size": "a\nb"}, r"text.vocabulary_size = 'a\nb': "),
        ({"training__learning_rate": float("nan")}, "training.learning_rate = nan: input should be a finite number."),
        ({"training__optimizer": "adm"}, "training.optimizer = 'adm': input should be 'adam', 'adamw', 'sgd' or"),
        ({"model__context_to": "output"}, 'model: context_to = "output" needs query = "previous": '),
        ({"model__sharpness": 0}, "model.sharpness = 0: "),
        ({"training__betas": "x"}, "training.betas = 'x': "),
        ({"training": {}}, "training: training never ends: set at least one of epochs, updates and budget."),
        (
            {"training__budget": "ten"},
            'training.budget: \'ten\' is not a duration: write it as "90s", "10m" or "1.5h".',
        ),
        (
            {"model__hidden_size": 10**8},
            "model.hidden_size is larger than any that Regard builds (16,777,216, ",
        ),
        (
            {"training__r_drop": 5.0, "model__dropout": 0.0},
            "training.r_drop compares two dropout masks, and this model has no dropout: set one.",
        ),
        ({"search__n_best": 9}, "search: n_best = 9 is more than beam = 5: raise beam to it."),
        ({"training__validation_bleu": False}, 'training: select_by = "bleu" needs validation_bleu = true.'),
        ({"model__tie_embeddings": "all"}, 'model.tie_embeddings = "all" needs text.joint = true: one vocabulary'),
        ({"model": {"kind": "seq2seq", "context": "every_step"}}, 'model: context = "every_step" is Cho\'s model: '),
        ({"model__bidirectional": True, "model__hidden_size": 5}, "model: bidirectional = true needs an even hidden"),
    ],
)
def test_impossible_values_are_told_with_key_value_and_cause(changes: dict[str, Any], message: str):
    assert complaint(**changes).startswith(message)


@pytest.mark.parametrize("missing", ["model", "training"])
def test_missing_table_is_named(missing: str):
    made = table()
    del made[missing]
    with pytest.raises(ConfigError, match=f"the key '{missing}' is missing: add it"):
        check_recipe(made, "my.toml")


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe", r"is not UTF-8 text \(byte 0\): a recipe is a TOML file"),
        (b"[model\n", r"is not valid TOML: .*line 1"),
        (b"[model]\nkind='luong'\nkind='gnmt'\n", r"is not valid TOML: .*line 3"),
        (b"", "the key 'model' is missing: add it"),
    ],
)
def test_damaged_file_is_named(tmp_path: Path, content: bytes, message: str):
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message) as caught:
        load_recipe(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_recipe_that_is_not_there():
    with pytest.raises(ConfigError, match=r"bahdanua: there is no such recipe or file: did you mean 'bahdanau'\?"):
        load_recipe("bahdanua")
    with pytest.raises(ConfigError, match=r"mine/recipe\.yaml: there is no such recipe or file"):
        load_recipe("mine/recipe.yaml")


def test_a_folder_does_not_hide_the_recipe_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "luong").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load_recipe("luong").model.kind == "luong"


def test_folder_is_no_recipe(tmp_path: Path):
    with pytest.raises(ConfigError, match="is a folder, not a recipe"):
        load_recipe(tmp_path)


# --- overrides -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("training.learning_rate=3e-4", ("training", "learning_rate"), 3e-4),
        ("training.betas=[0.8, 0.9]", ("training", "betas"), (0.8, 0.9)),
        ("training.updates=none", ("training", "updates"), None),
        ("training.patience=none", ("training", "patience"), None),
        ("training.clip_norm=none", ("training", "clip_norm"), None),
        ("text.joint=true", ("text", "joint"), True),
        ("model.score=dot", ("model", "score"), "dot"),
        ('model.score="dot"', ("model", "score"), "dot"),
        (" model.window = local-p ", ("model", "window"), "local-p"),
        ("model.window_size=3", ("model", "window_size"), 3),
        ("description=a = b", ("description",), "a = b"),
    ],
)
def test_override_sets_its_key(recipe_file: Path, override: str, path: tuple[str, ...], value: object):
    for recipe in (load_recipe(recipe_file, [override]), with_overrides(load_recipe(recipe_file), [override])):
        found: Any = recipe
        for part in path:
            found = getattr(found, part)
        assert found == value
        assert isinstance(recipe.model, LuongSettings)
        assert recipe.model.hidden_size == 64, "the rest stays as it was"


@pytest.mark.parametrize(
    "override",
    ["model.tie_embeddings=none", "training.average=none", "training.budget=none"],
)
def test_none_is_a_word_or_nothing_as_the_key_would_have_it(recipe_file: Path, override: str):
    load_recipe(recipe_file, [override])


def test_betas_that_no_optimizer_takes_are_refused():
    assert complaint(training__betas=[2.0, 3.0]).startswith("training.betas")


def test_later_overrides_win(recipe_file: Path):
    assert load_recipe(recipe_file, ["training.updates=5", "training.updates=6"]).training.updates == 6


def test_one_string_is_no_list_of_overrides(recipe_file: Path):
    with pytest.raises(ConfigError, match=r"^overrides: 'model.layers=1' is one string: give a list, \['model"):
        with_overrides(load_recipe(recipe_file), "model.layers=1")


def test_no_override_is_the_same_recipe(recipe_file: Path):
    recipe = load_recipe(recipe_file)
    assert with_overrides(recipe, []) is recipe


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model", "--set model: write it as table.key=value"),
        ("=3", "--set =3: write it as table.key=value"),
        ("model.=3", "--set model.=3: write it as table.key=value"),
        ("model.kind.x=3", "--set model.kind.x=3: 'kind' is a value, not a table."),
        ("model.hidden_sise=3", "'model.hidden_sise': did you mean model.hidden_size?"),
        ("model.hidden_size=big", "model.hidden_size = 'big': input should be a valid integer"),
        ("trainig.updates=3", "there is no setting 'trainig.updates': did you mean training.updates?"),
        ("training.learning_rate=", "training.learning_rate = '': input should be a valid number"),
        ("lr=3", "there is no setting 'lr': did you mean training.learning_rate?"),
        ("training.lr=3", "there is no setting 'training.lr': did you mean training.learning_rate?"),
        ("learning-rate=3", "did you mean training.learning_rate?"),
        ("beam=3", "there is no setting 'beam': did you mean search.beam?"),
        ("batch_tokens=3", "did you mean training.batch_tokens or search.batch_tokens?"),
        ("training.dropout=0.2", "did you mean model.dropout?"),
        ("hiden_size=3", "did you mean model.hidden_size?"),
        ("qqqqqqq=3", "there is no setting 'qqqqqqq': see `regard settings`."),
        ("training.budget=4", "training.budget: 4 has no unit: write 4m or 240s."),
        ("training.budget=0.5", "training.budget: 0.5 has no unit: write 0.5m or 30s."),
        ("search.n_best=9", "search: n_best = 9 is more than beam = 5"),
    ],
)
def test_wrong_override_is_told(recipe_file: Path, override: str, message: str):
    recipe = load_recipe(recipe_file)
    for attempt in (lambda: load_recipe(recipe_file, [override]), lambda: with_overrides(recipe, [override])):
        with pytest.raises(ConfigError) as caught:
            attempt()
        assert message in str(caught.value)
        assert str(caught.value).startswith(f"--set {override}: ")
        assert "\n" not in str(caught.value)


def test_the_right_override_is_blamed(recipe_file: Path):
    with pytest.raises(ConfigError, match=r"^--set training\.lerning_rate=3: there is no setting"):
        load_recipe(recipe_file, ["training.updates=5", "training.lerning_rate=3", "model.hidden_size=8"])


def test_an_option_that_is_shorthand_is_blamed_by_its_own_name(recipe_file: Path):
    with pytest.raises(ConfigError, match=r"^--dropout 2: model\.dropout = 2: input should be less than 1"):
        load_recipe(recipe_file, [Override("model.dropout=2", said="--dropout 2")])


def test_what_is_wrong_in_the_file_is_not_blamed_on_an_override(recipe_file: Path):
    recipe_file.write_text(recipe_file.read_text().replace("hidden_size", "hiden_size"))
    with pytest.raises(ConfigError, match=r"^.*mine\.toml: unknown key 'model\.hiden_size': did you mean"):
        load_recipe(recipe_file, ["training.updates=5"])


def test_settings_of_images_are_suggested_to_an_image_recipe():
    with pytest.raises(ConfigError, match=r"did you mean training\.batch_images\?"):
        load_recipe("bam", ["batch_size=5"])


# --- durations and suggestions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("1.5h", 5400), (" 2 m ", 120), ("0.5s", 0.5)]
)
def test_duration(text: str, seconds: float):
    assert duration_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "10 minutes", "-5m", "0s", "0.0h", "1e3s", "10M", "1,5h", "nan s"])
def test_what_is_no_duration(text: str):
    with pytest.raises(ValueError, match=r'is not a duration: write it as "90s", "10m" or "1\.5h"'):
        duration_seconds(text)


@given(st.integers(1, 10**6), st.sampled_from("smh"))
def test_duration_of_any_number(number: int, unit: str):
    assert duration_seconds(f"{number}{unit}") == number * {"s": 1, "m": 60, "h": 3600}[unit]


def test_did_you_mean_lists_all_when_nothing_is_near():
    assert did_you_mean("xyz", ["b", "a"]) == "choose one of a, b."
    assert did_you_mean("bahdanu", ["luong", "bahdanau"]) == "did you mean 'bahdanau'?"


@given(st.dictionaries(st.text(max_size=5), st.one_of(st.integers(), st.text(max_size=5), st.booleans()), max_size=3))
def test_whatever_stands_in_a_table_gives_a_recipe_or_one_line(extra: dict[str, Any]):
    for group in ("model", "text", "training", "search"):
        made = table()
        made[group] = {**made.get(group, {}), **extra}
        message = "my.toml: fine"
        try:
            assert isinstance(check_recipe(made, "my.toml"), Recipe)
        except ConfigError as error:
            message = str(error)
        assert message.startswith("my.toml: ")
        assert len(message.splitlines()) == 1


@pytest.mark.parametrize(("name", "value"), [
    ("length_penalty", 1e308), ("coverage_penalty", 1e308), ("max_length_ratio", 1e308), ("min_length_ratio", 1e308),
    ("max_length_extra", 10**12), ("max_source", 1),
])  # fmt: skip
def test_search_settings_that_would_overflow_are_refused(name, value):
    with pytest.raises(ConfigError, match=rf"^search: {name}.*(less|greater) than or equal to"):
        changed_settings(SearchSettings(), {name: value})
