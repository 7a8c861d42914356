"""The first hour of somebody who trains on two files of their own, through the command line alone, kills included.

A model, its score, a longer training of it, pictures, and a server that a LibreTranslate client uses.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from libretranslatepy import LibreTranslateAPI

from regard.data.toy import toy_corpus

pytestmark = pytest.mark.slow

REGARD = [sys.executable, "-m", "regard"]
PATIENCE = 300  # seconds for anything at all
SENTENCE = "The old neighbour sees a small black cat."


@pytest.fixture(scope="module")
def hour(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two aligned files to train on and two to test on."""
    folder = tmp_path_factory.mktemp("hour")
    for split, count in (("train", 4000), ("test", 100)):
        pairs = list(toy_corpus("phrases", "en-fr").generate("train" if split == "train" else "valid", count, seed=7))
        (folder / f"{split}.en").write_text("".join(f"{pair.source}\n" for pair in pairs), "utf-8")
        (folder / f"{split}.fr").write_text("".join(f"{pair.target}\n" for pair in pairs), "utf-8")
    return folder


def run(folder: Path, *words: str, text: str | None = None, status: int = 0) -> str:
    """Both streams of one command."""
    done = subprocess.run(
        [*REGARD, *words], cwd=folder, input=text, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    said = done.stdout + done.stderr
    assert done.returncode == status, said
    assert "Traceback" not in said
    return said


def begin(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen([*REGARD, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def update_of(folder: Path) -> int:
    """The update of the newest log line, 0 before there is one."""
    log = folder / "model" / "log.jsonl"
    updates = [json.loads(line).get("update", 0) for line in log.read_text().splitlines()] if log.exists() else []
    return max(updates, default=0)


def wait_for_update(process: subprocess.Popen[str], folder: Path, update: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while update_of(folder) < update:
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        assert time.monotonic() < deadline
        time.sleep(0.2)


TRAIN = ["train", "fast", "--train", "train.en", "train.fr", "--out", "model", "--updates", "260"]
SMALL = ["--set", "training.log_every=10", "--set", "training.validate_every=60", "--set", "training.save_every=0.05"]


def test_the_first_hour(hour: Path) -> None:
    # A kill in the middle loses seconds, and the best model so far is usable meanwhile.
    training = begin(hour, *TRAIN, *SMALL)
    wait_for_update(training, hour, 130)
    assert run(hour, "translate", "model", text=f"{SENTENCE}\n").strip()
    assert "unfinished" in run(hour, "info", "model")
    os.kill(training.pid, signal.SIGKILL)
    training.communicate(timeout=PATIENCE)
    killed_at = update_of(hour)

    # Ctrl-C saves and ends with 130, so that `train && evaluate` stops.
    resumed = begin(hour, "train", "--resume", "model")
    wait_for_update(resumed, hour, killed_at + 20)
    resumed.send_signal(signal.SIGINT)
    _, told = resumed.communicate(timeout=PATIENCE)
    assert resumed.returncode == 130, told
    assert "Traceback" not in told
    started_at = re.search(r"update ([\d,]+)", told)
    assert started_at is not None, told
    assert int(started_at[1].replace(",", "")) > 0, "the kill lost everything"
    run(hour, "train", "--resume", "model")
    assert update_of(hour) == 260

    # Its score, then a longer training.
    first = json.loads(run_json(hour, "evaluate", "model", "--source", "test.en", "--reference", "test.fr"))
    run(hour, "train", "--resume", "model", "--updates", "700")
    assert update_of(hour) == 700
    second = json.loads(run_json(hour, "evaluate", "model", "--source", "test.en", "--reference", "test.fr"))
    assert bleu_of(second) > bleu_of(first)
    assert bleu_of(second) > 20

    # Pictures.
    for name in ("map.png", "map.svg", "steps.gif", "look.html"):
        run(hour, "look", "model", SENTENCE, "--output", name)
        assert (hour / name).stat().st_size > 1000

    # A server for a client that knows nothing of Regard.
    serving = begin(hour, "serve", "model", "--languages", "en-fr", "--port", "0")
    try:
        address = listening_address(serving)
        client = LibreTranslateAPI(address)
        assert "fr" in client.languages()[0]["targets"]
        plain = run(hour, "translate", "model", text=f"{SENTENCE}\n").splitlines()[0]
        assert client.translate(SENTENCE, "en", "fr") == plain
    finally:
        serving.send_signal(signal.SIGINT)
        _, told = serving.communicate(timeout=PATIENCE)
    assert "Traceback" not in told


def run_json(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [*REGARD, *words, "--format", "json"], cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def bleu_of(report: dict[str, object]) -> float:
    bleu = report["bleu"]
    assert isinstance(bleu, dict)
    return float(bleu["value"])


def listening_address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"http://127\.0\.0\.1:\d+", line):
            return found[0]
    raise AssertionError("the server said no address")
