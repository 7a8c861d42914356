"""LibreTranslate's file translation: uploads as forms, downloads of the translated files.

Translated files are kept in memory, bounded in number and time, under unguessable random names.
"""

from __future__ import annotations

import io
import logging
import re
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field, ValidationError
from python_multipart import parse_form
from python_multipart.exceptions import FormParserError

from regard.serve.errors import ApiError
from regard.serve.libre import AUTO, FORMATS, Body, Code, choose_model, errors, refused
from regard.serve.models import ServedModel
from regard.serve.sentences import Document
from regard.serve.service import Service

_MOST_FILES = 64
_SECONDS = 600.0  # lifetime of a translated file
_MOST_FIELD = 1000  # bytes of a form field other than the file

logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # it logs every malformed request


class FileRequest(Body):
    """A file to translate."""

    source: Code = Field(description='code of the source language, or "auto"')
    target: Code = Field(description="code of the target language")


class FileResponse(BaseModel):
    """URL of the translated file."""

    translatedFileUrl: str  # noqa: N815  (LibreTranslate's name)


@dataclass(frozen=True)
class Form:
    """A parsed form: its fields, and the file with its name."""

    fields: dict[str, str]
    name: str
    content: bytes


class Shelf:
    """Translated files ready for download, oldest first."""

    def __init__(self, most: int = _MOST_FILES, seconds: float = _SECONDS) -> None:
        self._most, self._seconds = most, seconds
        self._files: OrderedDict[str, tuple[float, str, bytes]] = OrderedDict()

    def put(self, name: str, content: bytes) -> str:
        """Store a file; returns its random key."""
        self._tidy()
        while len(self._files) >= self._most:
            self._files.popitem(last=False)
        key = f"{secrets.token_hex(16)}.{name}"
        self._files[key] = time.monotonic() + self._seconds, name, content
        return key

    def get(self, key: str) -> tuple[str, bytes] | None:
        """Name and content of a file; None once it has expired."""
        self._tidy()
        found = self._files.get(key)
        return None if found is None else found[1:]

    def _tidy(self) -> None:
        now = time.monotonic()
        while self._files and next(iter(self._files.values()))[0] < now:
            self._files.popitem(last=False)


def file_routes(service: Service) -> APIRouter:
    """The endpoints that translate files."""
    router = APIRouter(tags=["LibreTranslate"])
    shelf = Shelf()

    @router.post(
        "/translate_file",
        response_model=FileResponse,
        responses=errors(400, 429, 501, 503),
        openapi_extra=_documented(service),
    )
    async def translate_file(request: Request) -> JSONResponse:
        """Translate an uploaded file (.txt, .srt, .html; multipart form); returns the download URL."""
        content_type, body = request.headers.get("content-type", ""), await request.body()
        form = await service.text.run(lambda: read_form(content_type, body))
        try:
            asked = FileRequest.model_validate(form.fields)
        except ValidationError as error:
            raise refused(error) from None
        service.admit(request, asked.api_key)
        name, content = await service.wait(request, _translate(service, asked, form))
        return JSONResponse({"translatedFileUrl": f"{request.base_url}download_file/{quote(shelf.put(name, content))}"})

    @router.get(
        "/download_file/{name}",
        response_class=Response,
        responses={200: {"content": {"application/octet-stream": {}}}, **errors(404)},
    )
    async def download_file(name: str) -> Response:
        """Download a translated file; it expires after ten minutes."""
        found = shelf.get(name)
        if found is None:
            raise ApiError(404, "no such file: translated files expire after ten minutes")
        headers = {"Content-Disposition": f"attachment; filename*=utf-8''{quote(found[0])}"}
        return Response(found[1], media_type="application/octet-stream", headers=headers)

    return router


async def _translate(service: Service, asked: FileRequest, form: Form) -> tuple[str, bytes]:
    path = PurePath(form.name.replace("\\", "/"))
    kind = FORMATS.get(path.suffix.lower())
    if kind is None:
        raise ApiError(400, f"Invalid request: file format not supported: send one of {', '.join(FORMATS)}")

    def read() -> tuple[ServedModel | None, Document]:
        try:
            text = form.content.decode("utf-8")
        except UnicodeDecodeError:
            raise ApiError(400, "Invalid request: the file is not UTF-8: save it as UTF-8") from None
        service.check_size([text], service.settings.max_file_characters)
        document = kind.of(text)
        model, _ = choose_model(service, asked.source, asked.target, ["\n".join(document.lines)])
        return model, document

    def written() -> bytes:
        return document.text().encode()

    model, document = await service.text.run(read)
    content = form.content if model is None else await service.translate(model, [document], 1, written)
    stem = re.sub(r"[^\w .-]", "_", path.stem)[:100]
    return f"{stem}_{asked.target}{path.suffix.lower()}", content


def read_form(content_type: str, body: bytes) -> Form:
    """Fields and file of a multipart/form-data body; a malformed form raises a 400."""
    fields: dict[str, str] = {}
    files: list[tuple[str, bytes]] = []

    def take_field(field: Any) -> None:
        if field.field_name is not None and len(fields) < 10:
            value = (field.value or b"")[:_MOST_FIELD]
            fields[field.field_name.decode("utf-8", "replace")] = value.decode("utf-8", "replace")

    def take_file(file: Any) -> None:
        if file.field_name == b"file":
            file.file_object.seek(0)
            files.append(((file.file_name or b"").decode("utf-8", "replace"), file.file_object.read()))
        file.close()

    headers = {"Content-Type": content_type.encode("latin-1", "replace"), "Content-Length": b"%d" % len(body)}
    if not content_type.lower().startswith("multipart/form-data"):
        raise ApiError(400, "Invalid request: send the file as multipart/form-data")
    try:
        parse_form(headers, io.BytesIO(body), take_field, take_file)
    except (FormParserError, ValueError) as error:
        raise ApiError(400, f"Invalid form: {error}") from None
    if not files:
        raise ApiError(400, "Invalid request: missing file parameter")
    name, content = files[0]
    if not name or not content:
        raise ApiError(400, "Invalid request: empty file")
    return Form(fields, name, content)


def _documented(service: Service) -> dict[str, Any]:
    """The request body in the OpenAPI document."""
    schema = FileRequest.model_json_schema()
    fields, served = schema["properties"], list(service.models.languages)
    fields["source"]["enum"], fields["target"]["enum"] = [AUTO, *served], served
    fields["file"] = {"type": "string", "format": "binary", "description": ".txt, .srt or .html, in UTF-8"}
    schema["required"] = ["file", *schema["required"]]
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}
