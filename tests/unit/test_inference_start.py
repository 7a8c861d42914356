"""What a process imports before its first translation: with a compiled engine, neither torch nor anything slow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_cli_translate import write_model

from regard.inference.translator import Translator

pytest.importorskip("ctranslate2")

SLOW = {
    "torch",
    "matplotlib",
    "sacrebleu",
    "PIL",
    "rich",
    "fastapi",
    "regard.models",
    "regard.nn",
    "regard.look.record",
}
TRANSFORMER: dict[str, object] = {
    "kind": "transformer",
    "hidden_size": 16,
    "heads": 2,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "feedforward_size": 24,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with its compiled copies."""
    folder = write_model(tmp_path_factory.mktemp("models") / "model", TRANSFORMER)
    for int8 in (False, True):
        Translator.load(folder).translate(["the house"], search={"engine": "ctranslate2", "int8": int8})
    return folder


def run(code: str, given: str = "") -> tuple[list[str], set[str]]:
    """The lines that a child process prints, and the slow modules that it imported."""
    code += "\nimport sys\nprint('imported', *sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=given,
        capture_output=True,
        encoding="utf-8",
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=120,
    )
    *lines, imported = done.stdout.splitlines()
    return lines, SLOW & set(imported.split())


@pytest.mark.parametrize("options", [[], ["--int8", "--beam", "3", "--format", "json"]])
def test_translating_with_a_compiled_engine_imports_nothing_slow(folder: Path, options: list[str]) -> None:
    command = ["translate", str(folder), "--engine", "ctranslate2", *options]
    lines, slow = run(f"from regard.cli import main; main({command!r})", "the small house\n\na tree\n")
    assert len(lines) == 3
    assert slow == set()


def test_from_python_too(folder: Path) -> None:
    code = f"""
import regard
translator = regard.load({str(folder)!r})
print(translator.translate(["the small house"], search={{"engine": "ctranslate2"}})[0].text)
print("".join(each.piece for each in translator.stream("a tree", search={{"engine": "ctranslate2"}})))
"""
    lines, slow = run(code)
    assert len(lines) == 2
    assert slow == set()


def test_a_process_that_has_streamed_ends_well(folder: Path) -> None:
    code = f"""
import regard
translator = regard.load({str(folder)!r})
print(sum(1 for _ in translator.stream("a tree", search={{"engine": "ctranslate2"}})) > 0)
"""
    for _ in range(5):  # more than half of such processes were aborted at their end
        assert run(code)[0] == ["True"]


def test_torch_comes_when_something_needs_it(folder: Path) -> None:
    code = f"""
import regard, sys
translator = regard.load({str(folder)!r})
translator.change_search(["search.engine=ctranslate2"])
text = translator.translate(["the small house"])[0].text
assert "torch" not in sys.modules
found = translator.translate("the small house")
assert "torch" not in sys.modules
assert found.alignment is not None and found.text == text
assert "torch" in sys.modules
"""
    assert "torch" in run(code)[1]


def test_a_server_needs_no_torch_either(folder: Path) -> None:
    code = f"""
from fastapi.testclient import TestClient
from regard.serve.app import build_app
from regard.serve.models import load_models
models = load_models(["de-en=" + {str(folder)!r}], overrides=["search.engine=ctranslate2"])
with TestClient(build_app(models), base_url="http://127.0.0.1") as client:
    told = client.post("/translate", json={{"q": "the small house", "source": "de", "target": "en"}})
    assert told.status_code == 200, told.text
    print(told.json()["translatedText"])
"""
    lines, slow = run(code)
    assert len(lines) == 1
    assert slow - {"fastapi", "regard.nn", "rich"} == set()
