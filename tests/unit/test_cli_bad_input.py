"""Input that is not what it should be: one line that says what it is, where, and what to do."""

from __future__ import annotations

import builtins
import errno
import gzip
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from regard.cli import main
from regard.data.lines import decode_lines, read_lines
from regard.data.text.parallel import Pair, TabbedFile, read_pairs
from regard.data.text.sources import open_text
from regard.errors import DataError
from regard.storage import files
from tests.unit.test_cli_translate import write_model


@pytest.fixture(autouse=True)
def _untuned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.process.tune_process", lambda threads=None: None)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "bahdanau", "bahdanau")


# --- binary files -----------------------------------------------------------------------------------------------------

BINARY = {
    b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n": "this is a PDF, not text. Save its text as UTF-8 first",
    b"PK\x03\x04\x14\x00\x06\x00": "this is a ZIP file (.zip, .docx, .xlsx, .odt), not text. Unpack it",
    b"\xd0\xcf\x11\xe0\xa1\xb1": "this is an old Word or Excel file, not text.",
    b"\xfd7zXZ\x00\x00": "this is an xz file, not text. Unpack it first, with unxz.",
    b"\x89PNG\r\n\x1a\n\x00": "this is a PNG image, not text.",
    b"\xff\xfeh\x00i\x00\n\x00": "this is text in UTF-16. Convert it, for example with iconv -f UTF-16 -t UTF-8.",
    b"ab\x00\x01\x02\n": "this is a binary file, not text.",
}


@pytest.mark.parametrize("content", BINARY)
@pytest.mark.parametrize("packed", [False, True])
def test_a_binary_file_is_called_by_its_kind(tmp_path: Path, content: bytes, packed: bool) -> None:
    path = tmp_path / "corpus.txt"
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(DataError) as caught:
        list(read_lines(path))
    assert str(caught.value).startswith(f"{path}: {BINARY[content]}")
    assert "byte 0x" not in str(caught.value)


def test_a_binary_stream_too() -> None:
    with pytest.raises(DataError, match="stdin: this is a PDF, not text"):
        list(decode_lines(io.BytesIO(b"%PDF-1.4\n"), "stdin"))


def test_noise_without_a_zero_byte_is_binary_too(tmp_path: Path) -> None:
    noise = tmp_path / "noise.txt"
    noise.write_bytes(b"ab\x9b\x07\x1f\n")
    with pytest.raises(DataError, match=r"noise\.txt:1: this is a binary file, not text"):
        list(read_lines(noise))


def test_a_binary_tail_is_no_question_of_encoding(tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    path.write_bytes(b"header\n\x00\xff\xfe\n")
    with pytest.raises(DataError, match=r"corpus\.txt:2: this is a binary file, not text"):
        list(read_lines(path))


# --- columns ----------------------------------------------------------------------------------------------------------

TATOEBA = "Go.\tGeh.\tCC-BY 2.0\nHi.\tHallo!\tCC-BY 2.0\n"


@pytest.fixture
def three(tmp_path: Path) -> Path:
    path = tmp_path / "deu.txt"
    path.write_text(TATOEBA)
    return path


def test_the_columns_asked_for(three: Path) -> None:
    assert list(read_pairs(TabbedFile(three, (1, 2)))) == [Pair("Go.", "Geh."), Pair("Hi.", "Hallo!")]
    assert list(read_pairs(TabbedFile(three, (2, 1)))) == [Pair("Geh.", "Go."), Pair("Hallo!", "Hi.")]
    text = open_text(TabbedFile(three, (2, 1)), "train")
    assert text.description == "deu.txt, columns 2 and 1"
    assert next(iter(text.pairs())) == Pair("Geh.", "Go.")


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("a\tb\tc\n", "x.tsv:1: 3 columns where source and target are two: choose two with --columns 1,2."),
        ("a\tb\na\n", "x.tsv:2: 1 column where source and target are two: put a tab between them, or give two"),
    ],
)
def test_a_wrong_number_of_columns_names_the_option(tmp_path: Path, file: str, message: str) -> None:
    path = tmp_path / "x.tsv"
    path.write_text(file)
    with pytest.raises(DataError) as caught:
        list(read_pairs(path))
    assert message in str(caught.value)


def test_a_line_without_the_column(three: Path) -> None:
    three.write_text(TATOEBA + "short\tline\n")
    with pytest.raises(DataError, match=r"deu\.txt:3: 2 columns, but --columns 1,3 asks for column 3"):
        list(read_pairs(TabbedFile(three, (1, 3))))
    with pytest.raises(DataError, match="counted from 1"):
        TabbedFile(three, (0, 1))


def test_every_command_that_reads_pairs_takes_columns(
    model: Path, three: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "en").write_text("Go.\nHi.\n")
    (tmp_path / "de").write_text("Geh.\nHallo!\n")
    two = [str(tmp_path / "en"), str(tmp_path / "de")]

    def shown(*words: str | Path) -> str:
        assert main([str(word) for word in words]) == 0
        return capsys.readouterr().out

    columns = ("--columns", "1,2")
    aligned = shown("score", model, "--source", two[0], "--target", two[1])
    assert shown("score", model, "--source", three, *columns) == aligned
    aligned = shown("evaluate", model, "--source", two[0], "--reference", two[1], "--format", "json")
    figures = shown("evaluate", model, "--source", three, *columns, "--format", "json")
    assert json.loads(figures)["bleu"] == json.loads(aligned)["bleu"]
    assert shown("align", three, *columns) == shown("align", *two)
    shown("align", *two, "--train", three, *columns)
    shown("shortlist", model, "--train", three, *columns)
    changes = ("model.embedding_size=8", "model.hidden_size=8", "training.updates=1", "text.min_frequency=1")
    settings = [word for change in changes for word in ("--set", change)]
    out = tmp_path / "out"
    shown("train", "luong", "--train", three, "--valid", *two, "--out", out, *columns, *settings)
    assert "deu.txt, columns 1 and 2" in (out / "README.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train luong --train T --out o --columns 1", "--columns 1: name two columns, counted from 1, such as 1,2."),
        ("train luong --train T --out o --columns 1,1", "--columns 1,1: name two columns"),
        ("train luong --train T --out o --columns 0,1", "--columns 0,1: name two columns"),
        ("train luong --train T --out o --columns a,b", "--columns a,b: name two columns"),
        ("train luong --train T T --out o --columns 1,2", "--columns 1,2: it goes with one file with tabs"),
        ("score M --source T --target T --columns 1,2", "--columns 1,2: with --target, no file has two columns"),
        ("evaluate M --source T --reference T --columns 1,2", "--columns 1,2: with --reference, no file has two"),
        ("evaluate M --toy phrases:en-fr --columns 1,2", "--columns 1,2: --toy names no file: leave it out."),
        ("align T T --columns 1,2", "--columns 1,2: no text is one file with tabs: leave it out."),
        ("shortlist M --columns 1,2", "--columns 1,2: it goes with --train and one file with tabs"),
        ("train bam --train T --out o --columns 1,2", "--columns: is for models that read text, not for a resnet"),
        ("train luong --train T --out o", "deu.txt:1: 3 columns where source and target are two: choose two with"),
    ],
)
def test_columns_that_cannot_be_meant(
    model: Path,
    three: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: str,
    message: str,
) -> None:
    monkeypatch.chdir(three.parent)
    given = {"T": str(three), "M": str(model)}
    assert main([given.get(word, word) for word in arguments.split()]) == 2
    assert message in capsys.readouterr().err


# --- folders and disks that refuse ------------------------------------------------------------------------------------


def refuse(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let every temporary file fail to open."""

    def opened(path: Any, *rest: Any, **options: Any) -> Any:
        if str(path).endswith(".part"):
            raise OSError(number, os.strerror(number), str(path))
        return builtins.open(path, *rest, **options)

    monkeypatch.setattr(files, "open", opened, raising=False)


def test_a_read_only_folder_is_named_by_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refuse(monkeypatch, errno.EACCES)
    picture = tmp_path / "gnmt.svg"
    assert main(["diagram", "gnmt-small", "--source", "the cat", "--output", str(picture)]) == 2
    message = f"regard: error: {tmp_path}: permission denied: check who owns it, or choose another folder\n"
    assert capsys.readouterr().err == message
    picture.write_text("old")
    assert main(["diagram", "gnmt-small", "--source", "the cat", "--output", str(picture)]) == 2
    assert f"{picture}: permission denied" in capsys.readouterr().err


def test_a_full_disk_is_named_with_the_room_that_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refuse(monkeypatch, errno.ENOSPC)
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 3 << 19}))
    picture = tmp_path / "gnmt.svg"
    assert main(["diagram", "gnmt-small", "--source", "the cat", "--output", str(picture)]) == 2
    assert capsys.readouterr().err == (
        f"regard: error: {picture}: no space left on device, 1.5 MB free: free some space, or choose another folder\n"
    )


def test_a_write_that_fails_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        files.write_bytes(tmp_path / "a.json", b"x")
    assert caught.value.filename == str(tmp_path / "a.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("free", "text"), [(0, "0 kB"), (5000, "4 kB"), (3 << 20, "3.0 MB"), (5 << 30, "5.0 GB")])
def test_the_room_in_fitting_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, text: str) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": free}))
    full = OSError(errno.ENOSPC, "No space left on device")
    assert files.reason(full, tmp_path / "not" / "yet") == f"no space left on device, {text} free"


# --- waiting at a terminal --------------------------------------------------------------------------------------------


class Terminal:
    """A stdin at which somebody types."""

    def __init__(self, content: bytes, at_terminal: bool) -> None:
        self.buffer = io.BytesIO(content)
        self.at_terminal = at_terminal

    def isatty(self) -> bool:
        return self.at_terminal


@pytest.mark.parametrize("at_terminal", [True, False])
def test_translate_at_a_terminal_says_what_to_type(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], at_terminal: bool
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(b"the cat\n", at_terminal))
    assert main(["translate", str(model)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ("type a sentence and press Enter; Ctrl-D ends\n" if at_terminal else "")
    assert captured.out.count("\n") == 1
