"""Running the application: the socket, the signals, and patience with slow clients."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import signal
import socket
from collections.abc import Callable, Generator
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.errors import ConfigError
from regard.serve.settings import ServeSettings

_BACKLOG = 1024  # connections that the system holds for us before we take them


def run_server(app: FastAPI, settings: ServeSettings, started: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C, then finish what runs; `started` is told the address."""
    listening = listen(settings.host, settings.port)
    config = uvicorn.Config(
        app,
        http=_protocol(settings.max_slow_seconds),
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=settings.max_connections,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=int(settings.max_seconds) + 5,
    )
    server = _Server(config)
    server.tell = lambda: started(address_of(listening, settings.host))
    with listening:
        server.run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """A socket at this address, or one line about why there cannot be one."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError):
        raise ConfigError(f"--host {host}: this machine knows no such address: use 127.0.0.1 or 0.0.0.0.") from None
    found = socket.socket(family, kind, protocol)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(address)
        found.listen(_BACKLOG)
    except OSError as error:
        found.close()
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(f"--port {port}: it is in use: stop what listens there, or name another port.") from None
        if error.errno in (errno.EACCES, errno.EPERM):
            raise ConfigError(f"--port {port}: not yours to listen on: name a port from 1024 on.") from None
        if error.errno == errno.EADDRNOTAVAIL:
            raise ConfigError(f"--host {host}: is no address of this machine: use 127.0.0.1 or 0.0.0.0.") from None
        raise
    found.setblocking(False)
    return found


def address_of(listening: socket.socket, host: str) -> str:
    """The URL by which the socket is reached."""
    port = listening.getsockname()[1]
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).version == 6:
            host = f"[{host}]"
    return f"http://{host}:{port}"


class _Server(uvicorn.Server):
    """uvicorn's server, which tells its address when it listens and leaves with exit status 0 when it is told to."""

    tell: Callable[[], None]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.tell()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        # uvicorn's own raises the signal again at the end, so that the process dies by it
        def leave(number: int, frame: FrameType | None) -> None:
            self.force_exit = self.should_exit and number == signal.SIGINT
            self.should_exit = True

        before = {number: signal.signal(number, leave) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _protocol(patience: float) -> type[H11Protocol]:
    """HTTP that gives a client only so long to send the head of a request; the guard waits for its body."""

    class PatientProtocol(H11Protocol):
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._is_answering():
                self._forget()
            elif self._deadline is None:
                self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._forget()
            super().connection_lost(exc)

        def _is_answering(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        def _watch(self) -> None:
            self._deadline = self.loop.call_later(patience, self._lose_patience)

        def _forget(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _lose_patience(self) -> None:
            self._deadline = None
            if not self._is_answering():
                self.transport.close()

    return PatientProtocol
