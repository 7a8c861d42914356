"""State shared by all endpoints: models, queue, authentication and limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request

from regard.evaluation.alignment import links
from regard.inference.translation import Translation
from regard.serve.errors import ApiError, ClientGone
from regard.serve.limits import Gate, bearer
from regard.serve.metrics import Metrics
from regard.serve.models import ServedModel, ServedModels
from regard.serve.queue import TranslationQueue
from regard.serve.sentences import Document, Links
from regard.serve.settings import ServeSettings
from regard.serve.text_workers import TextWorkers

Result = TypeVar("Result")

_LEAST_ATTENTION = 0.1  # least weight that aligns a source word that is no target word's maximum


@dataclass(frozen=True)
class Service:
    """One server."""

    models: ServedModels
    settings: ServeSettings
    gate: Gate
    metrics: Metrics
    queue: TranslationQueue
    text: TextWorkers

    def admit(self, request: Request, api_key: str | None = None) -> None:
        """Refuse a request without a valid key, or beyond its client's rate limit."""
        self.gate.admit(request.scope, api_key or bearer(request.scope))

    def check_size(self, texts: Sequence[str], most: int | None = None) -> None:
        """Refuse a request with too much text."""
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
        """The result of `work`; the deadline or a disconnecting client cancels it."""
        task = asyncio.ensure_future(work)
        gone = asyncio.ensure_future(_disconnected(request))
        seconds = self.settings.max_seconds
        try:
            await asyncio.wait({task, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            if gone.done():
                raise ClientGone
            raise ApiError(503, f"the request exceeded its deadline of {seconds:g} seconds", retry_after=10)
        finally:
            task.cancel()
            gone.cancel()

    async def translate(
        self, model: ServedModel, documents: Sequence[Document], n_best: int, finish: Callable[[], Result]
    ) -> Result:
        """Translate documents in place: all sentences at once, then sentences that lost a placeholder, in parts.

        `finish` builds the response in a text worker, off the event loop.
        """
        lines = [document.lines for document in documents]
        attention = any(document.needs_links for document in documents)
        flat = [line for each in lines for line in each]
        found = await self.queue.translate(model, flat, n_best, attention=attention)

        def accept() -> tuple[list[list[str]], list[Result]]:
            further = _accept(documents, lines, found, attention)
            return further, [] if any(further) else [finish()]

        further, finished = await self.text.run(accept)
        if finished:
            return finished[0]
        parts = await self.queue.translate(model, [line for each in further for line in each])

        def accept_parts() -> Result:
            said = iter(parts)
            for document, each in zip(documents, further, strict=True):
                document.accept_parts([[next(said).text] for _ in each])
            return finish()

        return await self.text.run(accept_parts)


def _accept(
    documents: Sequence[Document], lines: Sequence[list[str]], translations: Sequence[Translation], attention: bool
) -> list[list[str]]:
    """Give documents the translations of their lines; returns the further lines of each."""
    found = iter(translations)
    further = []
    for document, each in zip(documents, lines, strict=True):
        own = [next(found) for _ in each]
        texts = [[said.text for said in best.n_best] for best in own]
        linked = [[_links(said) for said in best.n_best] for best in own] if attention else None
        further.append(document.accept(texts, linked))
    return further


def _links(translation: Translation) -> Links:
    """Word alignment from attention; empty for a model without attention.

    Each target word is aligned to the source word with the largest weight. Each source word still unaligned is aligned
    to the target word with the largest weight on it, if that weight is at least 0.1.
    """
    if translation.alignment is None:
        return frozenset()
    weights = translation.word_alignment()  # (W_t, W_s)
    found = set(links(weights))
    if weights.size:
        left = set(range(weights.shape[1])) - {source for source, _ in found}
        best = weights.argmax(axis=0)
        found |= {(source, int(best[source])) for source in left if weights[best[source], source] >= _LEAST_ATTENTION}
    return found


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
