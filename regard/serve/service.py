"""What all endpoints share: the models, the queue, and the ways in."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request

from regard.inference.translation import Translation
from regard.serve.errors import ApiError, ClientGone
from regard.serve.guard import Keys, Pace
from regard.serve.metrics import Metrics
from regard.serve.models import ServedModel, ServedModels
from regard.serve.queue import TranslationQueue
from regard.serve.sentences import Document, Links
from regard.serve.settings import ServeSettings

Result = TypeVar("Result")


@dataclass(frozen=True)
class Service:
    """One server."""

    models: ServedModels
    settings: ServeSettings
    keys: Keys
    pace: Pace
    metrics: Metrics
    queue: TranslationQueue

    def admit(self, request: Request, api_key: str | None = None) -> None:
        """Refuse a request without a valid key, or one too many of its client."""
        key = api_key or header_key(request)
        self.keys.check(key)
        address = request.client.host if request.client else ""
        self.pace.check(f"key {key}" if self.keys.required else address)

    def check_size(self, texts: Sequence[str], most: int | None = None) -> None:
        """Refuse more text than a request may hold."""
        most = most or self.settings.max_characters
        if len(texts) > self.settings.max_texts:
            raise ApiError(
                413, f"Invalid request: request ({len(texts)}) exceeds text limit ({self.settings.max_texts})"
            )
        characters = sum(map(len, texts))
        if characters > most:
            raise ApiError(413, f"Invalid request: request ({characters}) exceeds text limit ({most})")
        self.metrics.characters.inc(characters)

    async def wait(self, request: Request, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of some work, unless its time is up or its client has gone: then the work is dropped."""
        task = asyncio.ensure_future(work)
        gone = asyncio.ensure_future(_disconnected(request))
        seconds = self.settings.max_seconds
        try:
            await asyncio.wait({task, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            if gone.done():
                raise ClientGone
            raise ApiError(503, f"the request took longer than {seconds:g} seconds", retry_after=10)
        finally:
            task.cancel()
            gone.cancel()

    async def translate(self, model: ServedModel, documents: Sequence[Document], n_best: int = 1) -> None:
        """Translate documents in place: all their sentences at once, then those parts that lost a placeholder."""
        lines = [document.lines for document in documents]
        attention = any(document.needs_links for document in documents)
        flat = [line for each in lines for line in each]
        found = iter(await self.queue.translate(model, flat, n_best, attention=attention))
        further = []
        for document, each in zip(documents, lines, strict=True):
            own = [next(found) for _ in each]
            texts = [[said.text for said in (best, *best.alternatives)] for best in own]
            links = [[_links(said) for said in (best, *best.alternatives)] for best in own] if attention else None
            further.append(document.accept(texts, links))
        found = iter(await self.queue.translate(model, [line for each in further for line in each]))
        for document, each in zip(documents, further, strict=True):
            document.accept_parts([[next(found).text] for _ in each])


def _links(translation: Translation) -> Links:
    """Which words belong together, by what each looked at most; none for a model without attention."""
    return frozenset() if translation.alignment is None else translation.links()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def header_key(request: Request) -> str | None:
    """The API key of `Authorization: Bearer KEY`."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None
