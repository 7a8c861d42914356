"""The door of the server: who may call it, how much a request may hold, and the headers of every answer."""

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
"""The one endpoint whose bodies are images, and so may be larger."""

FILE_PATH = "/translate_file"
"""The one endpoint whose bodies hold files."""

_DRAIN_SECONDS = 2.0  # given to a client that is still sending what was refused, so that it reads the answer


class Guard:
    """ASGI middleware around the whole application.

    A request is read whole here, within its bounds, before anything else sees it: one that is too large is answered
    before it is read, and one that comes too slowly is dropped without ever having held a place in the queue.
    """

    def __init__(
        self, app: ASGIApp, settings: ServeSettings, metrics: Metrics, gate: Gate, images: bool = False
    ) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._gate = gate
        self._reads_images = images
        self._images = 0  # under way: what they hold is bounded by their number
        self._hosts = {"localhost", socket.gethostname().lower(), settings.host.lower()}
        self._hosts |= {host.lower() for host in settings.allow_hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no WebSockets here
            await send({"type": "websocket.close", "code": 1008})
            return
        started, status = time.perf_counter(), 499

        async def guarded_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *_RAW_HEADERS]
            await send(message)

        # HEAD is answered as GET is: the server below drops the body, by the method of its own scope
        inner = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        is_image = self._reads_images and scope["method"] == "POST" and scope["path"] == IMAGE_PATH
        holds_image = False
        try:
            headers: dict[bytes, bytes] = dict(scope["headers"])
            self._check_caller(scope, headers)
            if is_image:
                self._gate.admit(scope, bearer(scope))  # only those who may hold an image
                if self._images >= self._settings.max_images:
                    raise ApiError(503, "the server has many images to look at: try again later", retry_after=1)
                self._images += 1
                holds_image = True
            most = self._settings.max_image_bytes if is_image else self._settings.max_body
            if scope["method"] == "POST" and scope["path"] == FILE_PATH:
                most = self._settings.max_file_body
            body = await self._body(headers, receive, most)
            await self._app(inner, _replayed(body, receive), guarded_send)
        except ApiError as error:
            await refuse(error, receive, guarded_send)
        except ClientGone:  # while it was sending
            pass
        finally:
            self._images -= holds_image
            endpoint = _endpoint(inner)
            self._metrics.requests.labels(endpoint, str(status)).inc()
            self._metrics.seconds.labels(endpoint).observe(time.perf_counter() - started)

    def _check_caller(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        host = headers.get(b"host", b"").decode("latin-1")
        if not self.knows_host(host):
            raise ApiError(421, f"this server is not called {host[:100]!r}: start it with --allow-host to allow that")
        check_origin(scope, headers, self._settings.allow_origins)

    async def _body(self, headers: dict[bytes, bytes], receive: Receive, most: int) -> bytes:
        """The whole body of a request that may come in."""
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > most:
            raise _too_large(most)
        if not length and b"transfer-encoding" not in headers:
            return b""
        try:
            async with asyncio.timeout(self._settings.max_slow_seconds):
                return await _read(receive, most)
        except TimeoutError:
            raise ApiError(408, "the request came too slowly") from None

    def knows_host(self, header: str) -> bool:
        """Whether we are called by this name: an address, or a name that we go by.

        A page on the web can make its own name point to this machine (DNS rebinding) and call us through the browser
        of whoever looks at it. It cannot make a browser send an address instead of that name.
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
    return ApiError(413, f"the request is too large: at most {most:,} bytes are taken")


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body at once, and then tells when the client goes."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def refuse(error: ApiError, receive: Receive, send: Send) -> None:
    """Answer at once; then let a client that is still sending come to read it, and close."""
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
    """The route of a request: never what the client wrote, which could be anything."""
    path = getattr(scope.get("route"), "path", None)
    return str(path) if path else "other"
