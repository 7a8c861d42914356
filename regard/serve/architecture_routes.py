"""The architecture of a model: its diagram over a short sentence, and the numbers of one box."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from regard.errors import RegardError
from regard.serve.errors import ApiError
from regard.serve.libre import errors
from regard.serve.models import ServedModel
from regard.serve.regard_api import Asked, AskedIntervention, PieceId, Place, find
from regard.serve.service import Service

MOST_PIECES = 10_000  # of a request; the limit of the server is smaller


class NodeRequest(Asked):
    """A box of the diagram of one translation."""

    model: str = Field(description="name of a model, from /api/models")
    source: list[PieceId] = Field(min_length=1, max_length=MOST_PIECES, description="piece ids, from a look record")
    target: list[PieceId] = Field(min_length=1, max_length=MOST_PIECES, description="piece ids, from a look record")
    node: str = Field(max_length=60, description="name of the box without its position, such as decoder.1")
    place: Place = Field(description="source piece or decoder step, counted from 0")
    intervention: AskedIntervention | None = None


class NodeRecord(BaseModel):
    """The numbers of the box, described in docs/look-format.md."""

    model_config = ConfigDict(extra="allow")

    node: str
    place: int


def architecture_routes(service: Service) -> APIRouter:
    """Diagram and boxes."""
    router = APIRouter(prefix="/api", tags=["Regard"])

    @router.get(
        "/diagram",
        response_class=Response,
        responses={200: {"content": {"image/svg+xml": {}}}, **errors(403, 404, 422, 429, 503)},
    )
    async def diagram(
        request: Request,
        model: Annotated[str, Query(description="name of a model, from /api/models")],
        source: Annotated[str, Query(max_length=400, description="source sentence, up to 8 words")],
        target: Annotated[str, Query(max_length=400, description="its translation, up to 8 words")],
    ) -> Response:
        """The architecture of a model, unrolled over a short sentence, as SVG."""
        service.admit(request)
        found = find(service, model)
        drawn = await service.wait(request, service.queue.call(lambda: _diagram(found, model, source, target)))
        return Response(drawn, media_type="image/svg+xml")

    @router.post("/node", response_model=NodeRecord, responses=errors(400, 403, 404, 413, 422, 429, 503))
    async def node(request: Request, asked: NodeRequest) -> Response:
        """The numbers of one box of the diagram at one position: gates, states, feed-forward units, residuals."""
        service.admit(request)
        model = find(service, asked.model)
        _check(service, model, asked)
        record = await service.wait(request, service.queue.call(lambda: _numbers(model, asked)))
        return Response(record, media_type="application/json")

    return router


def _check(service: Service, model: ServedModel, asked: NodeRequest) -> None:
    """Refuse sentences that are too long, and ids outside the vocabularies."""
    most = service.settings.max_look_characters + 1  # a piece has at least one character; and EOS
    for name, ids, tokenizer in (
        ("source", asked.source, model.translator.source_tokenizer),
        ("target", asked.target, model.translator.target_tokenizer),
    ):
        if len(ids) > most:
            raise ApiError(413, f"{name}: {len(ids):,} subwords: the limit is {most:,}")
        if max(ids) >= tokenizer.size:
            raise ApiError(422, f"{name}: piece ids of this model are 0 to {tokenizer.size - 1}")


def _diagram(model: ServedModel, title: str, source: str, target: str) -> str:
    from regard.look.views.diagram import build_diagram  # imports torch, which a translation does without
    from regard.look.views.diagram_svg import draw_diagram

    try:
        graph = build_diagram(model.translator.recipe.model, source, target)
    except RegardError as error:
        raise ApiError(422, str(error)) from None
    return draw_diagram(graph, title, styled=False)


def _numbers(model: ServedModel, asked: NodeRequest) -> bytes:
    from regard.look.nodes import numbers_of

    intervention = None if asked.intervention is None else asked.intervention.build()
    try:
        found = numbers_of(
            model.translator.read_only_model, asked.source, asked.target, asked.node, asked.place, intervention
        )
    except RegardError as error:
        raise ApiError(422, str(error)) from None
    return found.model_dump_json().encode()
