"""A test of the processor's instruction sets, run once in a child process before they are used.

Some virtual machines advertise instructions, such as Intel's AMX, but do not execute them. A library that selects its
kernels by the advertised flags then dies with SIGILL. So `use("bfloat16", …)` first runs the same operations in a child
process (`trials.py`). If the child dies, it is run again with smaller instruction sets, set by environment variables
that the libraries read at their first use. The limits that work are set in this process too; if none works, an error
is raised.

The verdict is cached for this process, for its children (REGARD_PROCESSOR in the environment) and, until the next
boot, in the user's cache folder. torch is imported only when a path is used.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from regard.errors import ConfigError

RECORD = "REGARD_PROCESSOR"
"""The environment variable that passes verdicts to child processes."""

TRIAL_TIMEOUT = 120  # seconds: importing torch from a cold disk is slow

_ONEDNN = tuple({"ONEDNN_MAX_CPU_ISA": isa} for isa in ("AVX512_CORE_BF16", "AVX512_CORE", "AVX2"))
LIMITS: dict[str, tuple[dict[str, str], ...]] = {
    "bfloat16": _ONEDNN,
    "int8": _ONEDNN,
    "ctranslate2": (
        {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16", "MKL_ENABLE_INSTRUCTIONS": "AVX512_E3"},
        {"ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "CT2_FORCE_CPU_ISA": "AVX2"},
        {"ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "CT2_FORCE_CPU_ISA": "GENERIC"},
    ),
    "onnxruntime": (),  # it reads no such variable
}
"""The instruction set limits to try after a trial died, mildest first, by path."""

VARIABLES = sorted({name for limits in LIMITS.values() for limit in limits for name in limit})
"""The environment variables that limit the instruction set."""

OWN_TRIALS = {"onnxruntime": ["regard.decoding.engines.onnxruntime.trial"]}
"""Programs that try a path with code of the engine's own; `trials.py` tries the others."""

_PACKAGES = ("torch", "ctranslate2", "onnxruntime")
_DEADLY = {"SIGILL", "SIGSEGV", "SIGBUS", "SIGFPE"}
_WINDOWS_ILLEGAL = 0xC000001D
_UNKNOWN = 1  # exit status of an inconclusive trial: a missing package, too little memory


@dataclass(frozen=True)
class Verdict:
    """Whether a path runs here, and under which limits."""

    works: bool
    limits: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.works:
            return "dies: an advertised instruction is not executed"
        return f"works with {settings_text(self.limits)}" if self.limits else "works"


_known: dict[tuple[str, str], Verdict] = {}  # by machine and path
_in_use: dict[str, Mapping[str, str]] = {}  # limits of the paths in use by this process


def use(path: str, wanted: str, instead: str) -> Mapping[str, str]:
    """Check that a path works in this process, or raise; returns the limits it needs.

    `wanted` names the setting in the error message, `instead` the alternative.
    """
    if path in _in_use:
        return _in_use[path]
    found = verdict(path)
    if not found.works:
        raise ConfigError(
            f"{wanted}: this processor advertises instructions that it does not execute, "
            f"and no smaller instruction set helps: {instead}."
        )
    missing = {name: value for name, value in found.limits.items() if os.environ.get(name) != value}
    if missing:
        before = {name: os.environ.get(name) for name in missing}
        os.environ.update(missing)
        if not _works_here(path):
            _restore_environment(before)  # the next call tries again
            raise ConfigError(
                f"{wanted}: this processor needs {settings_text(missing)}, but its libraries are "
                f"already initialised: set it before Python starts, or {instead}."
            )
        _remember(path, Verdict(True))  # under these limits
    _in_use[path] = found.limits
    return found.limits


def verdict(path: str) -> Verdict:
    """The verdict for a path on this machine; runs the trials if it is unknown."""
    key = machine_key()
    if (key, path) in _known:
        return _known[key, path]
    for record in (os.environ.get(RECORD, ""), _read_cache()):
        found = _from_record(record, key, path)
        if found is not None:
            _known[key, path] = found
            return found
    found, sure = _try(path)
    if sure:
        _remember(path, found)
    else:
        _known[key, path] = found
    return found


def _restore_environment(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def settings_text(limits: Mapping[str, str]) -> str:
    """Limits in shell syntax, as written before a command."""
    return " ".join(f"{name}={value}" for name, value in limits.items())


def version(package: str) -> str | None:
    """The version of an installed package, without importing it."""
    from importlib import metadata  # slow

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


# --- trials -------------------------------------------------------------------------------------------------------


def run_child(path: str, limits: Mapping[str, str]) -> int:
    """Exit status of a trial under limits; negative if a signal ended it."""
    if not sys.executable:
        return _UNKNOWN
    package = str(Path(__file__).resolve().parent.parent.parent)
    paths = os.pathsep.join([package, *(entry for entry in sys.path if entry)])
    environment = {**os.environ, **limits, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-P", "-m", *OWN_TRIALS.get(path, ["regard.machine.trials", path])]
    quiet = subprocess.DEVNULL
    try:
        ended = subprocess.run(
            command, env=environment, stdin=quiet, stdout=quiet, stderr=quiet, timeout=TRIAL_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return _UNKNOWN
    return ended.returncode


def died(status: int) -> bool:
    """Whether an exit status means an illegal instruction."""
    if status in (_WINDOWS_ILLEGAL, _WINDOWS_ILLEGAL - 2**32):
        return True
    number = -status if status < 0 else status - 128
    return number in {getattr(signal, name) for name in _DEADLY if hasattr(signal, name)}


def _try(path: str) -> tuple[Verdict, bool]:
    """The verdict of the trials, and whether it is conclusive."""
    status = run_child(path, {})
    if not died(status):
        return Verdict(True), status == 0
    for limits in LIMITS[path]:
        if run_child(path, limits) == 0:
            return Verdict(True, limits), True
    return Verdict(False), True


def _works_here(path: str) -> bool:
    """Whether the path works in this process, whose libraries may have selected their kernels; tested in a fork."""
    if "torch" not in sys.modules and "ctranslate2" not in sys.modules:
        return True
    if not hasattr(os, "fork"):
        return False
    return _in_fork(lambda: _trial_in_fork(path)) == 0


def _trial_in_fork(path: str) -> None:
    from regard.machine.trials import run_trial

    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)  # the parent's threads do not exist in the fork
    run_trial(path)


def _in_fork(work: Callable[[], None]) -> int:
    """The exit status of `work` in a fork of this process."""
    import faulthandler
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Python versions warn about forks with threads
        child = os.fork()
    if child == 0:
        try:
            faulthandler.disable()  # dying is a valid result of the trial
            work()
            os._exit(0)
        except BaseException:
            os._exit(_UNKNOWN)
    until = time.monotonic() + TRIAL_TIMEOUT
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return _UNKNOWN


# --- what was found before ----------------------------------------------------------------------------------------


def machine_key() -> str:
    """The scope of a verdict: machine, boot, library versions and limits in the environment."""
    limits = [os.environ.get(name) for name in VARIABLES]
    return hashlib.sha256(f"{_machine()}{limits}".encode()).hexdigest()[:32]


@cache
def _machine() -> str:
    """The part of the key that is constant in a process: reading it takes milliseconds, and each request asks."""
    versions = [version(package) for package in _PACKAGES]
    return json.dumps([_boot(), platform.node(), cpu_name(), cpu_flags(), sys.version, versions])


def cpu_name() -> str:
    """The model name of the processor."""
    return _cpuinfo("model name") or platform.processor() or platform.machine() or os.name


def cpu_generation() -> str:
    """Family and model number of an x86 processor: virtual machines hide the name, as in "AMD EPYC"."""
    family, model = _cpuinfo("cpu family"), _cpuinfo("model")
    return f"family {family}, model {model}" if family and model else ""


def cpu_flags() -> list[str]:
    """The instruction sets that the processor advertises (Linux only)."""
    return sorted((_cpuinfo("flags") or _cpuinfo("Features")).split())


def _cpuinfo(name: str) -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                key, colon, value = line.partition(":")
                if colon and key.strip() == name:
                    return value.strip()
    except OSError:
        pass
    return ""


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return platform.version()


def _remember(path: str, found: Verdict) -> None:
    """Store a verdict for this process, its children and later processes."""
    key = machine_key()
    _known[key, path] = found
    table = _tables(_read_cache())
    table.setdefault(key, {})[path] = {"works": found.works, "limits": dict(found.limits)}
    own = {**_tables(os.environ.get(RECORD, "")).get(key, {}), **table[key]}
    os.environ[RECORD] = json.dumps({key: own})
    _write_cache(json.dumps(dict(list(table.items())[-8:])))  # the last 8 machines, for a shared home folder


def _from_record(record: str, key: str, path: str) -> Verdict | None:
    entry = _tables(record).get(key, {}).get(path)
    if not isinstance(entry, dict) or not isinstance(entry.get("works"), bool):
        return None
    limits = entry.get("limits")
    if limits != {} and limits not in LIMITS[path]:  # only known limits may enter the environment
        return None
    return Verdict(entry["works"], limits)


def _tables(record: str) -> dict[str, dict[str, Any]]:
    try:
        table = json.loads(record)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(table, dict):
        return {}
    return {key: value for key, value in table.items() if isinstance(value, dict)}


def cache_folder() -> Path | None:
    """Regard's folder in the user's cache; None without a home."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home) / "regard" if os.path.isabs(home) else None


def _cache_file() -> Path | None:
    folder = cache_folder()
    return None if folder is None else folder / "processor.json"


def _read_cache() -> str:
    path = _cache_file()
    try:
        if path is None or not path.is_file() or path.stat().st_size > 2**16:
            return ""
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _write_cache(content: str) -> None:
    """Write the cache; on failure the next process runs the trials again."""
    path = _cache_file()
    if path is None:
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary.write_text(content, "utf-8")
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
