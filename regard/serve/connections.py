"""Connections: how many there may be, in all and from one address, and how long a slow one is waited for.

A connection beyond the bound is told so, in answer to its request. A few more are held for that; beyond them they
end at once, so that no number of them takes all file descriptors.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.serve.errors import ApiError
from regard.serve.guard import refuse
from regard.serve.limits import Clients, shared
from regard.serve.settings import ServeSettings

RESERVED_FILES = 256
"""File descriptors kept free for models, logs, and the connections that are refused."""

_SPARE = 64  # refused connections that are still answered, in all
_SPARE_PER_ADDRESS = 16
_REFUSED_SECONDS = 2.0  # until a refused connection must have sent the head of its request


def fit_connections(wanted: int) -> int:
    """How many connections the system's limit of open files allows, after raising it as far as we may."""
    if sys.platform == "win32":
        return wanted
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = wanted + RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < files:
        soft = files if hard == resource.RLIM_INFINITY else min(files, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= files:
        return wanted
    return max(1, soft - RESERVED_FILES, soft // 4)


class Connections:
    """Counts the connections of a server."""

    def __init__(self, settings: ServeSettings, most: int | None = None) -> None:
        self._most = settings.max_connections if most is None else most
        self._most_per_address = settings.max_connections_per_address
        self._clients = Clients(settings.trusted_proxies)
        self._total = 0
        self._by_address: Counter[str] = Counter()

    def enter(self, host: str) -> bool | None:
        """Count a connection: True if it is within the bounds, False if it is to be refused, None to end it at once."""
        self._total += 1
        here = 0
        if not self._clients.is_proxy(host):
            self._by_address[shared(host)] += 1
            here = self._by_address[shared(host)]
        if self._total > self._most + _SPARE or here > self._most_per_address + _SPARE_PER_ADDRESS:
            return None
        return self._total <= self._most and here <= self._most_per_address

    def leave(self, host: str) -> None:
        """Forget a connection."""
        self._total -= 1
        if not self._clients.is_proxy(host):
            self._by_address[shared(host)] -= 1
            if not self._by_address[shared(host)]:
                del self._by_address[shared(host)]


async def _crowded(scope: Scope, receive: Receive, send: Send) -> None:
    """The application of connections beyond the bounds."""
    await refuse(ApiError(503, "the server is crowded: try again later", retry_after=1), receive, send)


def patient_protocol(patience: float, connections: Connections) -> type[H11Protocol]:
    """HTTP that gives a client only so long to send the head of a request, and to read what it asked for.

    The guard waits for the body in between.
    """

    class PatientProtocol(H11Protocol):
        app: ASGIApp

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            peer = transport.get_extra_info("peername")
            self._host = str(peer[0]) if isinstance(peer, tuple) else ""
            is_welcome = connections.enter(self._host)
            if is_welcome is None:
                transport.abort()
            elif not is_welcome:
                self.app = _crowded
            self._reading = _Timer(self.loop, patience if is_welcome else _REFUSED_SECONDS, self._give_up)
            self._writing = _Timer(self.loop, patience, self.transport.abort)
            self._reading.start()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._is_answering():
                self._reading.stop()
            else:
                self._reading.start()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._writing.start()

        def resume_writing(self) -> None:
            self._writing.stop()
            super().resume_writing()

        def connection_lost(self, exc: Exception | None) -> None:
            connections.leave(self._host)
            self._reading.stop()
            self._writing.stop()
            super().connection_lost(exc)

        def _is_answering(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        def _give_up(self) -> None:
            if not self._is_answering():
                self.transport.close()

    return PatientProtocol


class _Timer:
    """Does something when it has run for so long; starting it again while it runs changes nothing."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, action: Callable[[], None]) -> None:
        self._loop = loop
        self._seconds = seconds
        self._action = action
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        if self._handle is None:
            self._handle = self._loop.call_later(self._seconds, self._end)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _end(self) -> None:
        self._handle = None
        self._action()
