"""`regard serve` as a process: its one line, its signals, and the mistakes it tells of."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from serve_help import tiny

from regard.cli import main
from regard.cli.serve import _open_page
from regard.inference.folder import write_folder
from regard.storage.weights import model_tensors


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "tiny"
    translator = tiny(shouting=False)
    write_folder(
        path,
        recipe=translator.recipe,
        source_tokenizer=translator.source_tokenizer,
        target_tokenizer=translator.target_tokenizer,
        weights=model_tensors(translator.model),
        metrics={},
        card="<script>alert(1)</script>",
    )
    return path


def test_sigterm_finishes_what_runs_and_exits_with_0(folder: Path) -> None:
    command = [sys.executable, "-m", "regard", "serve", f"en-de={folder}", f"other={folder}", "--port", "0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("Regard serves en-de (en-de), other (und-und) at http://127.0.0.1:")
    address = line.rsplit("//", 1)[1].strip()
    text = " ".join(["The small house stands here."] * 40)
    answers: list[tuple[int, str]] = []

    def ask() -> None:
        with contextlib.closing(http.client.HTTPConnection(address, timeout=60)) as connection:
            connection.request("POST", "/translate", json.dumps({"q": text, "source": "en", "target": "de"}))
            asked.set()
            response = connection.getresponse()
            answers.append((response.status, json.loads(response.read())["translatedText"]))

    asked = threading.Event()
    thread = threading.Thread(target=ask)
    thread.start()
    assert asked.wait(10)
    deadline = time.monotonic() + 30
    while not _works(address):
        assert time.monotonic() < deadline
    process.send_signal(signal.SIGTERM)
    thread.join(60)
    out, err = process.communicate(timeout=60)
    assert [status for status, _ in answers] == [200]
    assert (process.returncode, out) == (0, "")
    assert err.strip() == "other: languages unknown: set them with --languages de-en."


def _works(address: str) -> bool:
    """Whether the request has come in."""
    with contextlib.closing(http.client.HTTPConnection(address, timeout=60)) as connection:
        connection.request("GET", "/metrics")
        return b"regard_characters_total 0.0" not in connection.getresponse().read()


def test_a_port_in_use_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", str(folder), "--port", str(port)]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[-1] == (f"regard: error: --port {port}: already in use: stop that server, or choose another port.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max-queue", "0"], "max_queue = 0: input should be greater than or equal to 1."),
        (["--port", "70000"], "port = 70000: input should be less than or equal to 65535."),
        (["--host", "no.such.host.invalid"], "--host no.such.host.invalid: cannot be resolved"),
        (["--languages", "german"], "--languages german: write it as source-target codes, such as de-en."),
        (["--api-keys", "no-such-file"], "no-such-file: no such file. Check the path."),
    ],
)
def test_mistakes_are_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["serve", str(folder), *arguments]) == 2
    assert f"regard: error: {message}" in capsys.readouterr().err


def test_without_the_extra_the_remedy_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert main(["serve", str(folder)]) == 2
    assert capsys.readouterr().err == "regard: error: serving needs fastapi: pip install 'regard[serve]'.\n"


def test_help_needs_neither_torch_nor_fastapi() -> None:
    code = "import sys; from regard.cli import main; main(['serve', '--help']); print(sorted(sys.modules))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "--max-queue" in said
    assert not {"'torch'", "'fastapi'", "'uvicorn'", "'tokenizers'"} & set(
        said.splitlines()[-1].strip("[]").split(", ")
    )


@pytest.mark.parametrize("found", [True, False])
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "[::]"])
def test_open_shows_the_page_or_says_where_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], host: str, found: bool
) -> None:
    opened: list[str] = []

    def browser(address: str) -> bool:
        opened.append(address)
        return found

    monkeypatch.setattr("webbrowser.open", browser)
    _open_page(f"http://{host}:5000")
    assert opened == ["http://127.0.0.1:5000"]
    assert ("open http://127.0.0.1:5000 in yours" in capsys.readouterr().err) is not found
