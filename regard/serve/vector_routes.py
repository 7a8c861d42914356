"""The endpoint for the fixed vector of models without attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from regard.errors import RegardError
from regard.serve.errors import ApiError
from regard.serve.libre import errors
from regard.serve.models import ServedModel
from regard.serve.regard_api import Asked, check_length, find
from regard.serve.service import Service

MOST_VARIANTS = 128


class VectorRequest(Asked):
    """A sentence and variants of it, for a model with a fixed vector."""

    model: str = Field(description="name of a model without attention, from /api/models")
    text: str = Field(min_length=1, description="the sentence")
    others: list[Annotated[str, Field(min_length=1)]] = Field(
        min_length=1, max_length=MOST_VARIANTS, description="variants of it"
    )


class VectorMove(BaseModel):
    """How far the vector w of a variant is from the vector v of the sentence."""

    text: str
    distance: float = Field(description="|w - v| / |v|")
    cosine: float


class VectorMoves(BaseModel):
    """One for each variant, in order."""

    moves: list[VectorMove]


def vector_routes(service: Service) -> APIRouter:
    """The endpoint."""
    router = APIRouter(prefix="/api", tags=["Regard"])

    @router.post("/vectors", response_model=VectorMoves, responses=errors(400, 403, 404, 422, 429, 503))
    async def vectors(request: Request, asked: VectorRequest) -> VectorMoves:
        """How far the fixed vector of a model without attention moves when the sentence changes."""
        service.admit(request)
        model = find(service, asked.model)
        for text in (asked.text, *asked.others):
            check_length(service, text)
        return await service.wait(request, service.queue.call(_measurer(model, asked)))

    return router


def _measurer(model: ServedModel, asked: VectorRequest) -> Callable[[], VectorMoves]:
    def measure() -> VectorMoves:
        try:
            moves = model.translator.vector_moves(asked.text, asked.others)
        except RegardError as error:
            raise ApiError(422, str(error)) from None
        return VectorMoves(moves=[VectorMove.model_validate(vars(move)) for move in moves])

    return measure
