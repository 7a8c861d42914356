"""A server under attack: pages of other origins, costly texts, dead workers, and more connections than it may have."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import socket
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from serve_help import GERMAN, Running, running, running_models, served, tiny

from regard.serve.logs import OncePerMinute
from regard.serve.markup import HtmlDocument
from regard.serve.models import ServedModels
from regard.serve.settings import ServeSettings

EVIL = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
BODY = json.dumps({"q": "one", "source": "en", "target": "de"})


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running([served(tiny()), served(tiny(GERMAN), "back", "de", "en")]) as found:
        yield found


# --- other origins ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "multipart/form-data; boundary=x", ""])
def test_pages_of_other_origins_cannot_make_it_work(server: Running, kind: str) -> None:
    typed = {"Content-Type": kind}
    assert server.ask("/translate", BODY, typed)[0] in (200, 400)
    for page in (EVIL, {"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "null"}):
        status, answer, _ = server.ask("/translate", BODY, typed | page)
        assert status == 403
        assert "--allow-origin" in answer["error"]


def test_forms_and_other_endpoints_of_other_origins_are_refused(server: Running) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert server.ask("/translate", "q=a&source=en&target=de", form)[0] == 200
    assert server.ask("/translate", "q=a&source=en&target=de", form | EVIL)[0] == 403
    for path in ("/api/models", "/metrics", "/languages", "/health"):
        assert server.ask(path)[0] == 200
        assert server.ask(path, headers=EVIL)[0] == 403
    assert server.ask("/translate", headers=EVIL, method="OPTIONS")[0] == 403


def test_its_own_page_and_links_to_it_are_served(server: Running) -> None:
    own = {"Origin": server.url, "Sec-Fetch-Site": "same-origin"}
    assert server.ask("/translate", BODY, own)[0] == 200
    assert server.ask("/translate", BODY, {"Origin": server.url})[0] == 200
    assert server.ask("/translate", BODY, {"Origin": "http://127.0.0.1:1"})[0] == 403
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert server.ask("/", headers=link)[0] == 200
    assert server.ask("/api/models", headers=link)[0] == 403
    assert server.ask("/", headers=link | {"Sec-Fetch-Dest": "iframe"})[0] == 403


def test_an_allowed_origin_may_call() -> None:
    with running([served(tiny())], ServeSettings(allow_origins=("https://a.example",))) as server:
        page = {"Origin": "https://a.example", "Sec-Fetch-Site": "cross-site"}
        status, _, headers = server.ask("/translate", BODY, page)
        assert (status, headers["access-control-allow-origin"]) == (200, "https://a.example")
        preflight = {**page, "Access-Control-Request-Method": "POST"}
        assert server.ask("/translate", headers=preflight, method="OPTIONS")[0] == 200
        assert server.ask("/translate", BODY, EVIL)[0] == 403


# --- text off the event loop --------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["<a" * 2500, "." * 5000, "<a b='" * 800])
def test_a_costly_text_is_answered_in_moments(server: Running, text: str) -> None:
    started = time.perf_counter()
    assert server.translate(text, format="html")[0] == 200
    assert time.perf_counter() - started < 5


def test_a_text_that_takes_too_long_is_given_up_while_others_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    door = threading.Event()

    def slow(text: str) -> HtmlDocument:
        assert door.wait(20)
        return HtmlDocument([])

    monkeypatch.setattr(HtmlDocument, "of", slow)
    with running([served(tiny())], ServeSettings(max_seconds=0.3)) as server:
        started = time.perf_counter()
        status, answer, _ = server.translate("<b>slow</b>", format="html")
        assert (status, time.perf_counter() - started < 5) == (503, True)
        assert "deadline of 0.3 seconds" in answer["error"]
        assert server.ask("/health")[0] == server.translate("quick")[0] == 200
        door.set()


def test_a_panic_while_text_is_read_is_one_500(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    from serve_help import Panic

    def panic(text: str) -> HtmlDocument:
        raise Panic("in the parser")

    monkeypatch.setattr(HtmlDocument, "of", panic)
    assert server.translate("<b>a</b>", format="html")[0] == 500
    assert server.translate("panic")[0] == 500  # and in the model
    assert server.translate("after")[1] == {"translatedText": "AFTER"}
    assert server.ask("/health")[0] == 200


def test_health_tells_of_dead_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.serve.queue.TranslationQueue.is_well", lambda _: False)
    with running([served(tiny())]) as server:
        status, answer, headers = server.ask("/health")
        assert (status, headers["retry-after"]) == (503, "10")
        assert "no worker" in answer["error"]


# --- keys, tokens and pace ----------------------------------------------------------------------------------------


def test_wrong_keys_are_limited() -> None:
    with running([served(tiny())], ServeSettings(max_wrong_keys_per_minute=3), ["right"]) as server:
        assert server.translate("a", api_key="right")[0] == 200
        assert [server.translate("a", api_key=f"wrong {n}")[0] for n in range(5)] == [403, 403, 403, 429, 429]
        status, answer, headers = server.translate("a", api_key="right")  # which the answer would else give away
        assert (status, answer["error"]) == (429, "Slowdown: too many wrong keys from this address")
        assert 0 < int(headers["retry-after"]) <= 21
        assert server.translate("a")[0] == 403  # without a key there is nothing to guess
        assert server.ask("/health")[0] == 200


def test_metrics_have_a_token_of_their_own() -> None:
    with running([served(tiny())], keys=["key"], token="token") as server:
        assert server.ask("/metrics")[0] == server.ask("/metrics", headers={"Authorization": "Bearer key"})[0] == 403
        assert server.ask("/metrics", headers={"Authorization": "Bearer token"})[0] == 200
        assert server.ask("/api/models", headers={"Authorization": "Bearer token"})[0] == 403
    with running([served(tiny())], token="token") as server:
        assert server.ask("/metrics")[0] == 403
        assert server.translate("a")[0] == 200


def test_clients_behind_a_named_proxy_are_told_apart() -> None:
    settings = ServeSettings(max_requests_per_minute=1, max_connections_per_address=1)
    for proxies, statuses in [((), [200, 429]), (("127.0.0.0/8",), [200, 200])]:
        with running([served(tiny())], settings.model_copy(update={"trusted_proxies": proxies})) as server:
            asked = [{"X-Forwarded-For": f"spoofed, 10.0.0.{n}"} for n in (1, 2)]
            assert [server.ask("/translate", BODY, headers)[0] for headers in asked] == statuses


@pytest.mark.parametrize("path", ["/", "/health", "/languages", "/api/models", "/metrics", "/openapi.json"])
def test_head_answers_as_get_does(server: Running, path: str) -> None:
    got, _, headers = server.ask(path)
    status, body, head = server.ask(path, method="HEAD")
    assert (status, body, head["content-type"]) == (got, b"", headers["content-type"])


def test_head_is_refused_where_get_is(server: Running) -> None:
    assert server.ask("/translate", method="HEAD")[0] == 405
    assert server.ask("/nothing", method="HEAD")[0] == 404


# --- connections --------------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is an address of every machine only on Linux")
def test_one_address_cannot_take_all_connections() -> None:
    settings = ServeSettings(max_connections=40, max_connections_per_address=4, max_slow_seconds=20)
    with running([served(tiny())], settings) as server, contextlib.ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(60)]
        time.sleep(0.1)
        open_ones = 0
        for each in idle:
            each.setblocking(False)
            try:
                open_ones += bool(each.recv(1))
            except BlockingIOError:
                open_ones += 1
            except ConnectionError:
                pass
        assert open_ones <= 4 + 16  # the rest ended at once
        other = socket.socket()
        other.bind(("127.0.0.2", 0))  # another address of this machine
        with other:
            other.settimeout(10)
            other.connect(("127.0.0.1", server.port))
            other.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert other.recv(100).startswith(b"HTTP/1.1 200 ")


def test_a_crowded_address_is_told_so_and_half_open_connections_end() -> None:
    settings = ServeSettings(max_connections_per_address=2, max_slow_seconds=0.5)
    with running([served(tiny())], settings) as server, contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        time.sleep(0.05)
        status, answer, _ = server.ask("/health")
        assert (status, "too many connections" in answer["error"]) == (503, True)
        deadline = time.monotonic() + 10
        while server.ask("/health")[0] != 200:
            assert time.monotonic() < deadline
            time.sleep(0.05)


class OutOfFiles(socket.socket):
    """A socket that at first has no file for a connection."""

    failures = 50

    def accept(self) -> tuple[socket.socket, object]:
        if OutOfFiles.failures:
            OutOfFiles.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


def test_a_lack_of_files_is_logged_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.serve.logs._filter", OncePerMinute())
    logger = logging.getLogger("asyncio")
    before = list(logger.filters)
    logger.filters.clear()
    try:
        with running_models(ServedModels([served(tiny())]), listening_class=OutOfFiles) as server:
            assert server.ask("/health")[0] == 200
    finally:
        logger.filters[:] = before
    said = [record for record in caplog.records if "socket.accept()" in record.getMessage()]
    assert [record.getMessage() for record in said] == [
        "socket.accept() out of system resource: [Errno 24] Too many open files"
    ]
    assert said[0].exc_info is None
