"""The products that `regard.machine.processor` tries in a child process before ONNX Runtime is used.

Run as a program. It exits with 0 if they ran, and dies with SIGILL if the processor does not execute an advertised
instruction.
"""

from __future__ import annotations

import numpy as np

from regard.decoding.engines.graphs.shortlist import project_columns
from regard.decoding.engines.onnxruntime.model import import_onnxruntime

HIDDEN, WORDS = 256, 512


def try_onnxruntime() -> None:
    """The output layer in float32 and int8, for one row and for many: their kernels differ."""
    library = import_onnxruntime()
    options = library.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    random = np.random.default_rng(1)
    rest = {"bias": np.zeros(WORDS, np.float32), "k": np.array([4])}
    weights = {
        False: {"weight": random.random((WORDS, HIDDEN), np.float32)},
        True: {
            "int8": random.integers(-127, 127, (HIDDEN, WORDS), np.int8),
            "scale": np.full(WORDS, 0.01, np.float32),
        },
    }
    for int8, inputs in weights.items():
        model = project_columns(HIDDEN, int8=int8)
        session = library.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        for rows in (1, 64):
            session.run(None, {"hidden": random.random((rows, HIDDEN), np.float32), **inputs, **rest})


if __name__ == "__main__":
    from regard.machine.trials import leave_no_core

    leave_no_core()
    try_onnxruntime()
