"""Image endpoints of our own API; only servers with image models have them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from PIL import Image

from regard.data.images.image_set import TooManyPixels
from regard.data.toy.scenes import scenes
from regard.data.toy.two_ears import two_ears
from regard.errors import RegardError
from regard.serve.errors import ApiError
from regard.serve.guard import IMAGE_PATH
from regard.serve.image_models import ImageQuestion, Sample, ServedImageModel
from regard.serve.libre import errors
from regard.serve.regard_api import MOST_EDITS, LookRecord, PieceId, Place
from regard.serve.service import Service

MOST_SEEDS = 2**31

_BODY = {
    "required": True,
    "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in ("image/png", "image/jpeg")},
}


def image_routes(service: Service) -> APIRouter:
    """The endpoints for images."""
    router = APIRouter(tags=["Regard"])
    settings = service.settings

    @router.post(
        IMAGE_PATH,
        response_model=LookRecord,
        responses=errors(400, 403, 404, 415, 422, 429, 503),
        openapi_extra={"requestBody": _BODY},
    )
    async def look_image(
        request: Request,
        model: Annotated[str, Query(description="name of a model, from /api/models")],
        reference: Annotated[
            str | None, Query(min_length=1, description="caption to analyse with forced decoding")
        ] = None,
        prefix: Annotated[
            list[PieceId], Query(max_length=MOST_EDITS, description="target prefix: first piece ids of the caption")
        ] = [],  # noqa: B006
        ban: Annotated[list[Place], Query(max_length=MOST_EDITS, description="image cells masked from attention")] = [],  # noqa: B006
        beam: Annotated[int | None, Query(ge=1, description="beam size")] = None,
        candidates: Annotated[int, Query(ge=0, le=50, description="most probable subwords reported at each step")] = 5,
    ) -> Response:
        """Caption or classify the image in the request body; returns attention, candidates and every step."""
        # the guard has authenticated the request before reading the image
        found = service.models.seeing(model)
        if found is None:
            raise ApiError(404, "no image model has that name: GET /api/models lists them")
        if reference is not None:
            service.check_size([reference], settings.max_look_characters)
            if not reference.strip():
                raise ApiError(422, "the reference is empty")
        if beam is not None and beam > settings.max_beam:
            raise ApiError(413, f"beam: the limit is {settings.max_beam}")
        content = await _image(request)
        limits = settings.max_image_pixels, settings.max_image_side
        question = ImageQuestion(content, *limits, reference, prefix, ban, beam, candidates)
        record = await service.wait(request, service.queue.call(_looker(found, question)))
        return Response(record, media_type="application/json")

    @router.get(
        "/api/sample-image",
        response_class=Response,
        responses={200: {"content": {"image/png": {}}}, **errors(403, 422, 429, 503)},
    )
    async def sample_image(
        request: Request,
        name: Annotated[Sample, Query(description="coloured shapes, or a head with two ears")],
        seed: Annotated[int, Query(ge=0, lt=MOST_SEEDS, description="random seed")] = 0,
    ) -> Response:
        """Draw a sample image; the same seed gives the same image."""
        service.admit(request)
        drawn = await service.wait(request, service.queue.call(lambda: draw_sample(name, seed)))
        return Response(drawn, media_type="image/png")

    return router


async def _image(request: Request) -> bytes:
    """The body, unless it is a form or empty; the format is detected from its bytes, not its Content-Type."""
    if request.headers.get("content-type", "").lower().startswith("multipart/"):
        raise ApiError(415, "the body is a form: send the PNG or JPEG itself, as curl --data-binary @photo.png does")
    content = await request.body()
    if not content:
        raise ApiError(422, "the body is empty: send a PNG or JPEG image")
    return content


def _looker(model: ServedImageModel, question: ImageQuestion) -> Callable[[], bytes]:
    def look() -> bytes:
        try:
            record = model.look(question)
        except TooManyPixels as error:
            raise ApiError(413, str(error)) from None
        except RegardError as error:
            raise ApiError(422, str(error)) from None
        return json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()

    return look


def draw_sample(name: Sample, seed: int) -> bytes:
    """One image of an embedded dataset, encoded as PNG."""
    pixels: Any
    if name == "scenes":
        pixels = next(scenes("test", 1, seed)).scene.image()
    else:
        pixels = two_ears("test", 1, seed).images[0, 0]
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(file, "PNG")
    return file.getvalue()
