"""Tuning of the process, and signals."""

import os
import signal
import subprocess
import sys

import pytest
import torch

from regard.errors import ConfigError
from regard.process import limit_kernel_cache, limit_openmp_spinning, this_machine, tune_process
from regard.training.interrupt import Interrupted, Interrupts


def test_threads_are_set_and_denormals_flushed() -> None:
    before = torch.get_num_threads()
    try:
        tune_process(1)
        assert torch.get_num_threads() == 1
        assert (torch.tensor([1e-38]) * 1e-5).item() == 0.0
        with pytest.raises(ConfigError, match="at least one thread"):
            tune_process(0)
    finally:
        torch.set_num_threads(before)
        torch.set_flush_denormal(False)


def test_importing_tunes_nothing() -> None:
    imports = "import torch, regard, regard.training, regard.inference.translator"
    code = f"{imports}; assert (torch.tensor([1e-38]) * 1e-5).item() != 0.0"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_difference_between_machines_is_named() -> None:
    machine = this_machine()
    assert machine.differences(machine.to_dict()) == ""
    other = {**machine.to_dict(), "torch": "1.0"}
    assert machine.differences(other) == f"torch 1.0 before, {machine.torch} now"


def test_the_first_signal_asks_and_the_second_stops() -> None:
    before = signal.getsignal(signal.SIGINT)  # a shell starts background jobs with this signal ignored
    with Interrupts() as interrupts:
        interrupts.nothing_to_save = False
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupts.requested
        with pytest.raises(KeyboardInterrupt) as caught:
            os.kill(os.getpid(), signal.SIGINT)
        assert not isinstance(caught.value, Interrupted)
    assert signal.getsignal(signal.SIGINT) is before


def test_with_nothing_to_save_the_first_signal_stops() -> None:
    with pytest.raises(Interrupted, match="start it again"), Interrupts():
        os.kill(os.getpid(), signal.SIGINT)


def test_openmp_spinning_is_limited_unless_the_user_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    limit_openmp_spinning()
    assert int(os.environ["GOMP_SPINCOUNT"]) < 300_000  # what GNU OpenMP takes by itself
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    limit_openmp_spinning()
    assert os.environ["GOMP_SPINCOUNT"] == "7"
    monkeypatch.delenv("GOMP_SPINCOUNT")
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    limit_openmp_spinning()
    assert "GOMP_SPINCOUNT" not in os.environ


def test_training_limits_the_kernels_that_onednn_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
    monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DNNL_PRIMITIVE_CACHE_CAPACITY", "7")
    limit_kernel_cache()
    assert name not in os.environ
    monkeypatch.delenv("DNNL_PRIMITIVE_CACHE_CAPACITY")
    limit_kernel_cache()
    assert 0 < int(os.environ[name]) < 1024  # oneDNN's own
    monkeypatch.setenv(name, "7")
    limit_kernel_cache()
    assert os.environ[name] == "7"
