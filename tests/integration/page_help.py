"""Small models behind a real server, and a real browser to look at them with."""

import contextlib
import os
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from playwright.sync_api import sync_playwright

import regard
from regard.config.recipes import check_recipe
from regard.serve.app import build_app
from regard.serve.image_models import ServedImageModel
from regard.serve.languages import Languages
from regard.serve.models import ServedModel, ServedModels

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
WORDS = {"one": "un", "two": "deux", "three": "trois", "four": "quatre", "five": "cinq", "six": "six", "seven": "sept"}
SENTENCE = "one two three four"
MARKUP = "<b>fixed</b>"  # a name that must stay text

# pieces within words, so that words and pieces differ; enough updates that it translates
MODELS: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {
    "bahdanau": (
        {"kind": "bahdanau", "embedding_size": 16, "encoder_size": 16, "attention_size": 16, "maxout_size": 16},
        {"tokenizer": "bpe", "vocabulary_size": 300},
        200,
    ),
    MARKUP: ({"kind": "seq2seq", "embedding_size": 16, "layers": 1}, {"tokenizer": "word"}, 12),
    "local": ({"kind": "luong", "embedding_size": 16, "layers": 1, "window": "local-p"}, {"tokenizer": "word"}, 12),
    "heads": (
        {"kind": "transformer", "encoder_layers": 2, "decoder_layers": 2, "heads": 4, "feedforward_size": 32},
        {"tokenizer": "word", "joint": True},
        12,
    ),
}


def pairs(count: int, seed: int) -> list[tuple[str, str]]:
    """Numbers, and the same in French and backwards."""
    generator = random.Random(seed)
    lines = []
    for _ in range(count):
        words = generator.choices(list(WORDS), k=generator.randint(2, 5))
        lines.append((" ".join(words), " ".join(WORDS[word] for word in reversed(words))))
    return lines


def train_small(folder: Path) -> dict[str, regard.Translator]:
    """The models by name, each trained for a second or two."""
    found = {}
    for number, (name, (model, text, updates)) in enumerate(MODELS.items()):
        training = {"updates": updates, "batch_tokens": 200, "warmup": 10, "learning_rate": 0.015}
        table = {
            "model": {"hidden_size": 24, **model},
            "text": {"min_frequency": 1, **text},
            "training": {**training, "validation_bleu": False, "select_by": "loss"},
            # However little it has learnt, there are some words to point at.
            "search": {"min_length_ratio": 1.0, "max_length_extra": 4},
        }
        recipe = check_recipe(table, "test")
        found[name] = regard.train(recipe, train=pairs(300, 1), valid=pairs(4, 2), out=folder / str(number))
    return found


@contextlib.contextmanager
def serving(
    translators: dict[str, regard.Translator], images: Iterable[ServedImageModel] = (), samples: tuple[str, ...] = ()
) -> Iterator[str]:
    """The address of a server that runs in a thread of its own; with `samples`, the page opens with one of them."""
    languages = Languages("und", "und") if samples else Languages("en", "fr")
    translating = [ServedModel(name, translator, languages, samples) for name, translator in translators.items()]
    models = ServedModels(translating, images)
    config = uvicorn.Config(build_app(models), port=0, log_level="warning", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def share(page: Any, name: str) -> None:
    """Choose an item of the Share menu."""
    page.locator(".menu summary").click()
    page.get_by_role("button", name=name, exact=True).click()


@contextlib.contextmanager
def visiting(browser: Any, address: str, **defaults: Any) -> Iterator[Callable[..., Any]]:
    """Opens the page; whatever the browser complains about fails the test."""
    complaints: list[str] = []
    contexts = []

    def open_page(fragment: str = "", at: str = f"{address}/", query: str = "", **settings: Any) -> Any:
        context = browser.new_context(**{"locale": "en-US", **defaults, **settings})
        context.set_default_timeout(20_000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"{at}{query}#{fragment}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


@contextlib.contextmanager
def browsing() -> Iterator[Any]:
    """Debian's Chromium; nothing is downloaded."""
    if CHROMIUM is None:
        pytest.skip("the page's tests need Chromium (Debian: apt-get install chromium)")
    with sync_playwright() as engine:
        # Chromium refuses its sandbox to root, as whom containers run.
        browser = engine.chromium.launch(executable_path=CHROMIUM, chromium_sandbox=os.geteuid() != 0)
        try:
            yield browser
        finally:
            browser.close()
