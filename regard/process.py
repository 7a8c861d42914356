"""Tuning of the whole process: memory, denormal numbers, threads.

Called by the command line and by training, never on import, since it changes more than Regard. This file itself
imports torch only where it must, so that the command line stays quick.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from regard.errors import ConfigError
from regard.machine import processor

if TYPE_CHECKING:
    import torch

# glibc's <malloc.h>
_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4
_HUGE = 2**31 - 1


def wait_patiently() -> None:
    """Let waiting threads sleep sooner; it counts only before torch is first imported.

    Threads of GNU OpenMP spin for some milliseconds at every barrier. That is quickest on an idle machine, but as soon
    as another program wants a core, each of our thousands of barriers a second waits for it: training beside one busy
    program was measured at a twentieth of its speed. A tenth of the usual patience costs an idle machine nothing that
    could be measured, and is several times faster on a busy one. What the user has set stays.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "30000")


_home = os.getpid()


def leave_parents_threads() -> None:
    """In a forked process, compute with one thread: torch's others live in the parent, and waiting for them hangs."""
    global _home
    if _home != os.getpid():
        import torch

        _home = os.getpid()
        torch.set_num_threads(1)


def abandon(*things: object) -> None:
    """Never destroy objects of a parent process: their destructors would wait for threads that are not here."""
    for each in things:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))


def tune_process(threads: int | None = None) -> None:
    """Keep freed memory, flush denormal numbers to zero, and use so many threads (None: as torch likes)."""
    import torch

    if threads is not None:
        if threads < 1:
            raise ConfigError(f"threads = {threads}: at least one thread is needed.")
        torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    _keep_freed_memory()


def _keep_freed_memory() -> None:
    # By default glibc hands large buffers back to the kernel at each free, and a fresh 100 MB buffer then costs
    # more in page faults than in arithmetic. Other C libraries have no mallopt.
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        return
    library = ctypes.CDLL(None)
    library.mallopt(_M_MMAP_MAX, 0)
    library.mallopt(_M_TRIM_THRESHOLD, _HUGE)


@dataclass(frozen=True, slots=True)
class Machine:
    """What the last bits of a result depend on."""

    cpu: str
    threads: int
    torch: str
    device: str

    def to_dict(self) -> dict[str, str | int]:
        """Plain values for a JSON file."""
        return asdict(self)

    def differences(self, recorded: dict[str, str | int]) -> str:
        """What differs from a recorded machine, in words; empty when nothing does."""
        now = self.to_dict()
        return ", ".join(
            f"{name} {recorded[name]!s} before, {value!s} now"
            for name, value in now.items()
            if name in recorded and recorded[name] != value
        )


def this_machine(device: str = "cpu") -> Machine:
    """The machine we run on."""
    import torch

    # Which vector instructions torch chose decides the order of its sums.
    capability = torch.backends.cpu.get_cpu_capability()
    return Machine(f"{processor.cpu_name()} ({capability})", torch.get_num_threads(), torch.__version__, device)


def usable_device(device: str | torch.device) -> torch.device:
    """The device of this name, if this machine has it."""
    import torch

    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise ConfigError(f"device {str(device)!r}: this machine or this torch has none: use 'cpu'.") from None
    return found


def usable_precision(precision: str, device: torch.device) -> Mapping[str, str]:
    """Refuse a precision that this processor cannot compute in; the limits of its instruction set that were needed."""
    if precision != "bfloat16" or device.type != "cpu":
        return {}
    return processor.use("bfloat16", "training.precision = bfloat16", "train with training.precision=float32")
