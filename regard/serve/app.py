"""The ASGI application: routes, error handlers and headers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware

from regard import __version__
from regard.errors import LongLine, ModelChanged
from regard.serve.architecture_routes import architecture_routes
from regard.serve.docs_page import docs_page
from regard.serve.errors import ApiError, ClientGone
from regard.serve.files import file_routes
from regard.serve.guard import Guard
from regard.serve.libre import errors, libre_routes
from regard.serve.limits import Gate, bearer
from regard.serve.metrics import Metrics
from regard.serve.models import ServedModels
from regard.serve.queue import TranslationQueue
from regard.serve.regard_api import own_routes
from regard.serve.service import Service
from regard.serve.settings import ServeSettings
from regard.serve.text_workers import TextWorkers
from regard.serve.vector_routes import vector_routes

STATIC = Path(__file__).parent.parent / "look" / "page"

_DESCRIPTION = "LibreTranslate's translation API, and an API that looks inside the models."


def build_app(
    models: ServedModels,
    settings: ServeSettings | None = None,
    api_keys: Iterable[str] = (),
    metrics_token: str | None = None,
) -> FastAPI:
    """The application that serves some models; its lifespan starts and stops the workers."""
    settings = settings or ServeSettings()
    metrics = Metrics()
    queue = TranslationQueue(settings, metrics)
    gate = Gate(settings, api_keys, metrics_token)
    text = TextWorkers(settings.max_queue)
    service = Service(models, settings, gate, metrics, queue, text)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        queue.start()
        try:
            yield
        finally:
            text.close()
            queue.close()

    # FastAPI's own documentation pages load scripts from a CDN; /docs is our own page
    app = FastAPI(
        title="Regard",
        version=__version__,
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.include_router(libre_routes(service))
    if len(models):
        app.include_router(file_routes(service))
    app.include_router(own_routes(service))
    app.include_router(architecture_routes(service))
    app.include_router(vector_routes(service))
    if models.images:
        from regard.serve.image_routes import image_routes  # Pillow

        app.include_router(image_routes(service))
    _add_metrics(app, service)
    _add_page(app)
    _add_errors(app)
    if settings.allow_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.allow_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
    app.add_middleware(GZipMiddleware, minimum_size=2000, compresslevel=2)  # a record of a long sentence is megabytes
    app.add_middleware(Guard, settings=settings, metrics=metrics, gate=gate, images=bool(models.images))
    return app


def _add_metrics(app: FastAPI, service: Service) -> None:
    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}, **errors(429)})
    async def metrics(request: Request) -> Response:
        """Server metrics in Prometheus' text format."""
        service.gate.admit_metrics(request.scope, bearer(request.scope))
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_page(app: FastAPI) -> None:
    index = STATIC / "index.html"

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> HTMLResponse:
        return HTMLResponse(docs_page(app.openapi(), str(request.base_url).rstrip("/")))

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return FileResponse(index, headers={"Cache-Control": "no-cache"})

    app.mount("/static", StaticFiles(directory=STATIC, check_dir=False), name="static")


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(ApiError)
    async def refused(_: Request, error: ApiError) -> JSONResponse:
        return _answer(error.status, error.message, error.headers)

    @app.exception_handler(LongLine)
    async def too_long(_: Request, error: LongLine) -> JSONResponse:
        return _answer(400, str(error))

    @app.exception_handler(ModelChanged)
    async def changed(_: Request, error: ModelChanged) -> JSONResponse:
        return _answer(503, str(error))

    @app.exception_handler(ClientGone)
    async def gone(_: Request, error: ClientGone) -> Response:
        return Response(status_code=499)  # the client has disconnected; the status is only counted

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:])
        if first["type"] == "json_invalid":
            return _answer(400, "Invalid JSON format")
        return _answer(422, f"{where or 'the body'}: {first['msg']}")

    @app.exception_handler(HTTPException)
    async def other(_: Request, error: HTTPException) -> JSONResponse:
        return _answer(error.status_code, str(error.detail), error.headers)

    @app.exception_handler(Exception)
    async def fault(_: Request, error: Exception) -> JSONResponse:
        return _answer(500, "internal server error: see the server's log")


def _answer(status: int, message: str, headers: Any = None) -> JSONResponse:
    return JSONResponse({"error": message}, status, headers)
