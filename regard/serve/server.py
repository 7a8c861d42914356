"""Running the application: the socket and the signals."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import logging
import signal
import socket
import threading
from collections.abc import Callable, Generator
from types import FrameType

import uvicorn
from fastapi import FastAPI

from regard.errors import ConfigError
from regard.serve.connections import Connections, fit_connections, patient_protocol
from regard.serve.logs import keep_logs_short
from regard.serve.settings import ServeSettings

_BACKLOG = 1024  # connections that the system holds for us before we take them
_ACCEPTS = 16  # connections taken in one turn of the event loop: for some turns they hold files uncounted
_KEEP_ALIVE = 5  # seconds that a connection may be idle between two requests

_log = logging.getLogger("uvicorn.error")


def run_server(app: FastAPI, settings: ServeSettings, started: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C, then finish what runs; `started` is told the address."""
    with listen(settings.host, settings.port) as listening:
        server = build_server(app, settings, lambda: started(address_of(listening, settings.host)))
        server.run(sockets=[listening])


def build_server(app: FastAPI, settings: ServeSettings, started: Callable[[], None]) -> uvicorn.Server:
    """The server of an application: `run(sockets=[…])` serves until `should_exit` is set."""
    keep_logs_short()
    most = fit_connections(settings.max_connections)
    if most < settings.max_connections:
        _log.warning(
            "--max-connections %d: the system allows %d beside other files: raise ulimit -n.",
            settings.max_connections,
            most,
        )
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=patient_protocol(settings.max_slow_seconds, Connections(settings, most)),
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=_ACCEPTS,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=int(settings.max_seconds) + 5,
    )
    server = _Server(config)
    server.started_callback = started
    return server


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
        for each in sockets or ():
            each.listen(_BACKLOG)
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
