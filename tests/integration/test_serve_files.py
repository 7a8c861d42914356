"""Files that are translated, and the page that documents the API."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from serve_help import GERMAN, Running, running, served, tiny

from regard.serve.files import Shelf
from regard.serve.settings import ServeSettings

SUBTITLES = """1
00:00:01,000 --> 00:00:03,500
the small house
<i>stands here</i> & there

2
00:00:04,000 --> 00:00:05,000
- is it old?
- no.

"""


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    settings = ServeSettings(max_characters=100, max_file_characters=3000)
    with running([served(tiny()), served(tiny(GERMAN), "back", "de", "en")], settings) as found:
        yield found


def send(server: Running, name: str, content: bytes, **fields: str) -> tuple[int, Any]:
    """Status and answer for a file that is sent as a form."""
    parts = {"source": "en", "target": "de"} | fields
    body = "".join(
        f'--x\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n' for key, value in parts.items()
    )
    head = f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    raw = body.encode() + head.encode() + content + b"\r\n--x--\r\n"
    return server.ask("/translate_file", raw, {"Content-Type": "multipart/form-data; boundary=x"})[:2]


def fetched(server: Running, name: str, content: str, **fields: str) -> str:
    status, answer = send(server, name, content.encode(), **fields)
    assert status == 200, answer
    url = answer["translatedFileUrl"]
    assert url.startswith(f"{server.url}/download_file/")
    found = server.ask(url.removeprefix(server.url))
    assert found[0] == 200
    return str(found[1].decode())


def test_text_files(server: Running) -> None:
    text = "\ufeffThe house. A cat!\r\n\r\n  here\n" * 20
    assert fetched(server, "a.txt", text) == text.upper()
    assert fetched(server, "a.TXT", "the cat saw the house", source="auto", target="en") == "the cat saw the house"


def test_html_files(server: Running) -> None:
    page = "<!doctype html><title>the cat</title><p>the house &amp; here</p><script>let cat</script>"
    assert fetched(server, "a.html", page) == page.replace("the cat", "THE CAT").replace(
        "the house &amp; here", "THE HOUSE &amp; HERE"
    )


def test_subtitles(server: Running) -> None:
    plain = SUBTITLES.replace("<i>", "").replace("</i>", "")
    expected = plain.replace("the small house\nstands here & there", "THE SMALL HOUSE\nSTANDS HERE & THERE")
    expected = expected.replace("is it old?", "IS IT OLD?").replace("- no", "- NO")
    assert fetched(server, "a.srt", plain) == expected
    assert fetched(server, "a.srt", plain.replace("\n", "\r\n")) == expected.replace("\n", "\r\n")


@pytest.mark.parametrize(
    ("name", "content", "fields", "status", "message"),
    [
        ("a.pdf", b"x", {}, 400, "file format not supported: send one of .txt"),
        ("a", b"x", {}, 400, "file format not supported"),
        ("a.txt", b"", {}, 400, "empty file"),
        ("a.txt", b"gr\xfcn", {}, 400, "not UTF-8"),
        ("a.txt", b"x", {"source": "xx"}, 400, "xx is not supported"),
        ("a.txt", b"x", {"target": ""}, 400, "missing target parameter"),
        ("a.txt", b"x" * 3001, {}, 413, "exceeds text limit (3000)"),
        ("a.txt", b"x" * 100_000, {}, 413, "too large"),
    ],
)
def test_files_that_are_refused(
    server: Running, name: str, content: bytes, fields: dict[str, str], status: int, message: str
) -> None:
    found = send(server, name, content, **fields)
    assert found[0] == status
    assert message in found[1]["error"]


@pytest.mark.parametrize(
    "body", [b"", b"junk", b"--x\r\n", b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nb']
)
@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "multipart/form-data", "text/plain"])
def test_forms_that_are_broken(server: Running, body: bytes, kind: str) -> None:
    assert server.ask("/translate_file", body, {"Content-Type": kind})[0] == 400


def test_a_file_is_fetched_as_an_attachment_by_a_name_that_nobody_guesses(server: Running) -> None:
    status, answer = send(server, "..\\../my <b>für</b> \u202e.html", b"<script>x</script><p>one", target="de")
    assert status == 200
    path = answer["translatedFileUrl"].removeprefix(server.url)
    assert re.fullmatch(r"/download_file/[0-9a-f]{32}\.[\w%.-]+", path)
    headers = {name.lower(): value for name, value in server.ask(path)[2].items()}
    assert headers["content-disposition"].startswith("attachment; filename*=utf-8''")
    assert headers["content-type"] == "application/octet-stream"
    assert server.ask("/download_file/nothing.txt")[0] == 404


def test_files_wait_for_a_while_and_never_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("regard.serve.files.time.monotonic", lambda: now)
    shelf = Shelf(most=2, seconds=10)
    keys = [shelf.put("a.txt", b"%d" % number) for number in range(3)]
    assert [shelf.get(key) for key in keys] == [None, ("a.txt", b"1"), ("a.txt", b"2")]
    now = 11.0
    assert shelf.get(keys[2]) is None


def test_a_key_is_needed_where_keys_are_needed() -> None:
    with running([served(tiny())], keys=["right"]) as server:
        assert send(server, "a.txt", b"x")[0] == 403
        assert send(server, "a.txt", b"x", api_key="right")[0] == 200


# --- /docs --------------------------------------------------------------------------------------------------------


def test_the_documentation_names_every_endpoint_and_loads_nothing_from_elsewhere(server: Running) -> None:
    status, raw, headers = server.ask("/docs")
    page = raw.decode()
    assert status == 200
    assert headers["content-type"].startswith("text/html")
    paths = server.ask("/openapi.json")[1]["paths"]
    for path, methods in paths.items():
        for method in methods:
            assert f"{method.upper()} {path}</h2>" in page
    assert "<script" not in page
    assert set(re.findall(r'(?:src|href)="([^"#]+)"', page)) == {
        "./",
        "openapi.json",
        "static/icon.svg",
        "static/docs.css",
    }
    assert f"curl {server.url}/translate_file -F file=@text.txt -F source=en" in page
    assert server.ask("/static/docs.css")[0] == 200
