"""Worker processes of the torch engine: the same results in the same order, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from test_cli_translate import LINES, write_model

from regard.decoding.engines.engine import SMALL_BATCH, Sentence, plan_batches
from regard.errors import ConfigError, RegardError, WorkerDied
from regard.inference.translator import Translator

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux only")

MANY = [f"{line} {number}" for number, line in enumerate(LINES * 20)]
SEARCH: dict[str, Any] = {"batch_tokens": 200, "engine": "torch"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "model", "bahdanau")


def with_workers(folder: Path, count: int) -> Translator:
    translator = Translator.load(folder)
    translator.use_workers(count)
    return translator


def pids(translator: Translator) -> list[int]:
    engine: Any = translator._engines._engine("torch")
    return [] if engine._processes is None else [process.pid for process in engine._processes._workers.values()]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def gone(these: list[int], seconds: float = 10) -> bool:
    until = time.monotonic() + seconds
    while any(map(is_alive, these)) and time.monotonic() < until:
        time.sleep(0.02)
    return not any(map(is_alive, these))


# --- results ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "search",
    [{"beam": 1}, {"beam": 3, "n_best": 2}, {"int8": True}, {"sample": True, "seed": 4}, {"replace_unknown": False}],
)
def test_workers_change_nothing(folder: Path, search: dict[str, Any]) -> None:
    lines = [*MANY, "", "  ", *MANY[:3]]
    alone, shared = Translator.load(folder), with_workers(folder, 2)
    one = alone.translate(lines, search=SEARCH | search)
    two = shared.translate(lines, search=SEARCH | search)
    assert one == two
    assert [each.n_best for each in one] == [each.n_best for each in two]
    assert len(pids(shared)) == 2
    assert pids(alone) == []


def test_attention_and_prefixes_too(folder: Path) -> None:
    prefix = ["the"] * len(MANY)
    one = Translator.load(folder).translate(MANY, search=SEARCH, attention=True, prefix=prefix, candidates=2)
    two = with_workers(folder, 2).translate(MANY, search=SEARCH, attention=True, prefix=prefix, candidates=2)
    for first, second in zip(one, two, strict=True):
        assert first == second
        assert first.alignment is not None
        assert second.alignment is not None
        assert first.alignment.tolist() == second.alignment.tolist()


def test_a_few_lines_start_no_process(folder: Path) -> None:
    translator = with_workers(folder, 2)
    translator.translate(MANY[:20], search={"engine": "torch"})
    assert pids(translator) == []


def test_batches_depend_on_the_sentences_alone() -> None:
    sentences = [Sentence([1] * (number % 37 + 1)) for number in range(2000)]
    batches = plan_batches(sentences, 4096)
    assert sorted(place for batch in batches for place in batch) == list(range(2000))
    assert len(batches) >= 8
    assert all(len(batch) * max(len(sentences[place].ids) for place in batch) <= 4096 for batch in batches)
    assert len(plan_batches(sentences[:50], 4096)) == 1  # an eighth of it would be too small
    assert SMALL_BATCH < 4096
    assert plan_batches([Sentence([1] * 99)], 10) == [[0]]


# --- processes ----------------------------------------------------------------------------------------------------


def test_workers_end_with_their_translator(folder: Path) -> None:
    translator = with_workers(folder, 2)
    translator.translate(MANY, search=SEARCH)
    started = pids(translator)
    assert len(started) == 2
    del translator
    __import__("gc").collect()
    assert gone(started)


def test_an_iterator_left_in_the_middle_ends_its_workers(folder: Path) -> None:
    translator = with_workers(folder, 2)
    found = translator.translate_unordered(MANY, SEARCH)
    next(found)
    started = pids(translator)
    assert len(started) == 2
    found.close()  # type: ignore[attr-defined]
    assert gone(started)
    assert translator.translate(MANY, search=SEARCH) == Translator.load(folder).translate(MANY, search=SEARCH)


def test_a_worker_that_dies_is_told_in_one_line(folder: Path) -> None:
    translator = with_workers(folder, 2)
    translator.translate(MANY, search=SEARCH)
    started = pids(translator)
    os.kill(started[0], signal.SIGKILL)
    with pytest.raises(WorkerDied, match=r"^a worker process died \(SIGKILL, perhaps for lack of memory\): use fewer"):
        translator.translate(MANY, search=SEARCH)
    assert gone(started)
    assert len(translator.translate(MANY, search=SEARCH)) == len(MANY)  # with new ones


def test_errors_of_workers_are_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = with_workers(folder, 2)

    def fails(*given: object) -> None:
        raise RegardError("no luck today.")

    monkeypatch.setattr("regard.decoding.engines.torch.TorchEngine._batch", fails)
    with pytest.raises(RegardError, match="no luck today"):
        translator.translate(MANY, search=SEARCH)


def test_at_least_one_worker(folder: Path) -> None:
    with pytest.raises(ConfigError, match="workers = 0: at least one is needed"):
        Translator.load(folder).use_workers(0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_killed_command_leaves_no_process(folder: Path, tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "in.txt").write_text("\n".join(MANY * 200), "utf-8")
    command = [sys.executable, "-m", "regard", "translate", str(folder), "-i", str(tmp_path / "in.txt")]
    command += ["--workers", "2", "--set", "search.batch_tokens=200", "--engine", "torch"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background job may have it ignored
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        task = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        children = [int(pid) for pid in task.read_text().split()]
        assert len(children) == 2
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does
        else:
            process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert gone(children)
    if number == signal.SIGINT:
        assert said.decode().splitlines() == ["regard: interrupted"]
