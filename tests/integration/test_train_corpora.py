"""Training on several corpora, filters, back-translated text, and a preparation that is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from training_help import pairs, recipe

from regard.cli import main
from regard.data.text import build, parallel, workers
from regard.data.text.corpus import EncodedCorpus
from regard.data.text.tokenizer import Tokenizer
from regard.errors import ConfigError
from regard.training import BackTranslated, Interrupted, Mix, train

KILLED = """
import os, signal, sys
from regard.data.text import build, parallel, workers
from regard.training import train
parallel.LINES, build.JOURNAL_PAIRS, workers.LEAST_BYTES = 50, 100, 0
note, noted = build._Writer._note, []
def killing(self):
    note(self)
    noted.append(1)
    if len(noted) == 3:
        print(*(os.listdir(sys.argv[2] + "/.training.part")), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
build._Writer._note = killing
train(sys.argv[1], train=(sys.argv[3], sys.argv[4]), out=sys.argv[2], overrides=["training.updates=2"])
"""
RECIPE = """
[model]
kind = "bahdanau"
hidden_size = 16
embedding_size = 12
[text]
tokenizer = "word"
min_frequency = 1
[training]
validation_sentences = 4
updates = 2
"""


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    (tmp_path / "recipe.toml").write_text(RECIPE)
    return str(tmp_path / "recipe.toml")


def write(folder: Path, name: str, lines: list[tuple[str, str]]) -> tuple[str, str]:
    for side, suffix in enumerate(("de", "en")):
        (folder / f"{name}.{suffix}").write_text("".join(f"{pair[side]}\n" for pair in lines), "utf-8")
    return str(folder / f"{name}.de"), str(folder / f"{name}.en")


def encoded(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((out / "training" / "train").iterdir())}


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "LINES", 50)
    monkeypatch.setattr(build, "JOURNAL_PAIRS", 100)
    monkeypatch.setattr(workers, "LEAST_BYTES", 0)


@pytest.mark.usefixtures("small_blocks")
def test_a_preparation_killed_while_encoding_goes_on(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = write(tmp_path, "a", pairs(900))
    train(tiny, train=files, out=tmp_path / "whole")
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, tiny, str(tmp_path / "out"), *files], check=False, capture_output=True
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert b"begun.json" in killed.stdout
    journal = tmp_path / "out" / ".training.part" / ".train.part" / "journal.jsonl"
    assert json.loads(journal.read_text().splitlines()[-1])["read"] >= 300
    capsys.readouterr()
    train(tiny, train=files, out=tmp_path / "out", overrides=["training.updates=2"])
    assert "going on with a.de, a.en" in capsys.readouterr().err
    assert encoded(tmp_path / "out") == encoded(tmp_path / "whole")
    assert not (tmp_path / "out" / ".training.part").exists()
    assert not (tmp_path / "out" / "training" / "begun.json").exists()


@pytest.mark.usefixtures("small_blocks")
def test_ctrl_c_while_encoding_keeps_what_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = write(tmp_path, "a", pairs(900))
    note = build._Writer._note

    def interrupting(self: build._Writer) -> None:
        note(self)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(build._Writer, "_note", interrupting)
    with pytest.raises(Interrupted, match="start it again with the same command"):
        train(recipe(updates=2), train=files, out=tmp_path / "out", progress=False)
    assert (tmp_path / "out" / ".training.part" / "begun.json").exists()
    monkeypatch.setattr(build._Writer, "_note", note)
    # with other settings, nothing of it is used
    train(recipe(updates=2, joint=True), train=files, out=tmp_path / "out", progress=False)
    assert (tmp_path / "out" / "training" / "tokenizer.json").exists()


def test_several_corpora_in_proportion(tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = write(tmp_path, "a", pairs(80)), write(tmp_path, "b", pairs(60, seed=1))
    out = tmp_path / "out"
    both = ["--train", *first, "--train", *second]
    assert main(["train", tiny, *both, "--mix", "3,1", "--valid", "none", "--out", str(out)]) == 0
    said = capsys.readouterr().err
    assert "reading a.de, a.en; b.de, b.en" in said
    corpus = EncodedCorpus.open(out / "training" / "train")
    assert (corpus.parts, corpus.weights) == ((80, 60), (3.0, 1.0))
    data = json.loads((out / "metrics.json").read_text())["data"]["train"]
    assert data["corpora"][1] == {"text": "b.de, b.en", "pairs": 60, "weight": 1.0}
    # without weights every pair once, from Python too
    mixed = Mix([first, second])
    train(recipe(updates=2), train=mixed, valid="none", out=tmp_path / "plain", progress=False)
    assert EncodedCorpus.open(tmp_path / "plain" / "training" / "train").weights is None
    # resuming knows the mix
    assert main(["train", "--resume", str(out), "--updates", "3"]) == 0


def test_several_corpora_hold_out_their_validation(tiny: str, tmp_path: Path) -> None:
    first, second = write(tmp_path, "a", pairs(300)), write(tmp_path, "b", pairs(200, seed=1))
    out = tmp_path / "out"
    assert main(["train", tiny, "--train", *first, "--train", *second, "--out", str(out)]) == 0
    data = json.loads((out / "metrics.json").read_text())["data"]
    assert [part["pairs"] for part in data["train"]["corpora"]] == [294, 196]
    assert data["valid"]["pairs"] == 10
    assert "corpora" not in data["valid"]  # one list of pairs from all of them


def test_filters_are_counted_in_the_log(tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [pair for pair in dict.fromkeys(pairs(100)) if pair[0] != pair[1]]
    files = write(tmp_path, "a", [*lines, *lines[:7], ("a b", "a b"), ("c d", "д е"), ("a", "a b c d e f g h")])
    filters = ["text.drop_duplicates=true", "text.drop_identical=true", "text.max_length_ratio=4"]
    changes = [word for each in (*filters, "text.target_script=Latin") for word in ("--set", each)]
    command = ["train", tiny, "--train", *files, "--valid", "none", "--out", str(tmp_path / "out")]
    assert main([*command, *changes]) == 0
    shown = capsys.readouterr().err
    assert f"{len(lines)} sentence pairs" in shown
    assert "0 empty, 0 too long, 1 identical, 7 duplicate, 1 of unequal length, 1 in another script" in shown
    assert main([*command, "--set", "text.source_script=Lattin"]) == 2
    assert "script 'Lattin' is unknown; did you mean 'Latin'?" in capsys.readouterr().err


def test_back_translated_text_is_tagged(tiny: str, tmp_path: Path) -> None:
    """The two commands of docs/back-translation.md."""
    real = write(tmp_path, "a", pairs(80))
    backward = tmp_path / "en-de"
    swapped = ["--train", real[1], real[0], "--valid", "none", "--out", str(backward)]
    assert main(["train", tiny, *swapped]) == 0
    mono = tmp_path / "mono.en"
    mono.write_text("".join(f"{target}\n" for _, target in pairs(30, seed=5)), "utf-8")
    made = tmp_path / "bt.de"
    assert main(["translate", str(backward), "--input", str(mono), "--output", str(made)]) == 0
    made.write_text("".join(f"{line or 'a'}\n" for line in made.read_text("utf-8").splitlines()), "utf-8")
    out = tmp_path / "out"
    command = ["train", tiny, "--train", *real, "--back-translated", str(made), str(mono)]
    assert main([*command, "--mix", "1,1", "--valid", "none", "--out", str(out)]) == 0
    corpus = EncodedCorpus.open(out / "training" / "train")
    tag = Tokenizer.load(out / "source.tokenizer.json").tag
    assert tag is not None
    tagged = [corpus.source.sentence(number)[0] == tag for number in range(len(corpus))]
    assert tagged == [False] * corpus.parts[0] + [True] * corpus.parts[1]
    assert corpus.parts[1] > 0
    with pytest.raises(ConfigError, match="no tag for back-translated text"):
        train(
            train=Mix([real, BackTranslated((str(made), str(mono)))]),
            start_from=backward,
            out=tmp_path / "tuned",
            progress=False,
        )
