"""Addresses behind proxies, pace over hours and days, open files, and a log that does not repeat itself."""

from __future__ import annotations

import logging
import resource
from typing import Any

import pytest
from pydantic import ValidationError

from regard.serve.connections import RESERVED_FILES, Connections, fit_connections
from regard.serve.errors import ApiError
from regard.serve.limits import Clients, RateLimit, shared
from regard.serve.logs import OncePerMinute
from regard.serve.settings import ServeSettings


def scope(client: str, *forwarded: str) -> dict[str, Any]:
    return {"client": (client, 1234), "headers": [(b"x-forwarded-for", each.encode()) for each in forwarded]}


@pytest.mark.parametrize(
    ("peer", "forwarded", "found"),
    [
        ("8.8.8.8", ("1.1.1.1",), "8.8.8.8"),  # not a proxy of ours: what it writes is not believed
        ("10.0.0.1", (), "10.0.0.1"),
        ("10.0.0.1", ("1.1.1.1",), "1.1.1.1"),
        ("10.0.0.1", ("6.6.6.6, 1.1.1.1, 10.0.0.2",), "1.1.1.1"),  # the first is the client's own claim
        ("10.0.0.1", ("6.6.6.6", "1.1.1.1"), "1.1.1.1"),
        ("10.0.0.1", ("1.1.1.1:5000",), "1.1.1.1"),
        ("10.0.0.1", ("[2001:db8::1]:5000",), "2001:db8::/64"),
        ("10.0.0.1", ("1.1.1.1, <script>",), "10.0.0.1"),
        ("10.0.0.1", ("10.0.0.3, 10.0.0.2",), "10.0.0.3"),
        ("::ffff:10.0.0.1", ("1.1.1.1",), "1.1.1.1"),
    ],
)
def test_the_client_behind_a_trusted_proxy(peer: str, forwarded: tuple[str, ...], found: str) -> None:
    assert Clients(["10.0.0.0/8"]).address(scope(peer, *forwarded)) == found


def test_one_network_of_ipv6_is_one_client() -> None:
    assert shared("2001:db8:0:1::5") == shared("2001:db8:0:1:ffff::7") != shared("2001:db8:0:2::5")
    assert shared("") == ""


def test_proxies_are_addresses() -> None:
    with pytest.raises(ValidationError, match=r"'example\.org' is not an address"):
        ServeSettings(trusted_proxies=("example.org",))


def test_calls_are_counted_by_the_hour_and_the_day(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("regard.serve.limits.time.monotonic", lambda: now)
    pace = RateLimit(minute=2, hour=3, day=4)

    def refused() -> tuple[str, int]:
        with pytest.raises(ApiError) as refusal:
            pace.check("a")
        return refusal.value.message, refusal.value.retry_after or 0

    pace.check("a")
    pace.check("a")
    assert refused() == ("Slowdown: the limit is 2 requests per minute", 31)
    now = 60.0
    pace.check("a")
    message, wait = refused()
    assert message == "Slowdown: the limit is 3 requests per hour"
    assert 0 < wait <= 1200
    now += wait
    pace.check("a")
    now += 1200
    assert refused()[0] == "Slowdown: the limit is 4 requests per day"
    pace.check("b")


# --- connections --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("soft", "hard", "fits"),
    [
        (1024, 4096, 900),
        (1024, resource.RLIM_INFINITY, 900),
        (1024, 1024, 1024 - RESERVED_FILES),
        (300, 300, 75),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 900),
    ],
)
def test_connections_fit_into_the_open_files(monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, fits: int) -> None:
    limit = [soft, hard]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limit))
    monkeypatch.setattr(resource, "setrlimit", lambda _, given: limit.__setitem__(slice(None), given))
    assert fit_connections(900) == fits
    assert limit[0] == resource.RLIM_INFINITY or limit[0] >= min(900 + RESERVED_FILES, hard)


def test_connections_are_counted_by_address() -> None:
    settings = ServeSettings(max_connections=30, max_connections_per_address=2, trusted_proxies=("10.0.0.1",))
    connections = Connections(settings)
    assert [connections.enter("1.1.1.1") for _ in range(3)] == [True, True, False]
    assert connections.enter("2.2.2.2")
    assert all(connections.enter("10.0.0.1") for _ in range(26))
    assert connections.enter("3.3.3.3") is False  # all are taken
    connections.leave("1.1.1.1")
    connections.leave("1.1.1.1")
    connections.leave("1.1.1.1")
    assert connections.enter("1.1.1.1")
    for _ in range(20):
        last = connections.enter("4.4.4.4")
    assert last is None


# --- the log ------------------------------------------------------------------------------------------------------


def test_the_same_thing_is_logged_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("regard.serve.logs.time.monotonic", lambda: now)
    once, written = OncePerMinute(), []

    def log(message: str, error: Exception | None = None) -> None:
        raised = (type(error), error, error.__traceback__) if error else None
        record = logging.LogRecord("asyncio", logging.ERROR, "", 0, message, (), raised)
        if once.filter(record):
            written.append(record.getMessage())

    for number in range(1000):
        log(f"socket.accept() out of system resource\nsocket: {number}", OSError("Too many open files"))
    log("another")
    now = 61.0
    log("socket.accept() out of system resource\nsocket: x", OSError("Too many open files"))
    said = "socket.accept() out of system resource: Too many open files"
    assert written == [said, "another", f"{said} (999 more suppressed)"]


def test_faults_of_different_places_are_both_logged() -> None:
    once = OncePerMinute()
    passed = []
    for kind in (ValueError, KeyError, ValueError):
        record = logging.LogRecord(
            "uvicorn.error", 40, "", 0, "Exception in ASGI application\n", (), (kind, kind(), None)
        )
        passed.append(once.filter(record))
    assert passed == [True, True, False]


def test_a_cancelled_shutdown_is_no_error_in_the_log() -> None:
    said = "Traceback (most recent call last):\n  …\nasyncio.exceptions.CancelledError\n"
    record = logging.LogRecord("uvicorn.error", logging.ERROR, __file__, 1, said, None, None)
    assert not OncePerMinute().filter(record)
