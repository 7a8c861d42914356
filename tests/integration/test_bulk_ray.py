"""`regard translate --ray`: equal to the local run, whatever is killed in the middle. Real Ray, on this machine."""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bulk_help import contents, sentences, write_model, write_shards

from regard.bulk.manifest import JOURNAL, MANIFEST

if importlib.util.find_spec("ray") is None:
    pytest.skip("needs Ray: make test-slow installs it", allow_module_level=True)
pytestmark = pytest.mark.slow

SHARDS, LINES = 5, 200
PATIENCE = 240.0  # seconds, on a busy machine
TOKEN = secrets.token_hex(32)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "small", extra=30)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source") / "in"
    write_shards(folder, SHARDS, LINES)
    rows = [{"id": number, "text": text} for number, text in enumerate(sentences(60))]
    (folder / "table.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="module")
def expected(model: Path, source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The output of the local run, manifest included."""
    out = tmp_path_factory.mktemp("expected") / "out"
    run = start(model, source, out, "--threads", "1", token=TOKEN)
    assert finished(run)[0] == 0
    return contents(out)


def start(model: Path, source: Path, out: Path, *words: str, token: str) -> subprocess.Popen[str]:
    """The command, in the background; its Ray processes are known by their token."""
    command = [sys.executable, "-m", "regard", "translate", model, "--input", source, "--output", out, "--scores"]
    environment = {**os.environ, "RAY_AUTH_TOKEN": token, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([*map(str, command), *words], stderr=subprocess.PIPE, text=True, env=environment)


def finished(run: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit status and stderr."""
    _, said = run.communicate(timeout=PATIENCE)
    return run.returncode, said


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited in vain: {what}")


def processes(token: str, name: str = "") -> list[int]:
    """The processes that inherited a token, by the beginning of their command line."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            ours = token.encode() in (folder / "environ").read_bytes()
            if folder.name.isdecimal() and ours and (folder / "cmdline").read_bytes().startswith(name.encode()):
                found.append(int(folder.name))
        except (OSError, ValueError):
            continue
    return [pid for pid in found if pid != os.getpid()]


def _environment(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


def done_shards(out: Path) -> int:
    """Shards in the journal, which has a first line of its own."""
    path = out / JOURNAL
    return len(path.read_text().splitlines()) - 1 if path.exists() else 0


def in_the_middle(out: Path) -> bool:
    """One shard is finished, another one begun."""
    return done_shards(out) >= 1 and any(out.glob(".*.part"))


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Two nodes with a core each, and the token that Ray asks for."""
    folder = tempfile.mkdtemp(prefix="rt-", dir="/tmp")  # short: sockets have short names
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=TOKEN, RAY_USAGE_STATS_ENABLED="0", RAY_TMPDIR=folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ray.cluster_utils import Cluster

        nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        try:
            nodes.add_node(num_cpus=1)
            yield nodes
        finally:
            nodes.shutdown()
            for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_USAGE_STATS_ENABLED", "RAY_TMPDIR"):
                os.environ.pop(name, None)
            shutil.rmtree(folder, ignore_errors=True)


# --- one machine --------------------------------------------------------------------------------------------------


def test_a_ray_of_its_own_gives_the_same_bytes_and_goes(
    model: Path, source: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    token = secrets.token_hex(32)
    status, said = finished(start(model, source, tmp_path / "out", "--ray", "--workers", "2", token=token))
    assert status == 0, said
    assert contents(tmp_path / "out") == expected
    assert f"{SHARDS * LINES + 60:,} sentences in" in said
    assert processes(token) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_run_leaves_no_process_and_continues(
    model: Path, source: Path, expected: dict[str, bytes], tmp_path: Path, number: signal.Signals
) -> None:
    out, token = tmp_path / "out", secrets.token_hex(32)
    run = start(model, source, out, "--ray", "--workers", "1", token=token)
    wait_for(lambda: in_the_middle(out), "a finished shard")
    assert all(b"RAY_AUTH_MODE=token" in _environment(pid) for pid in processes(token, "ray::Worker"))
    run.send_signal(number)
    status, said = finished(run)
    if number == signal.SIGKILL:
        assert status == -number
    else:
        assert status == 128 + number
        assert "shards are finished: the same command continues" in said
        assert not list(out.glob(".*"))
    wait_for(lambda: processes(token) == [], "the end of Ray")
    before = {path.name: path.stat().st_ino for path in out.glob("*.txt.gz") if done_shards(out)}
    done = done_shards(out)
    assert 1 <= done < SHARDS
    status, said = finished(start(model, source, out, "--ray", "--workers", "1", token=token))
    assert status == 0, said
    assert f"{done} of {SHARDS + 1} shards are finished already" in said
    assert contents(out) == expected
    kept = [name for name, inode in before.items() if (out / name).stat().st_ino == inode]
    assert len(kept) >= done  # finished shards were not written again


# --- two nodes ----------------------------------------------------------------------------------------------------


def test_a_killed_worker_loses_nothing(
    cluster: Any, model: Path, source: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run = start(model, source, out, "--ray", cluster.address, token=TOKEN)
    wait_for(lambda: in_the_middle(out), "a finished shard")
    os.kill(wait_for(lambda: processes(TOKEN, "ray::Worker.translate"), "a busy worker")[0], signal.SIGKILL)
    status, said = finished(run)
    assert status == 0, said
    assert said.count("starts again") == 1  # that shard alone
    assert contents(out) == expected


def test_a_killed_node_loses_nothing(
    cluster: Any, model: Path, source: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run = start(model, source, out, "--ray", cluster.address, token=TOKEN)
    wait_for(lambda: in_the_middle(out) and len(processes(TOKEN, "ray::Worker.translate")) == 2, "two busy workers")
    cluster.remove_node(_second(cluster), allow_graceful=False)
    status, said = finished(run)
    assert status == 0, said
    assert said.count("starts again") == 1
    assert contents(out) == expected


def _second(cluster: Any) -> Any:
    return next(iter(cluster.worker_nodes))


def test_a_new_node_helps(cluster: Any, model: Path, source: Path, expected: dict[str, bytes], tmp_path: Path) -> None:
    cluster.remove_node(_second(cluster))
    out = tmp_path / "out"
    run = start(model, source, out, "--ray", cluster.address, token=TOKEN)
    wait_for(lambda: any(out.glob(".*.part")), "the first worker")
    cluster.add_node(num_cpus=1)
    wait_for(lambda: len(processes(TOKEN, "ray::Worker.translate")) == 2, "a second worker")
    status, said = finished(run)
    assert status == 0, said
    assert contents(out) == expected


def test_a_killed_driver_loses_nothing(
    cluster: Any, model: Path, source: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run = start(model, source, out, "--ray", cluster.address, token=TOKEN)
    wait_for(lambda: in_the_middle(out), "a finished shard")
    run.kill()
    finished(run)
    done = done_shards(out)
    status, said = finished(start(model, source, out, "--ray", cluster.address, token=TOKEN))
    assert status == 0, said
    assert f"{done} of {SHARDS + 1} shards are finished already" in said
    assert contents(out) == expected


def test_a_bad_shard_does_not_stop_the_others(cluster: Any, model: Path, source: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    write_shards(folder, 3, 20)
    (folder / "bad.txt").write_bytes(b"good\n\xff\n")
    status, said = finished(start(model, folder, out, "--ray", cluster.address, token=TOKEN))
    assert status == 2
    assert "bad.txt:2: byte 0xff at position 1 is not UTF-8" in said.splitlines()[-1]
    assert sorted(contents(out)) == ["000.txt.gz", "001.txt.gz", "002.txt.gz", JOURNAL]
    (folder / "bad.txt").write_text("good\n")
    status, said = finished(start(model, folder, out, "--ray", cluster.address, token=TOKEN))
    assert status == 0, said
    assert json.loads((out / MANIFEST).read_text())["total"]["shards"] == 4


def test_a_wrong_token_is_one_line(cluster: Any, model: Path, source: Path, tmp_path: Path) -> None:
    begun = time.monotonic()
    run = start(model, source, tmp_path / "out", "--ray", cluster.address, token=secrets.token_hex(32))
    status, said = finished(run)
    assert status == 2
    assert said.startswith(f"regard: error: --ray {cluster.address}: cannot connect")
    assert "RAY_AUTH_MODE=token" in said
    assert len(said.splitlines()) == 1
    assert time.monotonic() - begun < 60
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("answers", [True, False])
def test_an_address_without_ray_is_one_line(model: Path, source: Path, tmp_path: Path, answers: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        if not answers:
            server.close()
        run = start(model, source, tmp_path / "out", "--ray", f"127.0.0.1:{port}", token=TOKEN)
        status, said = finished(run)
    assert status == 2
    assert said.startswith(f"regard: error: --ray 127.0.0.1:{port}: nobody answers there")
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_program_keeps_its_own_ray(cluster: Any, model: Path, tmp_path: Path) -> None:
    """From Python, a connection that is there already is used, and stays."""
    write_shards(tmp_path / "in", 1, 5)
    code = (
        "import ray, regard, sys\n"
        "ray.init(address=sys.argv[1], logging_level=40, log_to_driver=False)\n"
        "manifest = regard.translate_shards(*sys.argv[2:5], ray=sys.argv[1])\n"
        "assert ray.is_initialized() and manifest.sentences == 5"
    )
    words = [cluster.address, str(model), str(tmp_path / "in"), str(tmp_path / "out")]
    subprocess.run([sys.executable, "-c", code, *words], check=True, timeout=PATIENCE)
    assert sorted(contents(tmp_path / "out")) == ["000.txt.gz", MANIFEST]
