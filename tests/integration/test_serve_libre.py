"""HTML and languages as LibreTranslate's clients expect them, over HTTP."""

from __future__ import annotations

import html as html_library
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from serve_help import GERMAN, Running, running, served, tiny

from regard.data.text.tokenizer import Token
from regard.inference.translation import Attended, Translation
from regard.serve.models import ServedModel


@pytest.fixture(scope="module")
def models() -> list[ServedModel]:
    return [served(tiny()), served(tiny(GERMAN), "back", "de", "en")]


@pytest.fixture(scope="module")
def server(models: list[ServedModel]) -> Iterator[Running]:
    with running(models) as found:
        yield found


def test_inline_elements_are_placed_by_attention(
    server: Running, models: list[ServedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    translator, asked = models[1].translator, []

    def spoken(lines: Sequence[str], search: Any, *, attention: bool) -> Iterator[tuple[int, Translation]]:
        asked.extend((line, attention) for line in lines)
        for number, line in enumerate(lines):
            words = line.split()
            tokens = [Token(5, word, place, 0, 0) for place, word in enumerate(words)] + [Token(3, "</s>", None, 0, 0)]
            mirror = np.fliplr(np.eye(len(words) + 1))[[*range(1, len(words) + 1), 0]]  # backwards, </s> at the end
            text = " ".join(reversed(words)).upper()
            yield (
                number,
                Translation(line, text, tokens, tokens, recorded=Attended(alignment=mirror if attention else None)),
            )

    monkeypatch.setattr(translator, "translate_unordered", spoken)

    def html(text: str) -> str:
        answer = server.ask("/translate", {"q": text, "source": "de", "target": "en", "format": "html"})
        assert answer[0] == 200
        return str(answer[1]["translatedText"])

    assert html("<p>ein <b>rotes <i>Auto</i></b> hier</p>") == "<p>HIER <b><i>AUTO</i> ROTES</b> EIN</p>"
    assert asked == [("ein rotes Auto hier", True)]
    asked.clear()
    assert html("ein ro<b>tes</b> <i>Auto</i>. Ja <u>hier</u>") == "<i>AUTO</i>. <b>ROTES</b> EIN <u>HIER</u> JA"
    assert asked == [("ein rotes Auto.", True), ("Ja hier", True)]


def test_the_source_language_is_found(server: Running) -> None:
    answer = server.ask("/translate", {"q": "die katze sah das haus", "source": "auto", "target": "en"})[1]
    assert answer["translatedText"] == "DIE KATZE SAH DAS HAUS"
    assert answer["detectedLanguage"]["language"] == "de"
    assert answer["detectedLanguage"]["confidence"] > 50
    assert server.ask("/detect", {"q": "die katze sah das haus"})[1][0]["language"] == "de"
    assert server.ask("/detect", {"q": "the cat saw the house"})[1][0]["language"] == "en"


def test_a_text_in_the_target_language_comes_back(server: Running) -> None:
    english = "the cat saw the house"
    assert server.translate(english, target="en")[1] == {"translatedText": english}
    answer = server.translate([english], source="auto", target="en", alternatives=1)[1]
    assert (answer["translatedText"], answer["alternatives"]) == ([english], [[]])
    assert answer["detectedLanguage"][0]["language"] == "en"


def test_without_the_detector_the_server_says_so(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    assert server.ask("/frontend/settings")[1]["languageDetection"] is True
    monkeypatch.setattr("regard.serve.libre.is_installed", lambda: False)
    status, answer, _ = server.ask("/detect", {"q": "the cat"})
    assert status == 501
    assert "pip install 'regard[detect]'" in answer["error"]
    assert server.ask("/frontend/settings")[1]["languageDetection"] is False
    answer = server.ask("/translate", {"q": "die katze", "source": "auto", "target": "en"})[1]
    assert answer["detectedLanguage"] == {"confidence": 0.0, "language": "de"}  # the only one: nothing was detected


@pytest.mark.parametrize("kind", ["bahdanau", "luong", "seq2seq"])
def test_the_text_of_an_html_translation_is_the_plain_translation(kind: str) -> None:
    sentences = [
        "the <b>small</b> house",
        "a <i>green <b>tree</b> stands</i> here.",
        "on the <i>island</i>.",
        "<a>here is</a> it",
    ]
    with running([served(tiny(kind=kind, shouting=False))]) as server:
        found = server.translate(sentences, format="html")[1]["translatedText"]
        plain = server.translate([re.sub("<[^>]*>", "", each) for each in sentences])[1]["translatedText"]
    assert [html_library.unescape(re.sub("<[^>]*>", "", each)) for each in found] == plain
