"""Process-wide tuning: memory, denormal numbers, threads.

Called by the command line and by training, never on import, since it affects the whole process. torch is imported
lazily to keep the command line fast.
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


def limit_openmp_spinning() -> None:
    """Reduce the spin count of GNU OpenMP threads; effective only before torch is first imported.

    By default OpenMP threads spin for milliseconds at every barrier. That is fastest on an idle machine. If another
    program occupies a core, each of the thousands of barriers per second waits for it: training beside one busy program
    ran at a twentieth of its speed. A tenth of the default spin count is several times faster on a busy machine, with
    no measurable cost on an idle one. Settings of the user are kept.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "30000")


def limit_kernel_cache() -> None:
    """Let oneDNN keep 256 compiled kernels instead of 1,024; effective only before torch first uses it.

    In bfloat16 oneDNN compiles a kernel for each shape of a product, and batches of text always have new shapes: most
    kernels are never used again. 256 are enough for the convolutions of an image model. A setting of the user is kept.
    """
    if "DNNL_PRIMITIVE_CACHE_CAPACITY" not in os.environ:  # oneDNN's older name, which the newer one would override
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256")


_home = os.getpid()


def leave_parents_threads() -> None:
    """Use one thread in a forked process: torch's thread pool exists only in the parent, and waiting for it hangs."""
    global _home
    if _home != os.getpid():
        _home = os.getpid()
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(1)


def abandon(*things: object) -> None:
    """Leak objects of a parent process: their destructors would wait for threads that do not exist in the fork."""
    for each in things:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))


_wanted_threads: int | None = None
_torch_waits = False  # whether torch is still to be tuned


def tune_process(threads: int | None = None) -> None:
    """Keep freed memory, flush denormal numbers to zero, and set the number of threads (None: torch's default)."""
    tune_without_torch(threads)
    tune_torch()


def tune_without_torch(threads: int | None = None) -> None:
    """The same, but torch is not imported: `tune_torch` does its part when a model is read."""
    global _wanted_threads, _torch_waits
    if threads is not None and threads < 1:
        raise ConfigError(f"threads = {threads}: at least one thread is needed.")
    _wanted_threads, _torch_waits = threads, True
    _keep_freed_memory()


def tune_torch() -> None:
    """Tune torch as was asked before it was imported; does nothing if nobody asked."""
    global _torch_waits
    if not _torch_waits:
        return
    import torch

    _torch_waits = False
    if _wanted_threads is not None:
        torch.set_num_threads(_wanted_threads)
    torch.set_flush_denormal(True)


def thread_count() -> int:
    """The number of threads for engines other than torch: torch's, if it is imported already."""
    if "torch" in sys.modules and not _torch_waits:
        return int(sys.modules["torch"].get_num_threads())
    if _wanted_threads is not None:
        return _wanted_threads
    return default_threads()


def default_threads() -> int:
    """The number of threads where none is asked for."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdecimal() and int(given) > 0 else usable_cores()


def usable_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _keep_freed_memory() -> None:
    # By default glibc returns large buffers to the kernel on free. The page faults of a new 100 MB buffer cost more
    # than the arithmetic on it. Other C libraries have no mallopt.
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        return
    library = ctypes.CDLL(None)
    library.mallopt(_M_MMAP_MAX, 0)
    library.mallopt(_M_TRIM_THRESHOLD, _HUGE)


@dataclass(frozen=True, slots=True)
class Machine:
    """The factors that determine the last bits of a result."""

    cpu: str
    threads: int
    torch: str
    device: str
    workers: int = 1

    def to_dict(self) -> dict[str, str | int]:
        """Plain values for a JSON file."""
        return asdict(self)

    def differences(self, recorded: dict[str, str | int]) -> str:
        """The differences from a recorded machine as text; empty if there are none."""
        now = self.to_dict()
        return ", ".join(
            f"{name} {recorded[name]!s} before, {value!s} now"
            for name, value in now.items()
            if name in recorded and recorded[name] != value
        )


def this_machine(device: str = "cpu", workers: int = 1) -> Machine:
    """The machine we run on; `threads` of each worker."""
    import torch

    # The vector instructions that torch selects determine its summation order.
    capability = torch.backends.cpu.get_cpu_capability()
    return Machine(
        f"{processor.cpu_name()} ({capability})", torch.get_num_threads(), torch.__version__, device, workers
    )


def usable_device(device: str | torch.device) -> torch.device:
    """The device of this name, if this machine has it."""
    import torch

    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise ConfigError(f"device {str(device)!r}: this machine or this torch has none: use 'cpu'.") from None
    return found


def device_name(device: str | torch.device) -> str:
    """The name of a device that this machine has; "cpu" needs no torch."""
    return "cpu" if str(device) == "cpu" else str(usable_device(device))


def usable_precision(precision: str, device: torch.device) -> Mapping[str, str]:
    """Raise if the processor does not support a precision; returns the instruction set limits it needs."""
    if precision != "bfloat16" or device.type != "cpu":
        return {}
    return processor.use("bfloat16", "training.precision = bfloat16", "train with training.precision=float32")
