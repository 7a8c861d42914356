"""Running the application: listening socket and signals."""

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

_BACKLOG = 1024  # listen backlog: connections waiting to be accepted
_ACCEPTS = 16  # connections accepted per event loop iteration; they hold descriptors before they are counted
_KEEP_ALIVE = 5  # idle seconds between two requests

_log = logging.getLogger("uvicorn.error")


def run_server(app: FastAPI, settings: ServeSettings, started: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C, then finish running requests; `started` is called with the address."""
    with listen(settings.host, settings.port) as listening:
        server = build_server(app, settings, lambda: started(address_of(listening, settings.host)))
        server.run(sockets=[listening])


def build_server(app: FastAPI, settings: ServeSettings, started: Callable[[], None]) -> uvicorn.Server:
    """The server of an application: `run(sockets=[…])` serves until `should_exit` is set."""
    keep_logs_short()
    most = fit_connections(settings.max_connections)
    if most < settings.max_connections:
        _log.warning(
            "--max-connections %d: the open-file limit allows only %d: raise it with ulimit -n.",
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
    """A listening socket at this address, or a one-line error."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError):
        raise ConfigError(f"--host {host}: cannot be resolved: use 127.0.0.1 or 0.0.0.0.") from None
    found = socket.socket(family, kind, protocol)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(address)
        found.listen(_BACKLOG)
    except OSError as error:
        found.close()
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(f"--port {port}: already in use: stop that server, or choose another port.") from None
        if error.errno in (errno.EACCES, errno.EPERM):
            raise ConfigError(f"--port {port}: permission denied: choose a port from 1024 on.") from None
        if error.errno == errno.EADDRNOTAVAIL:
            raise ConfigError(f"--host {host}: not an address of this machine: use 127.0.0.1 or 0.0.0.0.") from None
        raise
    found.setblocking(False)
    return found


def address_of(listening: socket.socket, host: str) -> str:
    """The URL of the socket."""
    port = listening.getsockname()[1]
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).version == 6:
            host = f"[{host}]"
    return f"http://{host}:{port}"


class _Server(uvicorn.Server):
    """uvicorn's server that reports its address and exits with status 0 on SIGTERM or SIGINT."""

    started_callback: Callable[[], None]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(_BACKLOG)
        self.started_callback()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        if threading.current_thread() is not threading.main_thread():  # only the main thread may set signal handlers
            yield
            return

        # uvicorn's own handler raises the signal again at the end, which kills the process
        def leave(number: int, frame: FrameType | None) -> None:
            self.force_exit = self.should_exit and number == signal.SIGINT
            self.should_exit = True

        before = {number: signal.signal(number, leave) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
