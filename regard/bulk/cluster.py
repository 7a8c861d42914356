"""Shards translated by Ray actors, one per core or GPU.

Each actor holds the model, takes one shard at a time, and reads and writes it itself: only names and counts go through
Ray. An actor that dies, alone or with its node, loses the shard it had begun; another one translates that shard again.
Actors are added when nodes join.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from regard.bulk.shards import Shard
from regard.bulk.work import Event, Events, Failure, Job, Progress, attempt, load_translator
from regard.errors import ConfigError, DataError, RegardError
from regard.storage.reading import short

ATTEMPTS = 4  # of one shard, or of starting a worker
CONNECT_SECONDS = 10
POLL_SECONDS = 1.0
SIZE_SECONDS = 5.0  # between looks at the size of the cluster
PATIENCE_SECONDS = 60.0  # between remarks that no core is free
CONNECT_REMEDY = "check `ray status` on this machine, and RAY_AUTH_MODE=token if the cluster has a token"
OBJECT_STORE_BYTES = 100 << 20  # of the Ray started here; only names and counts go through it
HTTP2_SETTINGS = b"\x04"  # the type of the first frame that a gRPC server such as Ray's sends
HTTP2_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0" + HTTP2_SETTINGS + b"\0\0\0\0\0"

Say = Callable[[str], None]


class Worker:
    """The actor: a model that translates shards, with one thread."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def load(self) -> RegardError | OSError | None:
        """Load the model; an error is returned, with the name of the node."""
        from regard.process import tune_process

        try:
            tune_process(1)
            self.translator = load_translator(self.job)
        except RegardError as error:
            return ConfigError(f"node {socket.gethostname()}: {error}")
        except OSError as error:
            return error
        return None

    def translate(self, shard: Shard) -> Iterator[Event | RegardError | OSError]:
        """The events of a shard; an error that ends the run comes last."""
        try:
            yield from attempt(self.translator, self.job, shard)
        except (RegardError, OSError) as error:
            yield error


def on_ray(address: str, workers: int | None, say: Say) -> Callable[[Job, Sequence[Shard]], Events]:
    """An executor on the cluster at an address; "local" starts Ray on this machine and stops it afterwards."""
    try:
        import ray
    except ModuleNotFoundError:
        raise ConfigError("--ray needs Ray: pip install 'regard[cluster]'.") from None

    def execute(job: Job, shards: Sequence[Shard]) -> Events:
        with connected(ray, address, workers):
            yield from _Pool(ray, job, shards, workers, say).events()

    return execute


# --- the cluster --------------------------------------------------------------------------------------------------


@contextmanager
def connected(ray: Any, address: str, workers: int | None) -> Iterator[None]:
    """A connection to a cluster, or to a Ray of our own; a program that has connected already keeps its connection."""
    if ray.is_initialized():
        yield
        return
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    handler = signal.getsignal(signal.SIGTERM)
    folder = None
    if address == "local":
        folder = tempfile.mkdtemp(prefix="regard-ray-")
        _prepare_local()
    else:
        check_answers(address)
    try:
        try:
            if folder is None:
                with _no_stderr():
                    ray.init(address=address, **quiet)
            else:
                ray.init(
                    address="local",
                    num_cpus=workers,
                    object_store_memory=OBJECT_STORE_BYTES,
                    include_dashboard=False,
                    _temp_dir=folder,
                    _node_ip_address="127.0.0.1",
                    **quiet,
                )
        except (ray.exceptions.RayError, ConnectionError, RuntimeError, ValueError) as error:
            why = short(error).split(". ")[0]
            raise ConfigError(f"--ray {address}: cannot connect ({why}): {CONNECT_REMEDY}.") from None
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # Ray has set its own
        yield
    finally:
        ray.shutdown()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _no_stderr() -> Iterator[None]:
    """Drop the warnings that Ray's C++ code prints while it cannot connect; it raises all the same."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _prepare_local() -> None:
    """Settings of a Ray that serves this run alone: a token of its own, and no reports to its makers."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if "RAY_AUTH_TOKEN_PATH" not in os.environ:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


def check_answers(address: str) -> None:
    """Raise within seconds if no gRPC server listens at host:port; Ray itself would wait for minutes."""
    if address == "auto":
        return
    if "://" in address:
        raise ConfigError(f"--ray {address}: run the command on a node of the cluster, and give HOST:PORT or auto.")
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ConfigError(f"--ray {address}: is no address: give HOST:PORT, auto or local.")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS) as connection:
            connection.sendall(HTTP2_HELLO)
            answer = connection.recv(9)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"--ray {address}: nobody answers there ({why}): check address and firewall.") from None
    if answer[3:4] != HTTP2_SETTINGS:
        raise ConfigError(f"--ray {address}: another program answers there: give the port of `ray start --head`.")


# --- the actors ---------------------------------------------------------------------------------------------------


class _Pool:
    """Actors and the shards they have; a shard is given only to an actor that has loaded the model."""

    def __init__(self, ray: Any, job: Job, shards: Sequence[Shard], workers: int | None, say: Say) -> None:
        self.ray, self.job, self.workers, self.say = ray, job, workers, say
        self.waiting = deque(shards)
        self.attempts: Counter[Shard] = Counter()
        self.starting: dict[Any, Any] = {}  # the reference of `load` -> its actor
        self.working: dict[Any, tuple[Any, Shard]] = {}  # the generator of `translate` -> its actor and shard
        self.failed_starts = 0
        self.slots = 0
        self.looked = self.remarked = float("-inf")
        gpu = 1 if job.device.startswith("cuda") else 0
        self.resource = "GPU" if gpu else "CPU"
        self.make = ray.remote(Worker).options(num_cpus=1, num_gpus=gpu, max_restarts=0)

    def events(self) -> Events:
        """The events of all shards, until none is left; no actor stays."""
        try:
            while self.waiting or self.working:
                self._hire()
                everything = [*self.starting, *self.working]
                if not everything:
                    time.sleep(POLL_SECONDS)
                    continue
                for ready in self.ray.wait(everything, num_returns=1, timeout=POLL_SECONDS)[0]:
                    if ready in self.starting:
                        self._begin(ready)
                    else:
                        yield from self._next(ready)
        finally:
            for actor in [*self.starting.values(), *(actor for actor, _ in self.working.values())]:
                self.ray.kill(actor)

    def _hire(self) -> None:
        """Start as many actors as there are cores and shards."""
        now = time.monotonic()
        if now - self.looked > SIZE_SECONDS:
            self.looked = now
            cores = int(self.ray.cluster_resources().get(self.resource, 0))
            self.slots = cores if self.workers is None else min(cores, self.workers)
        have = len(self.starting) + len(self.working)
        for _ in range(min(self.slots, len(self.waiting) + len(self.working)) - have):
            actor = self.make.remote(self.job)
            self.starting[actor.load.remote()] = actor
        if not self.working and now - self.remarked > PATIENCE_SECONDS:
            if self.remarked > float("-inf"):
                self.say(f"waiting for a free {self.resource} of the cluster, which has {self.slots}")
            self.remarked = now

    def _begin(self, ready: Any) -> None:
        """Give a shard to an actor whose model is loaded."""
        actor = self.starting.pop(ready)
        try:
            error = self.ray.get(ready)
        except self.ray.exceptions.RayTaskError as fault:
            raise fault.cause from None
        except self.ray.exceptions.RayError as fault:
            self.failed_starts += 1
            if self.failed_starts >= ATTEMPTS:
                raise ConfigError(f"--ray: {ATTEMPTS} workers died while they started ({_why(fault)}).") from None
            return
        if error is not None:
            raise error
        self.failed_starts = 0
        self._give(actor)

    def _give(self, actor: Any) -> None:
        if self.waiting:
            shard = self.waiting.popleft()
            self.working[actor.translate.options(num_returns="streaming").remote(shard)] = actor, shard
        else:
            self.ray.kill(actor)

    def _next(self, generator: Any) -> Events:
        """The next event of an actor, and another shard if this one is finished."""
        actor, shard = self.working[generator]
        try:
            event = self.ray.get(next(generator))
        except StopIteration:
            del self.working[generator]
            self._give(actor)
            return
        except self.ray.exceptions.RayTaskError as fault:
            raise fault.cause from None
        except self.ray.exceptions.RayError as fault:
            del self.working[generator]
            self.ray.kill(actor)
            yield shard, self._lost(shard, _why(fault))
            return
        if isinstance(event, RegardError | OSError):
            raise event
        yield shard, event

    def _lost(self, shard: Shard, why: str) -> Progress | Failure:
        """A shard whose actor died waits again, unless it has died too often."""
        self.attempts[shard] += 1
        if self.attempts[shard] >= ATTEMPTS:
            return Failure(DataError(f"{shard.input}: {ATTEMPTS} workers died with it ({why})."))
        self.say(f"a worker died ({why}): {shard.name} starts again")
        self.waiting.appendleft(shard)
        return Progress(0, 0)


def _why(fault: Exception) -> str:
    return short(Exception(str(fault).strip().splitlines()[-1])) if str(fault).strip() else type(fault).__name__
