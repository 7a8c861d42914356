"""The machine in one table, for `regard info --machine` and bug reports."""

from __future__ import annotations

import os
import platform
import sys
import time
from typing import Any

from regard import __version__
from regard.machine import processor

# flags that determine the kernel selection of the libraries
_TELLING = ("sse4", "avx", "fma", "f16c", "amx", "asimd", "sve", "sme", "bf16", "i8mm")
_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "ATEN_CPU_CAPABILITY", *processor.VARIABLES)
_PACKAGES = ("torch", "ctranslate2", "onnxruntime", "tokenizers", "safetensors", "numpy")
_SIZE = 1024


def describe_machine(seconds: float = 0.3) -> dict[str, Any]:
    """Processor, advertised and tested instruction sets, threads, GEMM rate and versions, ready for JSON.

    The rate is that of a float32 product of 1024 × 1024 matrices, measured for `seconds` each with one thread and with
    all of torch's threads.
    """
    missing = [path for path in ("ctranslate2", "onnxruntime") if not processor.version(path)]
    tried = {path: "not installed" if path in missing else str(processor.verdict(path)) for path in processor.LIMITS}
    import torch

    threads = torch.get_num_threads()
    gemm = {f"{count} thread{'s' if count > 1 else ''}": _gemm(count, seconds) for count in sorted({1, threads})}
    torch.set_num_threads(threads)
    return {
        "regard": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "processor": processor.cpu_name(),
        "generation": processor.cpu_generation(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count(),
        "threads": threads,
        "advertised": [flag for flag in processor.cpu_flags() if flag.startswith(_TELLING)],
        "torch_uses": torch.backends.cpu.get_cpu_capability(),
        "tried": tried,
        "gemm_gflops": gemm,
        "versions": {name: processor.version(name) for name in _PACKAGES},
        "environment": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
    }


def machine_text(about: dict[str, Any]) -> str:
    """The table as lines."""
    versions = {name: version or "not installed" for name, version in about["versions"].items()}
    threads = f"{about['threads']} thread{'' if about['threads'] == 1 else 's'}"
    rows = {
        "regard": f"{about['regard']}, Python {about['python']}, {about['system']}",
        "processor": about["processor"] + (f" ({about['generation']})" if about["generation"] else ""),
        "cores": f"{about['cores']}, of which {about['usable_cores']} may be used; {threads}",
        "advertised": " ".join(about["advertised"]) or "unknown on this system",
        "torch uses": about["torch_uses"],
        **about["tried"],
        "float32 GEMM": ", ".join(f"{rate:.0f} GFLOP/s with {count}" for count, rate in about["gemm_gflops"].items()),
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "environment": processor.settings_text(about["environment"]) or "no relevant variable is set",
    }
    width = max(len(name) for name in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows.items())


def _gemm(threads: int, seconds: float) -> float:
    """GFLOP/s of the fastest product; other programs can only slow it down."""
    import torch

    torch.set_num_threads(threads)
    left, right, out = torch.rand(_SIZE, _SIZE), torch.rand(_SIZE, _SIZE), torch.empty(_SIZE, _SIZE)
    best, until = float("inf"), time.perf_counter() + seconds
    while best == float("inf") or time.perf_counter() < until:
        started = time.perf_counter()
        torch.mm(left, right, out=out)
        best = min(best, time.perf_counter() - started)
    return round(2 * _SIZE**3 / best / 1e9, 1)
