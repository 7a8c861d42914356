"""`regard translate` and `regard score` as filters, with a small untrained model."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard.cli import main
from regard.config.recipes import check_recipe
from regard.data.text.tokenizer import Tokenizer
from regard.inference.folder import write_folder
from regard.inference.translator import Translator
from regard.models import build_model
from regard.storage.weights import model_tensors

LINES = ["the small house", "a green tree stands here", "the cat saw a small dog", "here is the house"] * 3


def write_model(folder: Path, kind: str | dict[str, object], seed: int = 1) -> Path:
    """An untrained model of a kind, or of given settings."""
    model = {"kind": kind, "embedding_size": 12, "hidden_size": 16} if isinstance(kind, str) else kind
    table = {
        "model": model,
        "text": {"vocabulary_size": 320, "joint": True, "min_frequency": 1},
        "training": {"updates": 1},
        "search": {"max_length_extra": 4, "max_length_ratio": 1.0, "beam": 2},
    }
    recipe = check_recipe(table, "test")
    tokenizer = Tokenizer.train(LINES, recipe.text)
    torch.manual_seed(seed)
    built = build_model(recipe.model, tokenizer.size, tokenizer.size)
    weights = {name: tensor.detach() * 4 for name, tensor in model_tensors(built).items()}
    write_folder(
        folder,
        recipe=recipe,
        source_tokenizer=tokenizer,
        target_tokenizer=tokenizer,
        weights=weights,
        metrics={},
        card="a test",
    )
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "bahdanau", "bahdanau")


@pytest.fixture(autouse=True)
def _no_tuning(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command tunes the process, which would outlive the test."""
    monkeypatch.setattr("regard.process.tune_process", lambda threads=None: None)


class Stdin:
    """Bytes on stdin."""

    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)

    def isatty(self) -> bool:
        return False


def run(
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
    content: bytes | str,
    *arguments: str | Path,
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "stdin", Stdin(content.encode() if isinstance(content, str) else content))
    status = main([str(argument) for argument in arguments])
    captured = capsysbinary.readouterr()
    return status, captured.out.decode(), captured.err.decode()


def test_is_a_filter(model: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    lines = ["the cat", "", "a green tree\r", "😀\x85\u2028x", " ", "last without an end"]
    status, out, err = run(monkeypatch, capsysbinary, "\n".join(lines), "translate", model)
    assert (status, err) == (0, "")
    expected = Translator.load(model).translate([line.removesuffix("\r") for line in lines])
    assert out.split("\n") == [*[each.text for each in expected], ""]


def test_no_input_gives_no_output(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run(monkeypatch, capsysbinary, "", "translate", model) == (0, "", "")


def test_scores_and_alignments_are_columns(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    options = ("--scores", "--alignments", "--beam", "3")
    _, out, _ = run(monkeypatch, capsysbinary, "the small house\n\n", "translate", model, *options)
    rows = [line.split("\t") for line in out.splitlines()]
    expected = Translator.load(model).translate("the small house", beam=3)
    assert rows[0][0] == expected.text
    assert float(rows[0][1]) == pytest.approx(expected.score, abs=1e-3)
    assert {tuple(map(int, link.split("-"))) for link in rows[0][2].split()} == expected.links()
    assert rows[1] == ["", "0.0000", ""]


def test_n_best_lists_are_numbered(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    _, out, _ = run(monkeypatch, capsysbinary, "the cat\nthe house\n", "translate", model, "--n-best", "3")
    rows = [line.split(" ||| ") for line in out.splitlines()]
    assert [row[0] for row in rows] == ["0"] * 3 + ["1"] * 3
    assert [row[1] for row in rows[:3]] == [
        each.text for found in [Translator.load(model).translate("the cat", n_best=3)] for each in found.n_best
    ]


def test_json_lines(model: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    options = ("--format", "json", "--alignments", "--n-best", "2")
    _, out, _ = run(monkeypatch, capsysbinary, "the cat\n\nthe dog\n", "translate", model, *options)
    values = [json.loads(line) for line in out.splitlines()]
    assert [value["source"] for value in values] == ["the cat", "", "the dog"]
    assert len(values[0]["n_best"]) == 2
    assert isinstance(values[0]["alignment"], str)
    assert values[1]["text"] == ""


def test_files_in_and_out(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    (tmp_path / "in.gz").write_bytes(gzip.compress(b"the cat\nthe dog\n"))
    (tmp_path / "prefix").write_text("here is\n\n")
    files = ("--input", tmp_path / "in.gz", "--output", tmp_path / "out", "--prefix", tmp_path / "prefix")
    status, out, _ = run(monkeypatch, capsysbinary, "", "translate", model, *files)
    assert (status, out) == (0, "")
    written = (tmp_path / "out").read_text().splitlines()
    assert len(written) == 2
    assert written[0].startswith("here is")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.gz", "out", "prefix"]

    (tmp_path / "out.gz").touch()
    for _ in range(2):
        before = (tmp_path / "out.gz").read_bytes()
        files = ("--input", tmp_path / "in.gz", "--output", tmp_path / "out.gz", "--prefix", tmp_path / "prefix")
        assert run(monkeypatch, capsysbinary, "", "translate", model, *files)[0] == 0
    assert gzip.decompress(before).decode().splitlines() == written
    one_block = gzip.compress(gzip.decompress(before), 6, mtime=0)
    assert len(before) <= len(one_block)
    assert (tmp_path / "out.gz").read_bytes() == before


def test_invalid_utf8_names_the_line_after_the_lines_before_it(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    bad = b"the cat\nthe dog\nsch\xf6n\nthe house\n"
    status, out, err = run(monkeypatch, capsysbinary, bad, "translate", model)
    assert status == 2
    assert len(out.splitlines()) == 2
    assert "stdin:3: byte 0xf6 at position 4 is not UTF-8" in err
    assert err.count("\n") == 1
    (tmp_path / "out").write_text("before")
    status, _, _ = run(monkeypatch, capsysbinary, bad, "translate", model, "-o", tmp_path / "out")
    assert status == 2
    assert (tmp_path / "out").read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("lines", "prefixes", "message"),
    [
        (b"the cat\nthe dog\nsch\xf6n\nthe house\n", b"here\n\n\n\n", "stdin:3: byte 0xf6 at position 4 is not UTF-8"),
        (b"the cat\nthe dog\nthe house\n", b"here\n\nsch\xf6n\n", "prefix:3: byte 0xf6 at position 4 is not UTF-8"),
        (b"the cat\nthe dog\nthe house\n", b"here\n\n", "the prefixes end before number 3"),
        (b"the cat\nthe dog\n", b"here\n\n\n", "the lines end before number 3"),
    ],
)
def test_lines_before_a_fault_of_lines_or_prefixes_are_translated(
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
    lines: bytes,
    prefixes: bytes,
    message: str,
) -> None:
    (tmp_path / "prefix").write_bytes(prefixes)
    status, out, err = run(monkeypatch, capsysbinary, lines, "translate", model, "--prefix", tmp_path / "prefix")
    assert status == 2
    assert len(out.splitlines()) == 2
    assert out.startswith("here")
    assert message in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--set", "search.baem=2"), "did you mean search.beam?"),
        (("--set", "model.dropout=0"), "only search settings"),
        (("--beam", "0"), "search: beam = 0"),
        (("--temperature", "-1"), "temperature = -1"),
        (("--device", "warp"), "device 'warp'"),
        (("--input", "nowhere.txt"), "nowhere.txt"),
    ],
)
def test_mistakes_are_one_line(
    options: tuple[str, ...],
    message: str,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    status, out, err = run(monkeypatch, capsysbinary, "the cat\n", "translate", model, *options)
    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_alignments_of_a_model_without_attention_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    folder = write_model(tmp_path / "fixed", "seq2seq")
    status, _, err = run(monkeypatch, capsysbinary, "the cat\n", "translate", folder, "--alignments")
    assert status == 2
    assert "no attention" in err


def test_options_reach_the_search(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    content = "the cat saw a small dog\n" * 4
    drawn = [
        run(monkeypatch, capsysbinary, content, "translate", model, "--sample", "--seed", seed)[1] for seed in "112"
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    bounds = ("--set", "search.max_length_ratio=0.01", "--set", "search.max_length_extra=1")
    _, out, _ = run(monkeypatch, capsysbinary, content, "translate", model, "--format", "json", *bounds)
    assert [len(json.loads(line)["tokens"]) for line in out.splitlines()] == [1] * 4


def test_several_models_are_an_ensemble(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    other = write_model(tmp_path / "other", "luong", seed=5)
    status, out, _ = run(monkeypatch, capsysbinary, "the cat\n", "translate", model, other)
    both = Translator.ensemble([Translator.load(model), Translator.load(other)])
    assert (status, out) == (0, both.translate("the cat").text + "\n")


@pytest.mark.slow  # a process of its own
def test_a_reader_that_goes_away_is_no_error(model: Path) -> None:
    script = f"yes 'the cat' | {sys.executable} -m regard translate {model} --window 2 | head -n 3"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=60, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert len(done.stdout.splitlines()) == 3
    assert done.stderr == ""


def test_score_prints_each_pair_and_the_total(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    (tmp_path / "source").write_text("the cat\nthe dog\n")
    (tmp_path / "target").write_text("a cat\nthe small dog\n")
    files = ("--source", tmp_path / "source", "--target", tmp_path / "target")
    status, out, err = run(monkeypatch, capsysbinary, "", "score", model, *files)
    assert (status, err) == (0, "")
    rows = [line.split("\t") for line in out.splitlines()]
    assert rows[0] == ["pair", "log_probability", "tokens", "perplexity"]
    forced = Translator.load(model).force("the dog", "the small dog")
    assert float(rows[2][1]) == pytest.approx(forced.log_probability, abs=1e-3)
    assert float(rows[3][1]) == pytest.approx(float(rows[1][1]) + float(rows[2][1]), abs=1e-3)
    assert int(rows[3][2]) == int(rows[1][2]) + int(rows[2][2])
    _, out, _ = run(monkeypatch, capsysbinary, "", "score", model, *files, "--format", "json")
    assert json.loads(out.splitlines()[-1])["pairs"] == 2


def test_score_refuses_files_of_different_length(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    (tmp_path / "source").write_text("the cat\nthe dog\n")
    (tmp_path / "target").write_text("a cat\n")
    files = ("--source", tmp_path / "source", "--target", tmp_path / "target")
    status, _, err = run(monkeypatch, capsysbinary, "", "score", model, *files)
    assert status == 2
    assert "2 lines" in err
