"""The API of LibreTranslate: its clients only need to change the URL."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, NoReturn, TypeVar
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError, WithJsonSchema

from regard.serve.detection import REMEDY, Detected, detect, is_installed
from regard.serve.errors import ApiError
from regard.serve.languages import UNKNOWN, Languages, name_of
from regard.serve.markup import HtmlDocument
from regard.serve.models import ServedModel
from regard.serve.sentences import Document
from regard.serve.service import Service
from regard.serve.subtitles import SubtitleDocument

AUTO = "auto"

FORMATS: dict[str, type[Document]] = {
    ".txt": Document,
    ".srt": SubtitleDocument,
    ".html": HtmlDocument,
    ".htm": HtmlDocument,
}
"""Supported file formats, by file name extension."""


def _whole(text: str) -> str:
    """Refuse lone surrogates: JSON can escape them, UTF-8 cannot encode them."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("contains a lone surrogate, which is not a character")
    return text


Text = Annotated[str, StringConstraints(strict=True), AfterValidator(_whole)]
Filled = Annotated[Text, StringConstraints(min_length=1)]
Code = Annotated[Text, StringConstraints(min_length=1, max_length=20)]

# JSON clients may send null; forms cannot
_OPTIONAL = WithJsonSchema({"type": "string"})
_FORMAT = WithJsonSchema({"type": "string", "enum": ["text", "html"]})


class Body(BaseModel):
    """Fields of all requests; unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    api_key: Annotated[Text | None, _OPTIONAL] = Field(None, description="API key, if the server requires one")


class TranslateRequest(Body):
    """A text, or several, to translate."""

    q: Filled | Annotated[list[Text], Field(min_length=1)] = Field(description="the text, or a list of texts")
    source: Code = Field(description='code of the source language, or "auto"')
    target: Code = Field(description="code of the target language")
    format: Annotated[Literal["text", "html"] | None, _FORMAT] = Field(None, description="format of q; text by default")
    alternatives: int = Field(0, description="number of alternative translations")


class DetectRequest(Body):
    """A text to detect the language of."""

    q: Filled = Field(description="the text")


class DetectedLanguage(BaseModel):
    """A detected language; confidence from 0 to 100."""

    confidence: float
    language: str


class TranslateResponse(BaseModel):
    """The translations; lists if q is a list."""

    translatedText: str | list[str]  # noqa: N815  (LibreTranslate's name)
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = None  # noqa: N815
    alternatives: list[str] | list[list[str]] | None = None


class Language(BaseModel):
    """A language with its target languages, itself included."""

    code: str
    name: str
    targets: list[str]


class LanguageName(BaseModel):
    """A language."""

    code: str
    name: str


class LanguagePair(BaseModel):
    """The languages of the first model."""

    source: LanguageName
    target: LanguageName


class FrontendSettings(BaseModel):
    """Settings for web clients."""

    apiKeys: bool  # noqa: N815
    keyRequired: bool  # noqa: N815
    charLimit: int  # noqa: N815
    frontendTimeout: int  # noqa: N815
    filesTranslation: bool  # noqa: N815
    languageDetection: bool  # noqa: N815  (not in LibreTranslate, which always detects)
    suggestions: bool
    supportedFilesFormat: list[str]  # noqa: N815
    language: LanguagePair


class Health(BaseModel):
    """Health of the server."""

    status: Literal["ok"] = "ok"


class Error(BaseModel):
    """An error message."""

    error: str


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Error responses of an endpoint in the OpenAPI document; every endpoint can return 403, 408, 413 and 421."""
    return {status: {"model": Error} for status in sorted({*statuses, 403, 408, 413, 421})}


def libre_routes(service: Service) -> APIRouter:
    """The endpoints of LibreTranslate."""
    router = APIRouter(tags=["LibreTranslate"])
    served = service.models.languages
    known: dict[str, Any] = {"source": {"enum": [AUTO, *served]}, "target": {"enum": [*served]}} if served else {}

    @router.post(
        "/translate",
        response_model=TranslateResponse,
        responses=errors(400, 403, 429, 501, 503),
        openapi_extra=_documented(
            TranslateRequest,
            alternatives={"maximum": service.settings.max_alternatives},
            **known,
        ),
    )
    async def translate(request: Request) -> JSONResponse:
        """Translate a text or a list of texts; the request is JSON or a form."""
        asked = await read_body(request, TranslateRequest)
        service.admit(request, asked.api_key)
        return JSONResponse(await service.wait(request, _translate(service, asked)))

    @router.post(
        "/detect",
        response_model=list[DetectedLanguage],
        responses=errors(400, 403, 429, 501, 503),
        openapi_extra=_documented(DetectRequest),
    )
    async def detect_language(request: Request) -> JSONResponse:
        """Detect the language of a text; confidence is the detector's probability in percent."""
        asked = await read_body(request, DetectRequest)
        service.admit(request, asked.api_key)
        service.check_size([asked.q])
        work = service.text.run(lambda: _detect(asked.q, list(served)))
        return JSONResponse([_plain(each) for each in await service.wait(request, work)])

    @router.get("/languages", response_model=list[Language], responses=errors())
    async def languages() -> list[dict[str, Any]]:
        """All languages, each with its target languages."""
        return [{"code": code, "name": name_of(code), "targets": targets} for code, targets in served.items()]

    @router.get("/health", response_model=Health, responses=errors(503))
    async def health() -> Health:
        """Health check: 503 if no worker accepts work."""
        if not service.queue.is_well():
            raise ApiError(503, "no worker accepts work: see the server's log", retry_after=10)
        return Health()

    @router.get("/frontend/settings", response_model=FrontendSettings, responses=errors())
    async def frontend_settings() -> dict[str, Any]:
        """Settings for web clients: limits, formats, and whether an API key is required."""
        return _frontend_settings(service)

    return router


async def _translate(service: Service, asked: TranslateRequest) -> dict[str, Any]:
    texts = asked.q if isinstance(asked.q, list) else [asked.q]
    most = service.settings.max_alternatives
    if asked.alternatives > most:
        raise ApiError(413, f"Invalid request: alternatives parameter must be <= {most}")
    service.check_size(texts)
    alternatives = max(0, asked.alternatives)
    kind = HtmlDocument if asked.format == "html" else Document

    def read() -> tuple[ServedModel | None, Detected | None, list[Document]]:
        model, detected = choose_model(service, asked.source, asked.target, texts)
        return model, detected, [kind.of(text) for text in texts]

    model, detected, documents = await service.text.run(read)

    def answer() -> dict[str, Any]:
        found: dict[str, Any] = {"translatedText": [document.text() for document in documents]}
        if detected is not None:
            found["detectedLanguage"] = [_plain(detected)] * len(texts)
        if alternatives:
            found["alternatives"] = [document.alternatives(alternatives) for document in documents]
        return found if isinstance(asked.q, list) else {name: each[0] for name, each in found.items()}

    if model is None:
        return _untranslated(asked, texts, detected)
    return await service.translate(model, documents, 1 + alternatives, answer)


def _untranslated(asked: TranslateRequest, texts: list[str], detected: Detected | None) -> dict[str, Any]:
    """The response for a text that is already in the target language."""
    found: dict[str, Any] = {"translatedText": asked.q}
    if detected is not None:
        found["detectedLanguage"] = [_plain(detected)] * len(texts) if isinstance(asked.q, list) else _plain(detected)
    if asked.alternatives > 0:
        found["alternatives"] = [[] for _ in texts] if isinstance(asked.q, list) else []
    return found


def choose_model(
    service: Service, source: str, target: str, texts: list[str]
) -> tuple[ServedModel | None, Detected | None]:
    """The model of the language pair, and the detected language if the source is "auto".

    No model: the text is already in the target language and is returned unchanged, as by LibreTranslate.
    """
    served = service.models.languages
    if source not in served and source != AUTO:
        raise ApiError(400, f"{source} is not supported")
    if target not in served:
        raise ApiError(400, f"{target} is not supported")
    detected = None
    if source == AUTO:
        able = [code for code, targets in served.items() if target in targets]
        detected = _detected(service, "\n".join(texts), able, target)
        source = detected.language
    model = service.models.translating(source, target)
    if model is None and source != target:
        raise ApiError(
            400,
            f"{name_of(target)} ({target}) is not available as a target language from {name_of(source)} ({source})",
        )
    return model, detected


def _detected(service: Service, text: str, able: list[str], target: str) -> Detected:
    """The detected source language; if detection fails, the only source language, with confidence 0."""
    sources = [code for code in able if service.models.translating(code, target) is not None]
    try:
        return _detect(text, able)[0]
    except ApiError:
        if len(sources) == 1:
            return Detected(sources[0], 0.0)
        raise


def _detect(text: str, among: list[str]) -> list[Detected]:
    if not is_installed():
        raise ApiError(501, f"this server cannot detect languages without py3langid: {REMEDY}")
    found = detect(text, among)
    if not found:
        raise ApiError(501, f"the languages served ({', '.join(among)}) cannot be detected: name the source language")
    return found


def _plain(detected: Detected) -> dict[str, Any]:
    return {"confidence": detected.confidence, "language": detected.language}


def _frontend_settings(service: Service) -> dict[str, Any]:
    first = next((model.languages for model in service.models), Languages(UNKNOWN, UNKNOWN))
    return {
        "apiKeys": service.gate.keys.required,
        "keyRequired": service.gate.keys.required,
        "charLimit": service.settings.max_characters,
        "frontendTimeout": 500,
        "filesTranslation": len(service.models) > 0,
        "languageDetection": is_installed() and any(code != UNKNOWN for code in service.models.languages),
        "suggestions": False,
        "supportedFilesFormat": [*FORMATS] if len(service.models) else [],
        "language": {
            "source": {"code": first.source, "name": name_of(first.source)},
            "target": {"code": first.target, "name": name_of(first.target)},
        },
    }


# --- reading ------------------------------------------------------------------------------------------------------

Asked = TypeVar("Asked", bound=Body)


async def read_body(request: Request, kind: type[Asked]) -> Asked:
    """The request, parsed from JSON or a form; a malformed one raises a 400."""
    raw = await request.body()
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    table = _form(raw) if content_type == "application/x-www-form-urlencoded" else _json(raw)
    try:
        return kind.model_validate(table)
    except ValidationError as error:
        raise refused(error) from None


def refused(error: ValidationError) -> ApiError:
    """A validation error as a 400, with LibreTranslate's message where it has one."""
    first = error.errors(include_url=False, include_input=False)[0]
    name = str(first["loc"][0]) if first["loc"] else "body"
    if first["type"] in ("missing", "string_too_short", "too_short"):
        return ApiError(400, f"Invalid request: missing {name} parameter")
    message = first["msg"].removeprefix("Value error, ")
    return ApiError(400, f"Invalid request: {name}: {message}")


def _json(raw: bytes) -> dict[str, Any]:
    def refuse(constant: str) -> NoReturn:
        raise ValueError(constant)

    try:
        table = json.loads(raw, parse_constant=refuse)
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
        raise ApiError(400, "Invalid JSON format") from None
    if not isinstance(table, dict):
        raise ApiError(400, "Invalid JSON format")
    return table


def _form(raw: bytes) -> dict[str, Any]:
    try:
        fields = parse_qs(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=1000)
    except ValueError:
        raise ApiError(400, "Invalid form: send it URL-encoded, in UTF-8") from None
    table: dict[str, Any] = {name: values[0] for name, values in fields.items()}
    if len(fields.get("q", ())) > 1:
        table["q"] = fields["q"]
    elif "q" in table:  # forms end their lines with CR LF
        table["q"] = table["q"].replace("\r\n", "\n")
    return table


def _documented(kind: type[Body], **known: dict[str, Any]) -> dict[str, Any]:
    """The OpenAPI request body of an endpoint that takes JSON and forms; `known` narrows fields."""
    schema = kind.model_json_schema()
    for name, further in known.items():
        schema["properties"][name] |= further
    # a form may repeat q, but JSON schema cannot express that: declare a single text
    form = schema | {"properties": schema["properties"] | {"q": {"type": "string", "minLength": 1}}}
    content = {
        "application/json": {"schema": schema},
        "application/x-www-form-urlencoded": {"schema": form},
    }
    return {"requestBody": {"required": True, "content": content}}
