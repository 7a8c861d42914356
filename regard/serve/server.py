"""Running the application: the socket, the signals, and patience with slow clients."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.errors import ConfigError
from regard.serve.errors import ApiError
from regard.serve.guard import refuse
from regard.serve.settings import ServeSettings

_BACKLOG = 1024  # connections that the system holds for us before we take them
_KEEP_ALIVE = 5  # seconds that a connection may be idle between two requests


def run_server(app: FastAPI, settings: ServeSettings, started: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C, then finish what runs; `started` is told the address."""
    with listen(settings.host, settings.port) as listening:
        server = build_server(app, settings, lambda: started(address_of(listening, settings.host)))
        server.run(sockets=[listening])


def build_server(app: FastAPI, settings: ServeSettings, started: Callable[[], None]) -> uvicorn.Server:
    """The server of an application: `run(sockets=[…])` serves until `should_exit` is set."""
    _allow_files(settings.max_connections)

    async def bounded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and len(server.server_state.connections) > settings.max_connections:
            await refuse(ApiError(503, "the server is crowded: try again later", retry_after=1), receive, send)
        else:
            await app(scope, receive, send)

    config = uvicorn.Config(
        bounded,
        http=_protocol(settings.max_slow_seconds),
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=int(settings.max_seconds) + 5,
    )
    server = _Server(config)
    server.started_callback = started
    return server


def _allow_files(connections: int) -> None:
    """Let the process have as many files open as it takes connections, as far as the system allows."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + 256
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


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

    started_callback: Callable[[], None]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.started_callback()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        if threading.current_thread() is not threading.main_thread():  # which alone may listen to signals
            yield
            return

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
    """HTTP that gives a client only so long to send the head of a request, and to read what it asked for.

    The guard waits for the body in between.
    """

    class PatientProtocol(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._reading = _Timer(self.loop, patience, self._give_up)
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
