"""A real server on a free port: what it answers, what it refuses, and what it survives."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlencode

import pytest
from serve_help import GERMAN, Running, running, served, tiny

from regard.look.nodes import node_numbers
from regard.look.record import Look
from regard.serve.guard import SECURITY_HEADERS
from regard.serve.models import ServedModel
from regard.serve.regard_api import Figure, figure_of
from regard.serve.settings import ServeSettings
from regard.serve.stream import stream_text

SMALL = ServeSettings(max_characters=200, max_texts=4, max_queue=4, max_slow_seconds=0.5)


@pytest.fixture(scope="module")
def models() -> list[ServedModel]:
    real = tiny(shouting=False)
    # a name may be anything
    return [served(tiny()), served(tiny(GERMAN), "back", "de", "en"), served(real, "<script>alert(1)</script>")]


@pytest.fixture(scope="module")
def server(models: list[ServedModel]) -> Iterator[Running]:
    with running(models, SMALL) as found:
        yield found


def door(models: list[ServedModel]) -> Any:
    return models[0].translator


def wait_for_places(server: Running, count: int) -> None:
    deadline = time.monotonic() + 20
    while f"regard_queue_places {count}.0".encode() not in server.ask("/metrics")[1]:
        assert time.monotonic() < deadline
        time.sleep(0.02)


# --- translating --------------------------------------------------------------------------------------------------


def test_text_comes_back_with_its_lines(server: Running) -> None:
    status, answer, _ = server.translate("one. Two.\n\n  three {name}\n")
    assert (status, answer) == (200, {"translatedText": "ONE. TWO.\n\n  THREE {name}\n"})


def test_lists_formats_and_alternatives(server: Running) -> None:
    assert server.translate(["one", "", "two"])[1] == {"translatedText": ["ONE", "", "TWO"]}
    assert server.translate("<p>one</p>&amp; two", format="html")[1] == {"translatedText": "<p>ONE</p>&amp; TWO"}
    assert server.translate("one", alternatives=2)[1]["alternatives"] == ["ONE!", "ONE!!"]
    assert server.translate(["one"], alternatives=1)[1]["alternatives"] == [["ONE!"]]


def test_forms_are_read(server: Running) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = server.ask("/translate", "q=gr%C3%BCn+a%0D%0Ab&source=en&target=de&api_key=", form)
    assert answer[:2] == (200, {"translatedText": "GRÜN A\nB"})
    assert server.ask("/translate", "q=a&q=b&source=en&target=de", form)[1] == {"translatedText": ["A", "B"]}


def test_what_the_server_tells_about_itself(server: Running) -> None:
    languages = server.ask("/languages")[1]
    assert languages[0] == {"code": "en", "name": "English", "targets": ["de", "en"]}
    assert server.ask("/health")[1] == {"status": "ok"}
    settings = server.ask("/frontend/settings")[1]
    assert settings["charLimit"] == 200
    assert settings["keyRequired"] is False
    assert settings["language"]["target"] == {"code": "de", "name": "German"}


# --- our own ------------------------------------------------------------------------------------------------------


def test_models_are_listed(server: Running) -> None:
    found = server.ask("/api/models")[1]
    assert [model["name"] for model in found["models"]] == ["tiny", "back", "<script>alert(1)</script>"]
    assert found["models"][0]["attention"] == {"cross": {"layers": 1, "heads": 1}}
    assert found["limits"]["max_characters"] == 200


def test_an_installed_model_has_one_figure_on_the_page_and_in_the_terminal() -> None:
    tested = {"metric": "BLEU", "value": 41.6, "data": "a test set"}
    box = {"licence": "x", "attribution": "y", "test": tested, "floor": tested, "weights": "0"}
    assert figure_of({"valid": {"bleu": 38.9}, "box": box}) == Figure(**tested)
    assert figure_of({"valid": {"bleu": 38.9}}) == Figure(metric="BLEU", value=38.9, data="validation")
    assert figure_of({"valid": {"loss": 1.0}}) is None


def test_a_look_inside(server: Running, models: list[ServedModel]) -> None:
    asked = {"model": models[2].name, "text": "the small <script> house", "candidates": 3, "tree": True, "beam": 2}
    status, record, _ = server.ask("/api/look", asked)
    assert status == 200
    assert record["model"]["name"] == models[2].name
    assert record["source"]["text"] == asked["text"]
    assert all(len(step["candidates"]) == 3 for step in record["steps"])
    assert record["beam"]["nodes"]
    banned = server.ask("/api/look", asked | {"intervention": {"ban": [0], "edits": []}})[1]
    assert all(row[0] == 0 for row in banned["alignment"])


def test_a_look_has_the_parts_that_are_asked_for(server: Running, models: list[ServedModel]) -> None:
    asked = {"model": models[2].name, "text": "the small house"}
    whole = server.ask("/api/look", asked)[1]
    least = server.ask("/api/look", asked | {"parts": []})[1]
    assert least["attention"] == {}
    assert all(step["attention"] == [] for step in least["steps"])
    assert (least["target"], least["alignment"]) == (whole["target"], whole["alignment"])
    assert server.ask("/api/look", asked | {"parts": ["cross"]})[1]["attention"] == whole["attention"]
    assert server.ask("/api/look", asked | {"parts": ["steps"]})[1]["steps"] == whole["steps"]
    assert server.ask("/api/look", asked | {"parts": ["other"]})[0] == 422


def test_a_stream_of_no_text_is_refused(server: Running) -> None:
    status, answer, _ = server.ask("/api/translate/stream", b'{"model": "tiny", "text": "\\udc00"}')
    assert status == 422
    assert "lone surrogate" in answer["error"]


def test_a_diagram_is_drawn_beside_the_event_loop(
    server: Running, models: list[ServedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first drawing imports torch, for two seconds."""
    drawing, go_on = threading.Event(), threading.Event()

    def slowly(*_: object) -> str:
        drawing.set()
        assert go_on.wait(20)
        return "<svg/>"

    monkeypatch.setattr("regard.serve.architecture_routes._diagram", slowly)
    query = urlencode({"model": models[2].name, "source": "the house", "target": "la maison"})
    with ThreadPoolExecutor(1) as other:
        asked = other.submit(server.ask, f"/api/diagram?{query}")
        try:
            assert drawing.wait(20)
            assert server.ask("/health")[0] == 200
        finally:
            go_on.set()
        assert asked.result(20)[1] == b"<svg/>"


def test_a_diagram_is_drawn_over_the_words(server: Running, models: list[ServedModel]) -> None:
    query = urlencode({"model": models[2].name, "source": "the <b> house", "target": "la maison"})
    status, drawn, headers = server.ask(f"/api/diagram?{query}")
    assert status == 200
    assert headers["content-type"] == "image/svg+xml"
    assert b"&lt;b&gt;" in drawn
    assert b"<b>" not in drawn
    assert b"<style" not in drawn  # the page's Content-Security-Policy would refuse it
    query = urlencode({"model": models[2].name, "source": "a b c d e f g h i", "target": "x"})
    status, refusal, _ = server.ask(f"/api/diagram?{query}")
    assert status == 422
    assert "1 to 8" in refusal["error"]


def test_a_box_of_the_diagram_shows_its_numbers(server: Running, models: list[ServedModel]) -> None:
    name = models[2].name
    look = server.ask("/api/look", {"model": name, "text": "the small house"})[1]
    source, target = [piece["id"] for piece in look["source"]["pieces"]], [step["id"] for step in look["steps"]]
    asked = {"model": name, "source": source, "target": target, "node": "decoder.1", "place": 1}
    status, found, _ = server.ask("/api/node", asked)
    assert status == 200
    same = node_numbers(models[2].translator.model, Look.from_dict(look), "decoder.1", 1)
    assert found == same.model_dump(mode="json")
    assert [vector["name"] for vector in found["groups"][0]["vectors"] if vector["gate"]] == ["reset r", "update z"]
    banned = server.ask("/api/node", asked | {"intervention": {"ban": [0]}})[1]
    assert banned != found
    for wrong, code in (
        ({"node": "decoder.9"}, 422),
        ({"place": 400}, 422),
        ({"target": [10**6]}, 422),
        ({"source": [5] * 5000}, 413),
        ({"source": []}, 422),
        ({"model": "none"}, 404),
    ):
        assert server.ask("/api/node", asked | wrong)[0] == code, wrong


def test_a_stream_says_what_greedy_search_finds(server: Running, models: list[ServedModel]) -> None:
    text = "the small house.\nThe cat!"
    _, raw, headers = server.ask("/api/translate/stream", {"model": models[2].name, "text": text})
    assert headers["content-type"].startswith("text/event-stream")
    events = [event.split("\n") for event in raw.decode().strip().split("\n\n")]
    names = [event[0].removeprefix("event: ") for event in events]
    data = [json.loads(event[1].removeprefix("data: ")) for event in events]
    assert set(names[:-1]) == {"token"}
    assert names[-1] == "done"
    translator = models[2].translator
    greedy = [found.text for found in translator.translate(["the small house.", "The cat!"], beam=1)]
    assert data[-1]["text"] == "\n".join(greedy)
    assert all(0 < each["probability"] <= 1 for each in data[:-1])
    scores = [found.score for found in translator.translate(["the small house.", "The cat!"], beam=1)]
    assert data[-1]["score"] == pytest.approx(sum(scores), rel=1e-4)


def test_a_stream_of_nothing_ends(models: list[ServedModel]) -> None:
    assert [spoken.ended for spoken in stream_text(models[2].translator, " \n")] == [True]


# --- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "Invalid JSON format"),
        (b"{", "Invalid JSON format"),
        (b"[]", "Invalid JSON format"),
        (b"\xff\xfe", "Invalid JSON format"),
        (b"[" * 60_000, "Invalid JSON format"),
        (b'{"q": "a", "source": "en", "target": "de", "alternatives": NaN}', "Invalid JSON format"),
        (b'{"source": "en", "target": "de"}', "Invalid request: missing q parameter"),
        (b'{"q": "", "source": "en", "target": "de"}', "Invalid request: missing q parameter"),
        (b'{"q": "a", "target": "de"}', "Invalid request: missing source parameter"),
        (b'{"q": 5, "source": "en", "target": "de"}', "Invalid request: q: Input should be a valid string"),
        (b'{"q": ["a", null], "source": "en", "target": "de"}', "Invalid request: q: Input should be a valid"),
        (b'{"q": "\\ud800", "source": "en", "target": "de"}', "Invalid request: q: contains a lone surrogate"),
        (b'{"q": "a", "source": "\\ud800", "target": "de"}', "Invalid request: source: contains a lone surrogate"),
        (b'{"q": "a", "source": "xx", "target": "de"}', "xx is not supported"),
        (b'{"q": "a", "source": "en", "target": "xx"}', "xx is not supported"),
        (b'{"q": "a", "source": "en", "target": "de", "format": "pdf"}', "Invalid request: format: Input should be"),
    ],
)
def test_a_request_that_cannot_be_answered(server: Running, body: bytes, message: str) -> None:
    status, answer, _ = server.ask("/translate", body)
    assert status == 400
    assert answer["error"].startswith(message)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"\xff", 400),
        (b"[]", 422),
        (b'{"model": "nobody", "text": "a"}', 404),
        (b'{"model": "tiny", "text": " "}', 422),
        (b'{"model": "tiny", "text": "\\ud800"}', 422),
        (b'{"model": "tiny", "text": "a", "unknown": 1}', 422),
        (b'{"model": "tiny", "text": "a", "prefix": [9999]}', 422),
        (b'{"model": "tiny", "text": "a", "prefix": [0]}', 422),
        (b'{"model": "tiny", "text": "a", "beam": 11}', 413),
        (b'{"model": "tiny", "text": "a", "intervention": {"edits": [{"multiply": NaN}]}}', 422),
        (b'{"model": "tiny", "text": "a", "intervention": {"ban": [-1]}}', 422),
    ],
)
def test_a_look_that_cannot_be(server: Running, body: bytes, status: int) -> None:
    found, answer, _ = server.ask("/api/look", body)
    assert found == status
    assert list(answer) == ["error"]


def test_too_much_is_refused(server: Running) -> None:
    assert server.translate("x" * 201)[0] == 413
    assert server.translate(["x" * 101, "y" * 100])[0] == 413
    assert server.translate(["x"] * 5)[0] == 413
    assert server.translate("x", alternatives=6)[0] == 413
    assert server.ask("/api/look", {"model": "tiny", "text": "x" * 401})[0] == 413
    assert server.ask("/detect", {"q": "x" * 201})[0] == 413


def test_a_large_body_is_refused_before_it_is_read(server: Running) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        head = "POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000\r\n\r\n"
        connection.sendall(head.encode())  # and not one byte of it
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_a_client_that_sends_all_of_a_large_body_reads_the_refusal(server: Running) -> None:
    status, answer, _ = server.ask("/translate", b"x" * 10_000_000)
    assert status == 413
    assert "too large" in answer["error"]


def test_a_large_body_without_its_length_is_refused_where_it_gets_too_large(server: Running) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(b"POST /translate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        sent = 0
        with contextlib.suppress(OSError):
            while sent < 10_000_000:
                connection.sendall(b"2000\r\n" + b"x" * 0x2000 + b"\r\n")
                sent += 0x2000
                connection.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    assert connection.recv(100).startswith(b"HTTP/1.1 413 ")
                    break
                connection.setblocking(True)
        assert sent < 5_000_000


def test_a_slow_client_is_let_go(server: Running) -> None:
    for start in [
        b"",
        b"GET /health HT",
        b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nslow",
    ]:
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
            connection.sendall(start)
            answer = connection.recv(1000)  # returns when the server closes, or says that it will
            assert answer == b"" or answer.startswith(b"HTTP/1.1 408 ")


def test_other_names_are_refused(server: Running) -> None:
    status, answer, _ = server.ask("/languages", headers={"Host": "evil.example.org"})
    assert status == 421
    assert "evil.example.org" in answer["error"]


def test_unknown_paths_and_methods(server: Running) -> None:
    assert server.ask("/admin")[:2] == (404, {"error": "Not Found"})
    assert server.ask("/translate")[0] == 405
    for path in [
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/data/../../record.py",
        "/static/data/%2e%2e/%2e%2e/record.py",
        "/static/data",  # a folder is not listed
        "/static/data/",
        "/static//etc/passwd",
        "/static/%00",
        "/static/" + "a" * 999,
    ]:
        assert server.ask(path)[0] == 404, path


@pytest.mark.parametrize("path", ["/", "/docs", "/health", "/nothing", "/openapi.json", "/static/data/store.js"])
def test_every_answer_has_its_headers(server: Running, path: str) -> None:
    headers = {name.lower(): value for name, value in server.ask(path)[2].items()}
    for name, value in SECURITY_HEADERS.items():
        assert headers[name.lower()] == value
    assert "unsafe" not in headers["content-security-policy"]
    assert "server" not in headers


# --- it holds -----------------------------------------------------------------------------------------------------


def test_a_full_queue_answers_at_once(server: Running, models: list[ServedModel]) -> None:
    translator = door(models)
    translator.door.clear()
    answers: list[int] = []
    threads = [threading.Thread(target=lambda: answers.append(server.translate("wait")[0])) for _ in range(4)]
    try:
        for thread in threads:
            thread.start()
        wait_for_places(server, 4)
        status, answer, headers = server.translate("one too many")
        assert status == 503
        assert "busy" in answer["error"]
        assert int({name.lower(): value for name, value in headers.items()}["retry-after"]) >= 1
    finally:
        translator.door.set()
        for thread in threads:
            thread.join()
    assert answers == [200] * 4


def test_a_client_that_goes_away_frees_its_place(server: Running, models: list[ServedModel]) -> None:
    translator = door(models)
    translator.entered.clear()
    translator.door.clear()
    body = b'{"q": "gone", "source": "en", "target": "de"}'
    head = f"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    try:
        connections = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(4)]
        for connection in connections:
            connection.sendall(head.encode() + body)
        wait_for_places(server, 4)
        for connection in connections:
            connection.close()
        wait_for_places(server, 0)
    finally:
        translator.door.set()
    assert server.translate("still here")[1] == {"translatedText": "STILL HERE"}


def test_a_stream_whose_client_goes_away_frees_its_place(server: Running, models: list[ServedModel]) -> None:
    body = json.dumps({"model": models[2].name, "text": "the small house. " * 11}).encode()
    head = "POST /api/translate/stream HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert connection.recv(15).startswith(b"HTTP/1.1 200 ")
    wait_for_places(server, 0)


def test_a_request_that_takes_too_long_is_given_up() -> None:
    translator = tiny()
    with running([served(translator)], ServeSettings(max_seconds=0.2)) as server:
        translator.door.clear()
        status, answer, headers = server.translate("slow")
        translator.door.set()
        assert status == 503
        assert "deadline of 0.2 seconds" in answer["error"]
        assert "retry-after" in {name.lower() for name in headers}
        assert server.translate("quick")[0] == 200


def test_keys_and_pace() -> None:
    settings = ServeSettings(max_requests_per_minute=3)
    with running([served(tiny())], settings, ["right"]) as server:
        assert server.translate("a")[0] == 403
        assert server.translate("a", api_key="wrong")[0] == 403
        assert server.translate("a", api_key="right")[0] == 200
        bearer = {"Authorization": "Bearer right"}
        assert server.ask("/api/models")[0] == 403
        assert server.ask("/metrics")[0] == 403
        assert server.ask("/api/models", headers=bearer)[0] == 200
        assert server.ask("/metrics", headers=bearer)[0] == 200
        assert server.ask("/languages")[0] == server.ask("/health")[0] == server.ask("/")[0] == 200
        status, answer, headers = server.ask("/api/models", headers=bearer)
        assert (status, answer) == (429, {"error": "Slowdown: the limit is 3 requests per minute"})
        assert "retry-after" in {name.lower() for name in headers}


def test_too_many_connections_are_refused_politely() -> None:
    with running([served(tiny())], ServeSettings(max_connections=3)) as server:
        idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(3)]
        time.sleep(0.1)
        status, answer, headers = server.ask("/health")
        assert (status, headers["retry-after"]) == (503, "1")
        assert "too many connections" in answer["error"]
        for connection in idle:
            connection.close()
        time.sleep(0.1)
        assert server.ask("/health")[0] == 200


def test_other_origins_are_allowed_only_by_name() -> None:
    with running([served(tiny())], ServeSettings(allow_origins=("https://a.example",))) as server:
        allowed = {
            name.lower(): value
            for name, value in server.ask("/health", headers={"Origin": "https://a.example"})[2].items()
        }
        assert allowed["access-control-allow-origin"] == "https://a.example"
        other = {name.lower() for name in server.ask("/health", headers={"Origin": "https://b.example"})[2]}
        assert "access-control-allow-origin" not in other


def test_metrics_count(server: Running) -> None:
    server.translate("count me")
    server.ask("/never-heard-of")
    text = server.ask("/metrics")[1].decode()
    assert 'regard_requests_total{endpoint="/translate",status="200"}' in text
    assert 'endpoint="other",status="404"' in text
    assert "never-heard-of" not in text
    assert "regard_batch_sentences_count" in text


def test_a_sentence_of_too_many_pieces_is_refused_and_the_next_is_translated() -> None:
    translator = tiny(shouting=False)
    translator.change_search(["search.max_source=8"])
    with running([served(translator)]) as server:
        for path, body, expected in (
            ("/translate", {"q": "x" * 40, "source": "en", "target": "de"}, 400),
            ("/api/look", {"model": "tiny", "text": "x" * 40}, 422),
        ):
            status, answer, _ = server.ask(path, body)
            assert status == expected
            assert "are more than search.max_source = 8: shorten it" in answer["error"]
        assert server.translate("a")[0] == 200
