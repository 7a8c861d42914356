"""A server for tests: a tiny model whose translations are the sentences in capitals, on a free port."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from regard.config.recipes import check_recipe
from regard.data.text.tokenizer import Tokenizer
from regard.decoding.search_settings import SearchChanges
from regard.inference.translation import Translation
from regard.inference.translator import Translator
from regard.models import build_model
from regard.serve.app import build_app
from regard.serve.languages import Languages
from regard.serve.models import ServedModel, ServedModels
from regard.serve.server import build_server, listen
from regard.serve.settings import ServeSettings

ENGLISH = ["the small house", "a green tree stands here", "the cat saw a small dog", "here is the house"] * 3
GERMAN = ["das kleine haus", "ein grüner baum steht hier", "die katze sah einen kleinen hund", "hier ist das haus"] * 3


class Panic(BaseException):
    """What compiled code raises when it panics: no Exception."""


class Shouting(Translator):
    """Translates into capitals, keeps account of its batches, and waits while its door is shut."""

    def prepare(self) -> None:
        self.batches: list[list[str]] = []
        self.door = threading.Event()
        self.door.set()
        self.entered = threading.Event()
        self.slowly = threading.Event()
        self.made: list[str] = []

    def translate_unordered(
        self, lines: Sequence[str], search: SearchChanges = None, *, attention: bool = False
    ) -> Iterator[tuple[int, Translation]]:
        if attention:
            yield from super().translate_unordered(lines, search, attention=attention)
            return
        self.batches.append(list(lines))
        self.entered.set()
        assert self.door.wait(20)
        if any("panic" in line for line in lines):
            raise Panic("the tokenizer panicked")
        n_best = self.search_settings(search).n_best
        for number, line in sorted(enumerate(lines), key=lambda numbered: -len(numbered[1])):
            if "poison" in line:
                raise RuntimeError("poisoned")
            if "dawdle" in line:
                assert self.slowly.wait(20)
            self.made.append(line)
            further = tuple(Translation(line, line.upper() + "!" * further) for further in range(1, n_best))
            yield number, Translation(line, line.upper(), _others=further)


def tiny(lines: list[str] = ENGLISH, kind: str = "bahdanau", shouting: bool = True) -> Any:
    """An untrained model of a few hundred weights."""
    recipe = check_recipe(
        {
            "model": {"kind": kind, "hidden_size": 12, "embedding_size": 8},
            "text": {"tokenizer": "bpe", "vocabulary_size": 300, "min_frequency": 1},
            "training": {"updates": 1},
            "search": {"max_length_extra": 4, "max_length_ratio": 1.0},
        },
        "test",
    )
    tokenizer = Tokenizer.train(lines, recipe.text)
    torch.manual_seed(1)
    model = build_model(recipe.model, tokenizer.size, tokenizer.size)
    found = (Shouting if shouting else Translator)(model, recipe, tokenizer, tokenizer)
    if shouting:
        found.prepare()
    return found


def served(translator: Translator, name: str = "tiny", source: str = "en", target: str = "de") -> ServedModel:
    return ServedModel(name, translator, Languages(source, target))


@dataclass
class Running:
    """A server on a free port."""

    port: int
    server: Any
    open: list[http.client.HTTPConnection] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(
        self, path: str, body: Any = None, headers: dict[str, str] | None = None, method: str | None = None
    ) -> tuple[int, Any, dict[str, str]]:
        """Status, body (parsed if it is JSON) and headers of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        raw = body if isinstance(body, bytes | str) or body is None else json.dumps(body)
        sent = {"Content-Type": "application/json"} if raw is not None else {}
        with contextlib.closing(connection):
            connection.request(method or ("GET" if raw is None else "POST"), path, raw, sent | (headers or {}))
            response = connection.getresponse()
            content = response.read()
        is_json = bool(content) and response.headers.get_content_type() == "application/json"
        return response.status, json.loads(content) if is_json else content, dict(response.headers.items())

    def translate(self, q: Any, **further: Any) -> tuple[int, Any, dict[str, str]]:
        return self.ask("/translate", {"q": q, "source": "en", "target": "de", **further})


def running(
    models: list[ServedModel], settings: ServeSettings | None = None, keys: Iterable[str] = (), token: str | None = None
) -> contextlib.AbstractContextManager[Running]:
    """The server of some models that translate, while the block runs."""
    return running_models(ServedModels(models), settings, keys, token)


@contextlib.contextmanager
def running_models(
    models: ServedModels,
    settings: ServeSettings | None = None,
    keys: Iterable[str] = (),
    token: str | None = None,
    listening_class: type[socket.socket] = socket.socket,
) -> Iterator[Running]:
    """The server of some models, while the block runs."""
    settings = settings or ServeSettings()
    started = threading.Event()
    with listen("127.0.0.1", 0) as found, listening_class(fileno=found.detach()) as listening:
        listening.setblocking(False)
        server = build_server(build_app(models, settings, keys, token), settings, started.set)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        port = listening.getsockname()[1]
        thread.start()
        assert started.wait(20)
        try:
            yield Running(port, server)
        finally:
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive()
