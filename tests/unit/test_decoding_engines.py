"""Engines: one choice, torch for the rest, weights made once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from regard.config.recipes import check_recipe
from regard.config.settings import SearchSettings
from regard.data.text.tokenizer import Tokenizer
from regard.decoding.engines import choice
from regard.decoding.engines.batches import even_batches
from regard.decoding.engines.engine import Engine, Extras, OnceMade, Sentence
from regard.decoding.hypothesis import Hypothesis, StreamedToken
from regard.decoding.text_model import TextModel
from regard.errors import ConfigError
from regard.inference.translator import Translator
from regard.models import build_model

LINES = ["the small house stands here", "a green tree", "the cat saw a small dog and a tree", "here is the house"]


class Short:
    """An engine that takes sentences of at most five tokens and finds nothing in them."""

    def __init__(self, model: TextModel, made: OnceMade) -> None:
        self.seen: list[int] = []

    def why_not(self, settings: SearchSettings) -> str | None:
        return "it cannot draw at random" if settings.sample else None

    def prepare(self, settings: SearchSettings) -> None: ...

    def is_open(self, settings: SearchSettings) -> bool:
        return True

    def takes(self, sentence: Sentence, extras: Extras, settings: SearchSettings) -> bool:
        return len(sentence.ids) <= 5 and not extras

    def search(
        self, sentences: Sequence[Sentence], settings: SearchSettings, extras: Extras
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        for place in reversed(range(len(sentences))):
            self.seen.append(sentences[place].number)
            yield place, [Hypothesis((3,), -9.0, -9.0, True, ())]

    def streams(self, settings: SearchSettings) -> bool:
        return settings.temperature == 1

    def stream(self, sentence: Sentence, settings: SearchSettings) -> Iterator[StreamedToken]:
        yield StreamedToken(3, -9.0, -9.0, True)


@pytest.fixture
def translator(monkeypatch: pytest.MonkeyPatch) -> Translator:
    monkeypatch.setitem(choice.ENGINES, "ctranslate2", Short)
    model = {"kind": "bahdanau", "hidden_size": 8, "embedding_size": 8}
    text = {"tokenizer": "word", "vocabulary_size": 300, "min_frequency": 1, "joint": True}
    recipe = check_recipe({"model": model, "text": text, "training": {"updates": 1}}, "test")
    tokenizer = Tokenizer.train(LINES, recipe.text)
    torch.manual_seed(5)
    return Translator(build_model(recipe.model, tokenizer.size, tokenizer.size), recipe, tokenizer, tokenizer)


THEIRS: dict[str, Any] = {"engine": "ctranslate2", "replace_unknown": False}


def test_what_the_chosen_engine_does_not_take_goes_to_torch(translator: Translator) -> None:
    ours = translator.translate(LINES, search={"replace_unknown": False})
    found = translator.translate(LINES, search=THEIRS)
    short = [len(translator.source_tokenizer.encode(line)) <= 5 for line in LINES]
    assert short == [False, True, False, True]
    assert [each.log_probability == -9.0 for each in found] == short
    assert all(each.text == other.text for each, other, own in zip(found, ours, short, strict=True) if not own)
    watched = translator.translate(LINES, search=THEIRS, attention=True)
    assert [each.text for each in watched] == [each.text for each in ours]


def test_a_stream_takes_the_same_engine(translator: Translator) -> None:
    short, long = sorted(LINES, key=len)[:: len(LINES) - 1]
    assert [each.score for each in translator.stream(short, search=THEIRS)] == [-9.0]
    assert len(list(translator.stream(long, search=THEIRS))) > 1
    assert list(translator.stream(short, search={**THEIRS, "temperature": 0.9}))[-1].score != -9.0
    replaced = list(translator.stream(short, search={"engine": "ctranslate2"}))  # words: <unk> may need attention
    assert replaced[-1].score != -9.0


def test_what_an_engine_cannot_do_is_refused(translator: Translator) -> None:
    with pytest.raises(ConfigError, match='"ctranslate2": it cannot draw at random: use search'):
        translator.translate(LINES, search={**THEIRS, "sample": True})
    with pytest.raises(ConfigError, match="draw at random"):
        list(translator.stream(LINES[0], search={**THEIRS, "sample": True}))


def test_a_look_is_always_by_torch(translator: Translator) -> None:
    line = min(LINES, key=len)
    assert translator.look(line, search=THEIRS).log_probability != -9.0


def test_threads_make_weights_once() -> None:
    made, calls = OnceMade(), []

    def make() -> object:
        calls.append(1)
        time.sleep(0.02)
        return object()

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: made.get("weights", make), range(8)))
    assert calls == [1]
    assert len(set(map(id, found))) == 1


def test_every_engine_keeps_the_protocol(translator: Translator) -> None:
    model = translator._model
    engines: list[Engine] = [make(model, OnceMade()) for make in choice.ENGINES.values()]
    assert all(engine.why_not(translator.recipe.search) is None for engine in engines)


@pytest.mark.parametrize(
    ("count", "beam", "sizes"),
    [
        (20, 1, [20]),
        (40, 1, [20, 20]),
        (500, 1, [63] * 4 + [62] * 4),
        (1024, 5, [19] * 16 + [18] * 40),
        (3, 100, [1] * 3),
        (0, 1, []),
    ],
)
def test_batches_are_even_for_two_and_four_threads(count: int, beam: int, sizes: list[int]):
    sentences = [[5] * (1 + place % 9) for place in range(count)]
    batches = list(even_batches(sentences, SearchSettings(beam=beam), rows=96))
    assert [len(batch) for batch in batches] == sizes
    lengths = [len(sentences[place]) for batch in batches for place in batch]
    assert lengths == sorted(lengths, reverse=True)
    assert sorted(place for batch in batches for place in batch) == list(range(count))


def test_batches_hold_no_more_tokens_than_wanted():
    sentences = [[5] * length for length in (9, 30, 4, 9, 8, 3)]
    batches = list(even_batches(sentences, SearchSettings(beam=1, batch_tokens=20), rows=96))
    assert batches == [[1], [0, 3], [4, 2], [5]]


def test_batches_of_long_sentences_take_no_more_steps_than_wanted():
    sentences = [[5] * 900] * 10  # up to 1,820 steps for each of 5 hypotheses
    assert [len(batch) for batch in even_batches(sentences, SearchSettings(), rows=96)] == [1] * 10
