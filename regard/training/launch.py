"""Starting the ranks of a training: `regard train --workers N` through torch's elastic launcher, on one machine.

The ranks run `regard train --resume OUT`. They end with the exit status of the command. If one is killed, or loses the
others, all are started again, from the last checkpoint. Under `torchrun` torch's own agent does the same.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.storage.files import write_json
from regard.storage.reading import read_json
from regard.storage.run import holds_run
from regard.training.distributed import LOST, is_launched
from regard.training.interrupt import Interrupted

JOB = "job.json"  # in OUT/training: the launcher's job that began it
RESTARTS = 3  # after that many losses without a new checkpoint, give up
SHUTDOWN_TIMEOUT = 600  # seconds for the ranks to save and end after a signal
WORKER = "REGARD_WORKER"  # set in the environment of the ranks that `launch` starts


class WorkersFailed(Exception):  # noqa: N818  (it reads as what it is)
    """The ranks ended with an error, which rank 0 has printed."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the workers ended with status {status}; their message is on stderr.")
        self.exit_code = status if status > 0 else 1  # below 0: a signal killed one


def launch(arguments: Sequence[str], workers: int, threads: int, folder: Path) -> int:
    """Run `regard ARGUMENTS` in `workers` ranks with `threads` threads each; the exit status of the training.

    `folder` is OUT/training: restarts are counted anew whenever it has a new checkpoint.
    """
    restarts, newest = 0, _newest(folder)
    while True:
        status = run_ranks(["-m", "regard", *arguments], workers, threads)
        if status >= 0 and status != LOST:
            return status
        if _newest(folder) != newest:
            restarts, newest = 0, _newest(folder)
        if restarts == RESTARTS:
            return 1
        restarts += 1
        how = "was lost" if status == LOST else f"was killed by {signal.Signals(-status).name}"
        print(f"a worker {how}: starting all again from the last checkpoint.", file=sys.stderr, flush=True)


def _newest(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("checkpoint-*"))[-1:]


def run_ranks(command: Sequence[str], workers: int, threads: int) -> int:
    """Run `python COMMAND` once in each rank. The exit status; minus a signal's number if one was killed."""
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    for name in list(logging.root.manager.loggerDict):  # each has a level of its own; we report ourselves
        if name.startswith("torch.distributed.elastic"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="regard-workers-") as private:
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=workers,
            run_id=Path(private).name,
            # Rendezvous in a file: no port is opened for it.
            rdzv_backend="c10d",
            rdzv_endpoint=f"{private}/rendezvous",
            rdzv_configs={"store_type": "file"},
            local_addr="127.0.0.1",
            max_restarts=0,
            monitor_interval=0.1,
            shutdown_timeout=SHUTDOWN_TIMEOUT,
        )
        surroundings = {
            "OMP_NUM_THREADS": str(threads),
            "GLOO_SOCKET_IFNAME": "lo" if sys.platform == "linux" else "lo0",
            WORKER: str(os.getpid()),
        }
        before = {name: os.environ.get(name) for name in surroundings}
        os.environ.update(surroundings)
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            elastic_launch(config, sys.executable)(*command)
        except ChildFailedError as error:
            return _status([failure.exitcode for failure in error.failures.values()])
        except SignalException as stopped:
            return 128 + int(stopped.sigval)
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
    return 0


def answer_of_ranks(function: str, words: Sequence[str], workers: int, threads: int) -> dict[str, Any]:
    """Call `module:function` once in each rank, and read the JSON that the lead writes to its last word, a file."""
    with tempfile.TemporaryDirectory(prefix="regard-ranks-") as private:
        answer, (module, name) = Path(private) / "answer.json", function.split(":")
        quiet = "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL)"  # no traceback on Ctrl-C
        program = f"{quiet}; from {module} import {name}; {name}()"
        status = run_ranks(["-c", program, *words, str(answer)], workers, threads)
        if status in (128 + signal.SIGINT, 128 + signal.SIGTERM):
            message = "stopped before an update was made: start it again with the same command."
            raise Interrupted(message, saved=False, signal_number=status - 128)
        if status:
            raise WorkersFailed(status)
        return read_json(answer)


def _status(codes: list[int]) -> int:
    """The exit status of all ranks: exit codes take precedence over signals, signals over lost connections."""
    chosen = [code for code in codes if code >= 0 and code != LOST] or [code for code in codes if code < 0] or [LOST]
    return chosen[0]


def end_with_launcher() -> None:
    """In a rank of `launch`: save and stop if the launcher is killed. (Linux; elsewhere the rank trains on.)"""
    parent = os.environ.get(WORKER)
    if parent is None or sys.platform != "linux":
        return
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)
    if os.getppid() != int(parent):
        os.kill(os.getpid(), signal.SIGTERM)


# --- torchrun repeats its command after a loss --------------------------------------------------------------------


def mark_job(folder: Path) -> None:
    """Record which job of torchrun began the training in OUT/training."""
    if is_launched():
        write_json(folder / JOB, {"job": _job()})


def is_repeated(out: Path) -> bool:
    """Whether torchrun repeats the command that began the training in `out`: it then goes on."""
    path = out / "training" / JOB
    return is_launched() and holds_run(path.parent) and path.exists() and read_json(path).get("job") == _job()


def _job() -> str:
    """torchrun's --rdzv-id, or else the process of its agent."""
    job = os.environ["TORCHELASTIC_RUN_ID"]
    return job if job != "none" else f"agent {os.getppid()}"
