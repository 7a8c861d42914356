"""Connection limits, in total and for each address, and timeouts for slow clients.

A connection beyond the limit gets a 503 in answer to its request. A few spare connections are kept for these answers;
any further connection is closed at once, so that the server never runs out of file descriptors.
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
"""File descriptors reserved for models, logs and refused connections."""

_SPARE = 64  # refused connections that still get a 503, in total
_SPARE_PER_ADDRESS = 16
_REFUSED_SECONDS = 2.0  # deadline for the request head of a refused connection


def fit_connections(wanted: int) -> int:
    """Connections that the open-file limit (RLIMIT_NOFILE) allows, after raising the soft limit as far as needed."""
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
    """Counts open connections, in total and for each address."""

    def __init__(self, settings: ServeSettings, most: int | None = None) -> None:
        self._most = settings.max_connections if most is None else most
        self._most_per_address = settings.max_connections_per_address
        self._clients = Clients(settings.trusted_proxies)
        self._total = 0
        self._by_address: Counter[str] = Counter()

    def enter(self, host: str) -> bool | None:
        """Count a connection: True within the limits, False to answer it with 503, None to close it at once."""
        self._total += 1
        here = 0
        if not self._clients.is_proxy(host):
            self._by_address[shared(host)] += 1
            here = self._by_address[shared(host)]
        if self._total > self._most + _SPARE or here > self._most_per_address + _SPARE_PER_ADDRESS:
            return None
        return self._total <= self._most and here <= self._most_per_address

    def leave(self, host: str) -> None:
        """Count a closed connection."""
        self._total -= 1
        if not self._clients.is_proxy(host):
            self._by_address[shared(host)] -= 1
            if not self._by_address[shared(host)]:
                del self._by_address[shared(host)]


async def _crowded(scope: Scope, receive: Receive, send: Send) -> None:
    """The application for connections beyond the limits."""
    await refuse(ApiError(503, "the server has too many connections: try again later", retry_after=1), receive, send)


def patient_protocol(patience: float, connections: Connections) -> type[H11Protocol]:
    """HTTP/1.1 with timeouts for receiving the request head and for sending the response.

    The guard sets the timeout for the request body.
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
    """Calls `action` after `seconds`; starting a running timer does nothing."""

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
