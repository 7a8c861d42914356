"""Regard's own API: models, attention records, interventions, beam search trees, and token streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from regard.config.models import MODEL_SETTINGS
from regard.data.text.sources import trained_on
from regard.errors import RegardError
from regard.inference.box import tested_figure
from regard.inference.streaming import StreamedPiece
from regard.nn.attention.intervention import Edit, Intervention
from regard.serve.errors import ApiError
from regard.serve.examples import examples_of
from regard.serve.image_models import ServedImageModel
from regard.serve.languages import UNKNOWN
from regard.serve.libre import Text, errors
from regard.serve.models import ServedModel
from regard.serve.service import Service
from regard.serve.stream import stream_text

MOST_EDITS = 1000
MOST_PLACES = 10_000  # layers, heads, steps and positions, all counted from 0

Place = Annotated[int, Field(ge=0, lt=MOST_PLACES)]
PieceId = Annotated[int, Field(ge=0, lt=2**31)]  # the vocabulary size is checked once the model is known
Weight = Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False)]


class Asked(BaseModel):
    """A request; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class AskedEdit(Asked):
    """One intervention on attention weights; an omitted index selects all."""

    kind: Literal["cross", "encoder-self", "decoder-self"] = "cross"
    layer: Place | None = None
    head: Place | None = None
    step: Place | None = None
    position: Place | None = Field(None, description="position of the source piece")
    replace: Weight | None = Field(None, description="new weight")
    multiply: Weight | None = Field(None, description="factor for the weight")


class AskedIntervention(Asked):
    """Interventions on the attention of the running model."""

    ban: list[Place] = Field([], max_length=MOST_EDITS, description="source subwords masked from attention")
    edits: list[AskedEdit] = Field([], max_length=MOST_EDITS)

    def build(self) -> Intervention:
        """The same, as the model's type."""
        return Intervention(tuple(self.ban), tuple(Edit(**edit.model_dump()) for edit in self.edits))


class LookRequest(Asked):
    """A sentence to look inside."""

    model: str = Field(description="name of a model, from /api/models")
    text: str = Field(min_length=1, description="the sentence")
    reference: str | None = Field(None, min_length=1, description="translation to analyse with forced decoding")
    prefix: list[PieceId] | None = Field(
        None, max_length=MOST_EDITS, description="target prefix: first piece ids of the translation"
    )
    intervention: AskedIntervention | None = None
    beam: int | None = Field(None, ge=1, description="beam size; by default the model's own setting")
    candidates: int = Field(5, ge=0, le=50, description="most probable subwords reported at each step")
    tree: bool = Field(False, description="include the whole beam search tree, with pruned branches")
    parts: list[Literal["cross", "encoder-self", "decoder-self", "steps"]] | None = Field(
        None,
        max_length=4,
        description="parts of the record to include: maps of all heads of a kind, and the arithmetic of the steps; "
        "by default all",
    )


class StreamRequest(Asked):
    """A text to translate with streaming output."""

    model: str = Field(description="name of a model, from /api/models")
    text: Text = Field(description="the text")


class Example(BaseModel):
    """A sentence to begin with."""

    kind: Literal["reordering", "agreement", "negation", "question", "long", "unseen", "gold", "sample"]
    text: str


class Figure(BaseModel):
    """The score of a model: on the test set for an installed one, as `regard models` lists it, else in validation."""

    metric: str = Field(description="BLEU, or a share: % accuracy, % valid captions")
    value: float = Field(description="unrounded")
    data: str = Field(description="the text or images it was measured on")


class ModelInfo(BaseModel):
    """A served model."""

    name: str
    kind: str
    title: str
    paper: str
    task: Literal["translate", "caption", "classify"]
    source: Literal["text", "image"]
    source_language: str
    target_language: str
    parameters: int
    figure: Figure | None = None
    attention: dict[str, dict[str, int]]
    examples: list[Example] = Field([], description="sentences to begin with")
    sample: Literal["scenes", "two-ears"] | None = Field(None, description="kind of sample image (/api/sample-image)")
    can_look: bool = True


class PageLimits(BaseModel):
    """Limits of a request."""

    max_characters: int
    max_texts: int
    max_look_characters: int
    max_alternatives: int
    max_beam: int
    max_image_bytes: int
    max_image_pixels: int
    max_seconds: float


class Models(BaseModel):
    """All models, and the limits."""

    models: list[ModelInfo]
    limits: PageLimits


class LookRecord(BaseModel):
    """The record that all views draw from; its format is documented in docs/look-format.md."""

    model_config = ConfigDict(extra="allow")

    format: str


def own_routes(service: Service) -> APIRouter:
    """Endpoints of Regard's own API."""
    router = APIRouter(prefix="/api", tags=["Regard"])
    described: list[ModelInfo] = []

    def describe_all() -> list[ModelInfo]:
        return [*map(describe, service.models), *map(describe_image_model, service.models.images)]

    @router.get("/models", response_model=Models, responses=errors(403, 429, 503))
    async def models(request: Request) -> Models:
        """All models with their properties, and the limits of a request."""
        service.admit(request)
        limits = {name: getattr(service.settings, name) for name in PageLimits.model_fields}
        if not described:  # at the first request: it needs the models themselves, not only their engines
            described[:] = await service.queue.call(describe_all)
        return Models(models=described, limits=PageLimits(**limits))

    @router.post("/look", response_model=LookRecord, responses=errors(400, 403, 404, 422, 429, 503))
    async def look(request: Request, asked: LookRequest) -> Response:
        """Translate a sentence; returns attention, candidates and every step."""
        service.admit(request)
        model = find(service, asked.model)
        texts = [asked.text] if asked.reference is None else [asked.text, asked.reference]
        for text in texts:
            check_length(service, text)
        check_look(service, model, asked)
        record = await service.wait(request, service.queue.call(_looker(model, asked)))
        return Response(record, media_type="application/json")

    @router.post(
        "/translate/stream",
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {}}}, **errors(400, 403, 404, 422, 429, 503)},
    )
    async def stream(request: Request, asked: StreamRequest) -> StreamingResponse:
        """Translate a text with greedy search and stream each piece as a server-sent event.

        `token` {"piece", "text" so far, "probability"} for each piece, then `done` {"text", "score"};
        `error` {"error"} if it fails midway.
        """
        service.admit(request)
        model = find(service, asked.model)
        service.check_size([asked.text])
        spoken = service.queue.stream(lambda: stream_text(model.translator, asked.text))
        # a full queue gets its status code, before the stream begins
        first = await service.wait(request, _first(spoken))
        return StreamingResponse(_events(service, first, spoken), media_type="text/event-stream")

    return router


def describe(model: ServedModel) -> ModelInfo:
    """Properties of a translator."""
    translator = model.translator
    settings = MODEL_SETTINGS[translator.recipe.model.kind]
    return ModelInfo(
        name=model.name,
        kind=translator.recipe.model.kind,
        title=settings.title,
        paper=settings.paper,
        task="translate",
        source="text",
        source_language=model.languages.source,
        target_language=model.languages.target,
        parameters=sum(parameter.numel() for parameter in translator.read_only_model.parameters()),
        figure=figure_of(translator.metrics),
        attention=_attention(model),
        examples=[
            Example.model_validate(each)
            for each in examples_of(model.languages.source, model.samples, trained_on(translator.metrics))
        ],
    )


def describe_image_model(model: ServedImageModel) -> ModelInfo:
    """Properties of an image model."""
    metrics, settings = model.model.metrics, model.model.recipe.model
    return ModelInfo(
        name=model.name,
        kind=settings.kind,
        title=settings.title,
        paper=settings.paper,
        task=model.task,
        source="image",
        source_language=UNKNOWN,
        target_language=UNKNOWN,
        parameters=model.parameters,
        figure=figure_of(metrics),
        attention=model.attention(),
        sample=model.sample,
    )


def figure_of(metrics: Mapping[str, Any]) -> Figure | None:
    """The test score of an installed model, else the score in validation; None without either."""
    if (tested := tested_figure(metrics)) is not None:
        return Figure(metric=tested.metric, value=tested.value, data=tested.data)
    valid = metrics.get("valid") or {}
    for name, metric, factor in (("bleu", "BLEU", 1.0), ("accuracy", "% accuracy", 100.0)):
        if valid.get(name) is not None:
            # unrounded: rounding twice could show another digit than the terminal
            return Figure(metric=metric, value=factor * float(valid[name]), data="validation")
    return None


def _attention(model: ServedModel) -> dict[str, dict[str, int]]:
    """Kinds of attention with their layers and heads, found with a one-word sentence."""
    found = model.translator.translate("a", beam=1, attention=True)
    return {
        kind: {"layers": int(weights.shape[0]), "heads": int(weights.shape[1])}
        for kind, weights in (found.attention or {}).items()
    }


def find(service: Service, name: str) -> ServedModel:
    """The translator with this name, or a 404."""
    model = service.models.named(name)
    if model is None:
        raise ApiError(404, "no model has that name: GET /api/models lists them")
    return model


def check_length(service: Service, text: str) -> None:
    """Refuse a sentence that is too long to look at."""
    most = service.settings.max_look_characters
    if len(text) > most:
        raise ApiError(413, f"the sentence has {len(text):,} characters: the limit is {most:,}; shorten it")
    service.check_size([text], most)


def check_look(service: Service, model: ServedModel, asked: LookRequest) -> None:
    """Refuse a request beyond the limits or with invalid piece ids."""
    if not asked.text.strip() or (asked.reference is not None and not asked.reference.strip()):
        raise ApiError(422, "the text is empty")
    if asked.beam is not None and asked.beam > service.settings.max_beam:
        raise ApiError(413, f"beam: the limit is {service.settings.max_beam}")
    size = model.translator.target_tokenizer.size
    if asked.prefix and max(asked.prefix) >= size:
        raise ApiError(422, f"prefix: piece ids of this model are 0 to {size - 1}")


def _looker(model: ServedModel, asked: LookRequest) -> Callable[[], bytes]:
    def look() -> bytes:
        try:
            record = model.translator.look(
                asked.text,
                reference=asked.reference,
                prefix=asked.prefix,
                intervention=None if asked.intervention is None else asked.intervention.build(),
                beam=asked.beam,
                candidates=asked.candidates,
                tree=asked.tree,
                parts=asked.parts,
            ).to_dict()
        except RegardError as error:
            raise ApiError(422, str(error)) from None
        record["model"]["name"] = model.name
        return json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()

    return look


async def _first(spoken: AsyncGenerator[StreamedPiece, None]) -> StreamedPiece:
    return await anext(spoken)


async def _events(
    service: Service, first: StreamedPiece, spoken: AsyncGenerator[StreamedPiece, None]
) -> AsyncIterator[str]:
    """The pieces as server-sent events."""
    try:
        async with asyncio.timeout(service.settings.max_seconds):
            yield _event_of(first)
            async for each in spoken:
                yield _event_of(each)
    except TimeoutError:
        yield _event("error", {"error": f"deadline of {service.settings.max_seconds:g} seconds exceeded"})
    finally:
        await spoken.aclose()


def _event_of(spoken: StreamedPiece) -> str:
    if spoken.ended:
        return _event("done", {"text": spoken.text, "score": spoken.score})
    return _event("token", {"piece": spoken.piece, "text": spoken.text, "probability": spoken.probability})


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
