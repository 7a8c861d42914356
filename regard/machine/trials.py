"""The operations that `regard.machine.processor` runs in a child process: small ones, with the same libraries.

Run as a program with the name of a path. It exits with 0 if the operations ran, and dies with SIGILL if the processor
does not execute an advertised instruction.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import Any


def try_bfloat16() -> None:
    """Matrix products, attention, a convolution and an LSTM in bfloat16, forward and backward."""
    import torch
    from torch import nn
    from torch.nn import functional

    inputs = torch.rand(64, 64, 64, requires_grad=True)
    lstm, image = nn.LSTM(64, 64, batch_first=True), nn.Conv2d(16, 16, 3)
    with torch.autocast("cpu", torch.bfloat16):
        hidden = nn.Linear(64, 256)(inputs)  # (64, 64, 256)
        heads = hidden.view(64, 64, 4, 64).transpose(1, 2)
        attended = functional.scaled_dot_product_attention(heads, heads, heads)
        loss = attended.sum() + lstm(inputs)[0].sum() + image(inputs[:4].view(4, 16, 16, 16)).sum()
    loss.backward()


def try_int8() -> None:
    """An int8 matrix product as in `regard.nn.linear`."""
    import torch

    if torch.backends.quantized.engine in ("none", "qnnpack"):
        return
    weight = torch.rand(256, 256)
    rounded = torch.quantize_per_channel(weight, torch.full((256,), 0.01), torch.zeros(256), 0, torch.qint8)
    packed = torch.ops.quantized.linear_prepack(rounded, None)
    for rows in (1, 64):
        torch.ops.quantized.linear_dynamic(torch.rand(rows, 256), packed, True)


def try_ctranslate2() -> None:
    """A translation with a one-layer Transformer, in float32 and int8."""
    if "torch" not in sys.modules:
        sys.modules["torch"] = None  # type: ignore[assignment]  # ctranslate2.specs imports it where it can: seconds
    import ctranslate2

    with tempfile.TemporaryDirectory(prefix="regard-") as folder:
        _random_transformer(ctranslate2.specs).save(folder)
        for compute_type in ("float32", "int8"):
            translator = ctranslate2.Translator(folder, compute_type=compute_type, intra_threads=1)
            translator.translate_batch([["a", "b", "</s>"] * 8] * 16, beam_size=2, max_decoding_length=4)


def _random_transformer(specs: Any) -> Any:
    import numpy as np

    size, words = 64, ["<pad>", "<unk>", "<s>", "</s>", "a", "b", "c", "d"]
    spec = specs.TransformerSpec.from_config((1, 1), num_heads=1)
    random = np.random.default_rng(1)

    def linear(layer: Any, rows: int, bias: bool = True) -> None:
        layer.weight = random.random((rows, size), dtype=np.float32) / size
        if bias:
            layer.bias = np.zeros(rows, dtype=np.float32)

    def norm(layer: Any) -> None:
        layer.gamma, layer.beta = np.ones(size, dtype=np.float32), np.zeros(size, dtype=np.float32)

    linear(spec.encoder.embeddings[0], len(words), bias=False)
    linear(spec.decoder.embeddings, len(words), bias=False)
    linear(spec.decoder.projection, len(words))
    for side in (spec.encoder, spec.decoder):
        side.position_encodings.encodings = random.random((64, size), dtype=np.float32)
        layer = side.layer[0]
        linear(layer.self_attention.linear[0], 3 * size)
        linear(layer.self_attention.linear[1], size)
        attentions = [layer.self_attention]
        if side is spec.decoder:
            attentions.append(layer.attention)
            for part, rows in zip(layer.attention.linear, (size, 2 * size, size), strict=True):
                linear(part, rows)
        linear(layer.ffn.linear_0, size)
        linear(layer.ffn.linear_1, size)
        for each in (*attentions, layer.ffn):
            norm(each.layer_norm)
    norm(spec.encoder.layer_norm)
    norm(spec.decoder.layer_norm)
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.validate()
    return spec


TRIALS: dict[str, Callable[[], None]] = {
    "bfloat16": try_bfloat16,
    "int8": try_int8,
    "ctranslate2": try_ctranslate2,
}


def run_trial(path: str) -> None:
    """Run the trial of a path in its own process: one thread, no core file."""
    leave_no_core()
    warnings.simplefilter("ignore")
    TRIALS[path]()


def leave_no_core() -> None:
    """Write no core file if this process dies."""
    if os.name == "posix":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


if __name__ == "__main__":
    run_trial(sys.argv[1])
