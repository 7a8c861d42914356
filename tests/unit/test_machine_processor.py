"""The processor is tried in a child process: the path works, works with a smaller instruction set, or is refused."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from regard.cli.app import main
from regard.errors import ConfigError
from regard.machine import processor
from regard.machine.processor import LIMITS, RECORD, Verdict
from regard.machine.trials import TRIALS
from regard.nn.linear import Int8Weights

ILLEGAL = -signal.SIGILL
HELPS = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Nothing is known of the processor, and nothing stays."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in [RECORD, *processor.VARIABLES]:
        monkeypatch.setenv(name, "")  # so that it is put back in the end
        monkeypatch.delenv(name)
    monkeypatch.setattr(processor, "_known", {})
    monkeypatch.setattr(processor, "_in_use", {})
    monkeypatch.setattr(processor, "_works_here", lambda path: True)
    monkeypatch.setattr(processor, "_machine", processor._machine.__wrapped__)  # not what this process remembers
    return monkeypatch


def dying_unless(monkeypatch: pytest.MonkeyPatch, helps: Mapping[str, str] | None) -> list[dict[str, str]]:
    """Trials die of SIGILL unless they have these limits (None: always); what was tried."""
    tried: list[dict[str, str]] = []

    def run_child(path: str, limits: Mapping[str, str]) -> int:
        tried.append(dict(limits))
        return 0 if limits == helps else ILLEGAL

    monkeypatch.setattr(processor, "run_child", run_child)
    return tried


def test_a_path_that_works_is_tried_once(fresh: pytest.MonkeyPatch):
    tried = dying_unless(fresh, {})
    assert processor.use("bfloat16", "x", "y") == {}
    assert processor.use("bfloat16", "x", "y") == {}
    assert tried == [{}]
    assert "ONEDNN_MAX_CPU_ISA" not in os.environ


def test_a_smaller_instruction_set_is_set_here_if_it_helps(fresh: pytest.MonkeyPatch):
    tried = dying_unless(fresh, HELPS)
    assert processor.use("bfloat16", "x", "y") == HELPS
    assert tried == [{}, *LIMITS["bfloat16"][:2]]
    assert os.environ["ONEDNN_MAX_CPU_ISA"] == "AVX512_CORE"
    fresh.setattr(processor, "_in_use", {})
    assert processor.use("bfloat16", "x", "y") == {}  # under the limit that is set now
    assert len(tried) == 3


def test_what_nothing_helps_is_refused_in_one_line(fresh: pytest.MonkeyPatch):
    tried = dying_unless(fresh, None)
    for _ in range(2):
        with pytest.raises(
            ConfigError, match=r"^wish: this processor advertises .* and no smaller instruction set helps: do else\.$"
        ):
            processor.use("int8", "wish", "do else")
    assert tried == [{}, *LIMITS["int8"]]


def test_a_limit_that_comes_too_late_is_refused(fresh: pytest.MonkeyPatch):
    dying_unless(fresh, HELPS)
    fresh.setattr(processor, "_works_here", lambda path: False)
    for value in (None, "AVX512_CORE_AMX"):
        if value is not None:
            fresh.setenv("ONEDNN_MAX_CPU_ISA", value)
        for _ in range(2):
            with pytest.raises(ConfigError, match=r"needs ONEDNN_MAX_CPU_ISA=AVX512_CORE, .* set it before Python"):
                processor.use("bfloat16", "x", "y")
            assert os.environ.get("ONEDNN_MAX_CPU_ISA") == value


def test_a_trial_that_cannot_run_says_nothing_and_is_not_kept(fresh: pytest.MonkeyPatch):
    fresh.setattr(processor, "run_child", lambda path, limits: 1)
    assert processor.use("ctranslate2", "x", "y") == {}
    assert RECORD not in os.environ
    assert not processor._cache_file().exists()


def test_children_and_later_processes_know(fresh: pytest.MonkeyPatch):
    dying_unless(fresh, HELPS)
    assert processor.verdict("bfloat16") == Verdict(True, HELPS)
    fresh.setattr(processor, "run_child", lambda path, limits: pytest.fail("tried again"))
    for forget in (lambda: processor._cache_file().unlink(), lambda: fresh.delenv(RECORD)):
        fresh.setattr(processor, "_known", {})
        assert processor.verdict("bfloat16") == Verdict(True, HELPS)
        content = processor._cache_file().read_text()
        forget()
        processor._cache_file().write_text(content)
    # another library, limit or boot is another machine
    fresh.setattr(processor, "_boot", lambda: "another")
    with pytest.raises(pytest.fail.Exception, match="tried again"):
        processor.verdict("bfloat16")


def test_a_known_verdict_reads_no_file(fresh: pytest.MonkeyPatch):
    dying_unless(fresh, {})
    fresh.setattr(processor, "_machine", cache(processor._machine))
    processor.verdict("ctranslate2")
    fresh.setattr(processor, "version", lambda package: pytest.fail("searched the installed packages again"))
    fresh.setattr(processor, "_cpuinfo", lambda name: pytest.fail("read /proc/cpuinfo again"))
    assert processor.verdict("ctranslate2") == Verdict(True)  # each request asks


@pytest.mark.parametrize("limits", [{"LD_PRELOAD": "evil.so"}, {"ONEDNN_MAX_CPU_ISA": "x"}, [], None])
def test_nothing_but_our_own_limits_comes_out_of_the_cache(fresh: pytest.MonkeyPatch, limits: object):
    entry = {processor.machine_key(): {"bfloat16": {"works": True, "limits": limits}}}
    for record in (json.dumps(entry), "[" * 100_000, "{", "[]", '{"a": 1}'):
        fresh.setenv(RECORD, record)
        assert processor._from_record(record, processor.machine_key(), "bfloat16") is None


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_real_child_that_dies_is_seen(fresh: pytest.MonkeyPatch, tmp_path: Path):
    """Another interpreter in place of ours: it dies of SIGILL unless its instruction set is limited."""
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\n[ "$ONEDNN_MAX_CPU_ISA" = AVX512_CORE ] || kill -ILL $$\n')
    python.chmod(0o755)
    fresh.setattr(sys, "executable", str(python))
    assert processor.run_child("bfloat16", {}) == ILLEGAL
    assert processor.verdict("bfloat16") == Verdict(True, HELPS)


@pytest.mark.parametrize(("status", "expected"), [
    (0, False), (1, False), (-signal.SIGKILL, False), (-signal.SIGTERM, False), (137, False),
    (ILLEGAL, True), (132, True), (-signal.SIGSEGV, True), (0xC000001D, True),
])  # fmt: skip
def test_which_ends_are_the_processor(status: int, expected: bool):
    assert processor.died(status) is expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_fork_tells_how_its_work_ended():
    assert processor._in_fork(lambda: None) == 0
    assert processor._in_fork(lambda: os.kill(os.getpid(), signal.SIGILL)) == ILLEGAL
    assert processor._in_fork(lambda: sys.exit(3)) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.processor("int8")
def test_a_fork_tries_the_path_in_the_state_of_this_process():
    assert processor._works_here("int8")


def test_int8_and_training_in_bfloat16_ask_first(
    fresh: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    dying_unless(fresh, None)
    fresh.setattr("torch.backends.quantized.engine", "x86")
    with pytest.raises(ConfigError, match=r"^search\.int8 = true: this processor .*: translate without\.$"):
        Int8Weights()
    command = ["train", "transformer-tiny", "--train", "toy:reverse", "--out", str(tmp_path / "m")]
    for more in ([], ["--dry-run"]):
        assert main([*command, "--set", "training.precision=bfloat16", *more]) == 2
        line = capsys.readouterr().err.splitlines()[-1]
        assert line.startswith("regard: error: training.precision = bfloat16: this processor advertises")
        assert line.endswith("train with training.precision=float32.")
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("path", [pytest.param(path, marks=pytest.mark.processor(path)) for path in TRIALS])
@pytest.mark.filterwarnings("ignore")
def test_the_trials_run(path: str):
    if path == "ctranslate2":
        pytest.importorskip("ctranslate2", reason="needs the extra interop")
    TRIALS[path]()


def test_the_test_suite_leaves_out_what_the_processor_refuses(fresh: pytest.MonkeyPatch):
    entry = {
        "bfloat16": {"works": False, "limits": {}},
        **{p: {"works": True, "limits": {}} for p in ("int8", "ctranslate2", "onnxruntime")},
    }
    fresh.setenv(RECORD, json.dumps({processor.machine_key(): entry}))
    tests = Path(__file__).parents[1]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tests / "unit/test_models_options.py")]
    ran = subprocess.run(
        [*command, "-k", "mixed_precision"], capture_output=True, text=True, cwd=tests.parent, check=False
    )
    assert ran.returncode in (0, 5), ran.stdout
    assert "left out for this processor: bfloat16" in ran.stdout
    assert "passed" not in ran.stdout
