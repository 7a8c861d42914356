"""Languages, names of models, keys, hosts and pace: the parts of a server that need no HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.cli.serve import read_keys
from regard.config.recipes import load_recipe_as
from regard.config.settings import Recipe
from regard.data.toy import toy_corpus
from regard.errors import ConfigError, DataError
from regard.serve.detection import detect
from regard.serve.errors import ApiError
from regard.serve.guard import Guard
from regard.serve.languages import Languages, languages_of, name_of, parse_pair
from regard.serve.limits import Gate, Keys, RateLimit
from regard.serve.metrics import Metrics
from regard.serve.models import ServedModel, ServedModels, load_models
from regard.serve.settings import ServeSettings
from regard.training.tasks.translation import with_languages


@pytest.mark.parametrize(
    ("text", "folder", "languages"),
    [
        ("corpus.de, corpus.en", "model", Languages("de", "en")),
        ("train.clean.fr.gz, train.clean.ko.gz", "de-en", Languages("fr", "ko")),
        ("embedded corpus phrases en-fr, train, 5,000 pairs", "model", Languages("en", "fr")),
        ("corpus.tsv", "models-de-en", Languages("de", "en")),
        ("corpus.tsv", "de-en/bahdanau", Languages("de", "en")),
        ("corpus.tsv", "my-model", Languages("und", "und")),
        ("corpus.tsv", "my-run", Languages("und", "und")),
        ("text.xx, text.en", "x", Languages("und", "und")),
        ("text.tok, text.tok", "x", Languages("und", "und")),
        ("pairs from Python", "best", Languages("und", "und")),
    ],
)
def test_the_names_of_files_and_folders_tell_the_languages(text: str, folder: str, languages: Languages) -> None:
    recipe = with_languages(load_recipe_as(Recipe, "fast"), text)
    assert languages_of(recipe, folder) == languages
    assert languages.known == (languages.source != "und")


def test_languages_that_were_given_are_kept() -> None:
    recipe = load_recipe_as(Recipe, "fast", ['text.languages=["nl", "fy"]'])
    assert languages_of(with_languages(recipe, "corpus.de, corpus.en"), "de-en") == Languages("nl", "fy")
    with pytest.raises(ConfigError, match=r"text\.languages"):
        load_recipe_as(Recipe, "fast", ['text.languages=["German", "English"]'])


def test_pairs_and_names() -> None:
    assert parse_pair("de-en") == Languages("de", "en")
    assert parse_pair("german-english") is None
    assert name_of("ko") == "Korean"
    assert name_of("ko", "ko") == "한국어"
    assert name_of("xx") == name_of("xx", "ko") == "xx"


@pytest.mark.parametrize(("code", "pair"), [("fr", "en-fr"), ("de", "en-de"), ("ko", "en-ko"), ("en", "en-de")])
def test_languages_are_told_apart(code: str, pair: str) -> None:
    lines = list(toy_corpus("phrases", pair).generate("valid", 50, seed=0))
    texts = [item.source if code == "en" else item.target for item in lines]
    guessed = [detect(text, ["de", "en", "fr", "ko"])[0] for text in texts]
    assert sum(each.language == code for each in guessed) >= 49
    assert sum(each.confidence for each in guessed) / len(guessed) > 80


def test_confidence_is_low_where_nothing_is_certain() -> None:
    assert detect("고양이가 의자에서 잡니다.", ["de", "en"])[0].confidence < 1  # neither
    assert detect("ok", ["de", "en"])[0].confidence < 10
    assert detect("", ["de"])[0].confidence < 10
    assert [each.language for each in detect("hei, hvordan har du det?", ["und", "xyz", "nb"])] == ["nb"]


# --- models -------------------------------------------------------------------------------------------------------


def test_the_first_model_of_a_pair_translates_it() -> None:
    first, second = (ServedModel(name, object(), Languages("de", "en")) for name in "ab")  # type: ignore[arg-type]
    models = ServedModels([first, second, ServedModel("c", object(), Languages("en", "de"))])  # type: ignore[arg-type]
    assert models.translating("de", "en") is first
    assert models.translating("de", "de") is None
    assert models.named("b") is second
    assert models.languages == {"de": ["de", "en"], "en": ["de", "en"]}


def test_two_models_of_one_name_are_refused() -> None:
    same = ServedModel("a", object(), Languages("de", "en"))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="two models are named 'a'"):
        ServedModels([same, same])


@pytest.mark.parametrize(
    ("argument", "languages", "message"),
    [("=x", None, "name before = is empty"), ("x", "german", "such as de-en"), ("none/here", None, "no such model")],
)
def test_mistakes_in_the_arguments(argument: str, languages: str | None, message: str) -> None:
    with pytest.raises(Exception, match=message):
        load_models([argument], languages)


# --- the door -----------------------------------------------------------------------------------------------------


def test_hosts_are_addresses_or_names_of_ours() -> None:
    settings = ServeSettings(allow_hosts=("translate.example.org",))
    guard = Guard(None, settings, Metrics(), Gate(settings))  # type: ignore[arg-type]
    for host in ["127.0.0.1:5000", "localhost", "LOCALHOST:80", "[::1]:5000", "[::1]", "192.168.0.7", "10.0.0.1:1"]:
        assert guard.knows_host(host), host
    assert guard.knows_host("Translate.Example.org:443")
    for host in ["", "evil.example.org", "localhost.evil.org", "127.0.0.1.evil.org:5000", "a b", "[::1].evil"]:
        assert not guard.knows_host(host), host


def test_keys_are_checked() -> None:
    Keys([]).check(None)
    keys = Keys(["first", "schlüssel"])
    keys.check("first")
    keys.check("schlüssel")
    for wrong in [None, "", "firs", "first ", "\ud800"]:
        with pytest.raises(ApiError) as refusal:
            keys.check(wrong)
        assert refusal.value.status == 403


def test_keys_are_read_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keys"
    file.write_text("# ours\nfirst\n\n second \n")
    assert read_keys(file) == ["first", "second"]
    assert read_keys(None) == []
    monkeypatch.setenv("REGARD_API_KEYS", "a, b,")
    assert read_keys(None) == ["a", "b"]
    file.write_text("# none\n")
    with pytest.raises(ConfigError, match="contains no API key"):
        read_keys(file)
    file.write_bytes(b"first\n\xff\n")
    with pytest.raises(DataError, match=r"keys:2: .* is not UTF-8"):
        read_keys(file)


def test_a_client_that_calls_too_often_is_told_when_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("regard.serve.limits.time.monotonic", lambda: now)
    pace = RateLimit(minute=2)
    pace.check("a")
    pace.check("a")
    pace.check("b")
    with pytest.raises(ApiError) as refusal:
        pace.check("a")
    assert (refusal.value.status, refusal.value.headers) == (429, {"Retry-After": "31"})
    now = 31.0
    pace.check("a")


def test_the_pace_of_endless_clients_takes_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.serve.limits._MOST_CLIENTS", 10)
    pace = RateLimit(minute=5)
    for number in range(100):
        pace.check(str(number))
    assert len(pace._clients) == 10
