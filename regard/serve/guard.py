"""Middleware around the application: host and origin checks, body size limits, security headers."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serve.errors import ApiError, ClientGone
from regard.serve.limits import Gate, bearer
from regard.serve.metrics import Metrics
from regard.serve.origins import check_origin
from regard.serve.settings import ServeSettings

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_RAW_HEADERS = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]

IMAGE_PATH = "/api/look-image"
"""The endpoint that takes images, with its own body limit."""

FILE_PATH = "/translate_file"
"""The endpoint that takes files, with its own body limit."""

_DRAIN_SECONDS = 2.0  # to read the rest of a refused body: a client still sending would not read the response


class Guard:
    """ASGI middleware around the whole application.

    It reads the whole body, within its limits, before the application runs. A body that is too large gets a 413 before
    it is read. A slow body times out here, so it never occupies a place in the queue.
    """

    def __init__(
        self, app: ASGIApp, settings: ServeSettings, metrics: Metrics, gate: Gate, images: bool = False
    ) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._gate = gate
        self._reads_images = images
        self._images = 0  # image requests in progress; their number bounds the memory of their bodies
        self._hosts = {"localhost", socket.gethostname().lower(), settings.host.lower()}
        self._hosts |= {host.lower() for host in settings.allow_hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it to the application."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # WebSockets are not supported
            await send({"type": "websocket.close", "code": 1008})
            return
        started, status = time.perf_counter(), 499

        async def guarded_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *_RAW_HEADERS]
            await send(message)

        # HEAD runs as GET: uvicorn drops the response body, by the method of its own scope
        inner = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        is_image = self._reads_images and scope["method"] == "POST" and scope["path"] == IMAGE_PATH
        holds_image = False
        try:
            headers: dict[bytes, bytes] = dict(scope["headers"])
            self._check_caller(scope, headers)
            if is_image:
                self._gate.admit(scope, bearer(scope))  # authenticate before reading an image
                if self._images >= self._settings.max_images:
                    raise ApiError(503, "the server is processing too many images: try again later", retry_after=1)
                self._images += 1
                holds_image = True
            most = self._settings.max_image_bytes if is_image else self._settings.max_body
            if scope["method"] == "POST" and scope["path"] == FILE_PATH:
                most = self._settings.max_file_body
            body = await self._body(headers, receive, most)
            await self._app(inner, _replayed(body, receive), guarded_send)
        except ApiError as error:
            await refuse(error, receive, guarded_send)
        except ClientGone:  # disconnected while sending
            pass
        finally:
            self._images -= holds_image
            endpoint = _endpoint(inner)
            self._metrics.requests.labels(endpoint, str(status)).inc()
            self._metrics.seconds.labels(endpoint).observe(time.perf_counter() - started)

    def _check_caller(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        host = headers.get(b"host", b"").decode("latin-1")
        if not self.knows_host(host):
            raise ApiError(421, f"host name {host[:100]!r} is not allowed: allow it with regard serve --allow-host")
        check_origin(scope, headers, self._settings.allow_origins)

    async def _body(self, headers: dict[bytes, bytes], receive: Receive, most: int) -> bytes:
        """The whole body, within its size limit and deadline."""
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > most:
            raise _too_large(most)
        if not length and b"transfer-encoding" not in headers:
            return b""
        try:
            async with asyncio.timeout(self._settings.max_slow_seconds):
                return await _read(receive, most)
        except TimeoutError:
            raise ApiError(408, "the request body took too long to arrive") from None

    def knows_host(self, header: str) -> bool:
        """Whether the Host header is an IP address or an allowed name.

        This stops DNS rebinding: a web page points its own host name at this machine and calls the server from the
        visitor's browser. The browser then sends that name in the Host header, never an IP address.
        """
        host = header.rsplit(":", 1)[0] if not header.endswith("]") else header
        host = host.strip("[]").lower().rstrip(".")
        if host in self._hosts:
            return True
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return True


async def _read(receive: Receive, most: int) -> bytes:
    chunks: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > most:
            raise _too_large(most)
        more = message.get("more_body", False)
    return b"".join(chunks)


def _too_large(most: int) -> ApiError:
    return ApiError(413, f"the request is too large: the limit is {most:,} bytes")


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that returns the buffered body first, and then waits for the disconnect."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def refuse(error: ApiError, receive: Receive, send: Send) -> None:
    """Send the error, read the rest of the body for a while so that the client sees the response, and close."""
    body = json.dumps({"error": error.message}).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
    raw = [(name.lower().encode(), value.encode()) for name, value in (headers | error.headers).items()]
    await send({"type": "http.response.start", "status": error.status, "headers": raw})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            message = await receive()
            while message["type"] == "http.request" and message.get("more_body", False):
                message = await receive()
    except TimeoutError:
        pass
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _endpoint(scope: Scope) -> str:
    """The route template of a request, for the metrics; the raw path would make unbounded labels."""
    path = getattr(scope.get("route"), "path", None)
    return str(path) if path else "other"
