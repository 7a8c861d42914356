"""Compiles a model to the ONNX graphs of its architecture; nothing here runs them.

The graphs depend only on the model's settings and the shapes of its weights; the weights are in `weights.bin`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from regard import __version__
from regard.config.models import ModelConfig, TransformerSettings
from regard.config.vocabulary import BOS, EOS, PAD, UNK
from regard.decoding.engines.graphs import proto
from regard.decoding.engines.graphs.builder import WEIGHTS_FILE, Array, Graph, Inputs, Weights
from regard.decoding.engines.graphs.recurrent import bahdanau, gnmt, luong, seq2seq
from regard.decoding.engines.graphs.signature import Signature
from regard.decoding.engines.graphs.transformer import MAX_POSITIONS, POSITIONS, transformer

MANIFEST = "graphs.json"
GRAPHS = ("encode", "step", "project")
GRAPH_FILES = (*(f"{name}.onnx" for name in GRAPHS), MANIFEST)
GRAPH_BYTES = 4 << 20  # maximum size of one of these files

ARCHITECTURES: dict[str, Callable[[Any, Graph, Graph], Signature]] = {
    "seq2seq": seq2seq,
    "bahdanau": bahdanau,
    "luong": luong,
    "gnmt": gnmt,
    "transformer": transformer,
}

SOURCE, TARGET, OUTPUT = "embeddings.source.weight", "embeddings.target.weight", "embeddings.output_weight"


def compile_model(settings: ModelConfig, tensors: Mapping[str, Array], *, int8: bool) -> dict[str, bytes]:
    """The files of a compiled model: graphs, weights and manifest."""
    found = {name: np.asarray(tensor, dtype=np.float32, order="C") for name, tensor in tensors.items()}
    weights = Weights(_tied(settings, found), int8)
    return {**_files(settings, weights), WEIGHTS_FILE: weights.content()}


def is_compiled(
    files: Mapping[str, bytes], size: int, settings: ModelConfig, shapes: Mapping[str, Sequence[int]], *, int8: bool
) -> bool:
    """Whether these graphs and this manifest, with `size` bytes of weights, are those of such a model."""
    empty = {name: np.broadcast_to(np.float32(0), shape) for name, shape in shapes.items()}
    try:
        weights = Weights(_tied(settings, empty), int8, empty=True)
        return dict(files) == _files(settings, weights) and size == weights.size
    except (KeyError, ValueError, IndexError):  # weights of another model
        return False


def _tied(settings: ModelConfig, tensors: dict[str, Array]) -> dict[str, Array]:
    """The weights, with one array for tied ones, which a file has only under the first name."""
    found = dict(tensors)
    tied = {"none": (), "target": (OUTPUT, TARGET), "all": (OUTPUT, TARGET, SOURCE)}[settings.tie_embeddings]
    for name in tied:
        found[name] = found[OUTPUT]
    if isinstance(settings, TransformerSettings):
        found[POSITIONS] = position_table(settings)
    return found


def position_table(settings: TransformerSettings) -> Array:
    """The position encodings of `nn/positions.py`."""
    size = settings.hidden_size
    exponents = np.arange(0, size, 2, dtype=np.float64) / size
    angles = np.outer(np.arange(MAX_POSITIONS, dtype=np.float64), 10000.0**-exponents)
    pairs = np.stack([np.sin(angles), np.cos(angles)], 2 if settings.positions == "interleaved" else 1)
    return pairs.reshape(MAX_POSITIONS, size).astype(np.float32)


def _files(settings: ModelConfig, weights: Weights) -> dict[str, bytes]:
    """Graphs and manifest."""
    encoder, step, project = Graph(weights), Graph(weights), Graph(weights)
    signature = ARCHITECTURES[settings.kind](settings, encoder, step)
    output = _project(project)
    vocabulary = len(weights.tensors[OUTPUT])
    asked: Inputs = {"hidden": ("float32", ["N", signature.hidden]), "k": ("int64", [1])}
    found: Inputs = {
        "logits": ("float32", ["N", vocabulary]),
        "best": ("float32", ["N", "K"]),
        "token": ("int64", ["N", "K"]),
    }
    parts = {
        "encode": encoder.serialise("encode", signature.encode_inputs(), signature.encode_outputs()),
        "step": step.serialise("step", signature.step_inputs(), signature.step_outputs()),
        "project": project.serialise("project", asked, found),
    }
    about = {"architecture": settings.kind, "weights": "int8" if weights.int8 else "float32"}
    places = {name: weights.places[name] for name in output}
    manifest = {
        "regard": __version__,
        **about,
        "source_vocabulary": len(weights.tensors[SOURCE]),
        "target_vocabulary": vocabulary,
        "pad": PAD,
        "unk": UNK,
        "bos": BOS,
        "eos": EOS,
        **signature.manifest(),
        "output": {
            name: {"offset": place.offset, "type": place.array.dtype.name, "shape": list(place.array.shape)}
            for name, place in places.items()
        },
    }
    files = {f"{name}.onnx": proto.model(graph, f"regard {__version__}", about) for name, graph in parts.items()}
    return {**files, MANIFEST: json.dumps(manifest, indent=2).encode()}


def _project(graph: Graph) -> list[str]:
    """The output layer and its k best tokens; returns the names of its weights in the file."""
    weight, bias_name = graph.tensor(OUTPUT), "embeddings.output_bias"
    bias = graph.tensor(bias_name) if graph.has(bias_name) else np.zeros(len(weight), dtype=np.float32)
    if graph.weights.int8:
        rounded, scale = graph.weights.quantise(weight)
        arrays = {"output.int8": rounded, "output.scale": scale, "output.bias": bias}
        table, scales, offsets = (graph.constant(name, value) for name, value in arrays.items())
        domain = "com.microsoft"
        graph.op("DynamicQuantizeMatMul", "hidden", table, scales, "", offsets, domain=domain, name="logits")
    else:
        arrays = {"output.weight": weight, "output.bias": bias}
        graph.op("Gemm", "hidden", *(graph.constant(*pair) for pair in arrays.items()), transB=1, name="logits")
    graph.ops("TopK", graph.op("LogSoftmax", "logits", axis=-1), "k", names=["best", "token"], axis=-1)
    return list(arrays)
