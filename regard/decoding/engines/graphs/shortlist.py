"""The output layer over a shortlist, whose weights are inputs of the graph."""

from __future__ import annotations

from functools import cache

from regard import __version__
from regard.decoding.engines.graphs import proto
from regard.decoding.engines.graphs.builder import Graph, Inputs, Weights


@cache
def project_columns(hidden: int, *, int8: bool) -> bytes:
    """An ONNX model: hidden (N, D), the weights of C tokens, k -> the k best of them, as in `project`."""
    graph = Graph(Weights({}, int8))
    inputs: dict[str, tuple[str, proto.Shape]] = {"hidden": ("float32", ["N", hidden]), "bias": ("float32", ["C"])}
    if int8:
        inputs |= {"int8": ("int8", [hidden, "C"]), "scale": ("float32", ["C"])}
        logits = graph.op("DynamicQuantizeMatMul", "hidden", "int8", "scale", "", "bias", domain="com.microsoft")
    else:
        inputs |= {"weight": ("float32", ["C", hidden])}
        logits = graph.op("Gemm", "hidden", "weight", "bias", transB=1)
    graph.ops("TopK", graph.op("LogSoftmax", logits, axis=-1), "k", names=["best", "token"], axis=-1)
    inputs |= {"k": ("int64", [1])}
    outputs: Inputs = {"best": ("float32", ["N", "K"]), "token": ("int64", ["N", "K"])}
    return proto.model(graph.serialise("columns", inputs, outputs), f"regard {__version__}", {})
