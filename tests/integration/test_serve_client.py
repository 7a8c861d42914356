"""A client of LibreTranslate's from PyPI, which knows nothing of Regard."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.error import HTTPError

import pytest
from libretranslatepy import LibreTranslateAPI
from serve_help import GERMAN, Running, running, served, tiny


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running([served(tiny()), served(tiny(GERMAN), "back", "de", "en")], keys=["secret"]) as found:
        yield found


@pytest.fixture
def client(server: Running) -> LibreTranslateAPI:
    return LibreTranslateAPI(server.url, "secret")


def test_it_translates(client: LibreTranslateAPI) -> None:
    text = "The cat & the dog.\nGrün: 100% {x}"
    assert client.translate(text, "en", "de") == "THE CAT & THE DOG.\nGRÜN: 100% {x}"


def test_it_detects(client: LibreTranslateAPI) -> None:
    assert client.detect("das kleine haus")[0]["language"] == "de"


def test_it_lists_languages(client: LibreTranslateAPI) -> None:
    assert {language["code"]: language["targets"] for language in client.languages()} == {
        "en": ["de", "en"],
        "de": ["de", "en"],
    }


def test_it_is_refused_without_its_key(server: Running) -> None:
    with pytest.raises(HTTPError) as refusal:
        LibreTranslateAPI(server.url).translate("a", "en", "de")
    with refusal.value as answer:
        assert answer.code == 403
        assert b'{"error":' in answer.read()
