"""Two hosts train together, one is lost, and the training ends as if nothing had happened when it is back.

Each host is a network namespace of this machine; a veth pair with 2 ms of latency joins them. Needs root and iproute2.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from regard.storage.weights import read_tensors

ROOT = Path(__file__).parents[2]
HOSTS = {"regard-one": "10.77.0.1", "regard-two": "10.77.0.2"}
VARIABLES = {"GLOO_SOCKET_IFNAME": "veth0", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "OMP_NUM_THREADS": "1"}
RECIPE = """
[model]
kind = "transformer"
hidden_size = 16
encoder_layers = 1
decoder_layers = 1
heads = 2
feedforward_size = 24
[text]
tokenizer = "word"
min_frequency = 1
joint = true
[training]
updates = 300
validate_every = 120
log_every = 10
save_every = 0.02
batch_tokens = 200
warmup = 20
"""


def ip(*words: str, check: bool = True) -> None:
    subprocess.run(["ip", *words], check=check, capture_output=True)


@pytest.fixture
def hosts() -> Iterator[dict[str, str]]:
    """The names of two namespaces with their addresses."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("two hosts: needs root on Linux, for network namespaces")
    try:
        try:
            connect()
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"two hosts: no network namespaces here ({error})")
        yield HOSTS
    finally:
        for name in HOSTS:
            ip("netns", "del", name, check=False)


def connect() -> None:
    """Two namespaces with a cable between them."""
    for name in HOSTS:
        ip("netns", "del", name, check=False)
        ip("netns", "add", name)
    first, second = HOSTS
    ip("link", "add", "veth0", "netns", first, "type", "veth", "peer", "name", "veth0", "netns", second)
    for name, address in HOSTS.items():
        ip("-n", name, "addr", "add", f"{address}/24", "dev", "veth0")
        ip("-n", name, "link", "set", "veth0", "up")
        ip("-n", name, "link", "set", "lo", "up")
        latency = ["tc", "-n", name, "qdisc", "add", "dev", "veth0", "root", "netem", "delay", "2ms"]
        subprocess.run(latency, check=False, capture_output=True)  # not every kernel has netem


def torchrun(host: str, command: list[str], log: Path) -> "subprocess.Popen[bytes]":
    address, first = HOSTS[host], next(iter(HOSTS.values()))
    agent = ["--nnodes", "2", "--nproc-per-node", "1", "--max-restarts", "5", "--rdzv-backend", "c10d"]
    meeting = ["--rdzv-id", "test", "--rdzv-endpoint", f"{first}:29500", "--local-addr", address]
    meeting += ["--rdzv-conf", f"is_host={int(address == first)}"]  # it would guess by the name of this machine
    words = ["ip", "netns", "exec", host, sys.executable, "-m", "torch.distributed.run", *agent, *meeting, "-m"]
    with log.open("ab") as file:
        return subprocess.Popen(
            [*words, "regard", *command],
            cwd=ROOT,
            env={
                **os.environ,
                "GLOO_SOCKET_IFNAME": "veth0",
                "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
                "OMP_NUM_THREADS": "1",
            },
            stdout=file,
            stderr=file,
        )


def until(update: int, out: Path, log: Path, seconds: float = 240) -> None:
    end = time.monotonic() + seconds
    while not (out / "log.jsonl").exists() or f'"event": "update", "update": {update},' not in (
        out / "log.jsonl"
    ).read_text("utf-8"):
        assert time.monotonic() < end, log.read_text("utf-8")[-3000:]
        time.sleep(0.05)


def children(process: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


@pytest.mark.slow
def test_a_lost_host_comes_back(hosts: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(RECIPE, "utf-8")
    data = ["--train", "toy:reverse::600", "--valid", "toy:reverse"]
    command = ["train", str(tmp_path / "tiny.toml"), *data]
    whole, out, log = tmp_path / "whole", tmp_path / "shared", tmp_path / "log"
    here = [sys.executable, "-m", "regard", *command, "--out", str(whole), "--workers", "2", "--quiet"]
    subprocess.run(here, cwd=ROOT, check=True)

    first, second = hosts
    agents = [torchrun(host, [*command, "--out", str(out)], log) for host in (first, second)]
    try:
        until(60, out, log)
        for lost in (*children(agents[1].pid), agents[1].pid):
            os.kill(lost, signal.SIGKILL)
        agents[1].wait()
        time.sleep(3)
        assert agents[0].poll() is None, "the other host waits"
        agents[1] = torchrun(second, [*command, "--out", str(out)], log)
        assert [agent.wait(300) for agent in agents] == [0, 0], log.read_text("utf-8")[-3000:]
    finally:
        for agent in agents:
            if agent.poll() is None:
                agent.terminate()
    ours, theirs = dict(read_tensors(whole / "model.safetensors")), dict(read_tensors(out / "model.safetensors"))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours), "equal bits, over gloo as in shared memory"
    assert "resuming after update" in log.read_text("utf-8")
