"""The Transformer as ONNX graphs: the encoder, and one decoder step with a growing key/value cache."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from regard.config.models import TransformerSettings
from regard.config.vocabulary import BOS, PAD
from regard.decoding.engines.graphs.attention import LOWEST
from regard.decoding.engines.graphs.builder import Graph
from regard.decoding.engines.graphs.proto import Shape
from regard.decoding.engines.graphs.sentence import Reader
from regard.decoding.engines.graphs.signature import GROWS, Signature, name_state, states

MAX_POSITIONS = 2048
POSITIONS = "positions"  # the table of position encodings among the weights


def transformer(settings: TransformerSettings, encoder: Graph, step: Graph) -> Signature:
    """Encoder with the cross keys and values of every decoder layer, and one step."""
    _encode(settings, encoder)
    _step(settings, step)
    head, layers = settings.hidden_size // settings.heads, range(settings.decoder_layers)
    memory: dict[str, tuple[str, Shape]] = {
        f"memory.keys.{layer}": ("float32", ["B", settings.heads, head, "S"]) for layer in layers
    }
    for layer in layers:
        memory[f"memory.values.{layer}"] = ("float32", ["B", settings.heads, "S", head])
    memory["memory.mask"] = ("float32", ["B", 1, 1, "S"])
    cache: list[Sequence[int | str]] = [[settings.heads, GROWS, head]] * (2 * settings.decoder_layers)
    return Signature(hidden=settings.hidden_size, memory=memory, states=cache, aligns=True, max_positions=MAX_POSITIONS)


def _encode(settings: TransformerSettings, graph: Graph) -> None:
    reader, part = Reader(graph), _Parts(settings, graph)
    forbidden = graph.op("Where", reader.mask, graph.number(0.0), graph.number(LOWEST))
    mask = graph.op("Unsqueeze", forbidden, graph.numbers(1, 2), name="memory.mask")  # (B, 1, 1, S)
    outputs = part.read("source", "source", graph.numbers(0), graph.size("source", 1))
    for number in range(settings.encoder_layers):
        layer = f"encoder.{number}"
        norm = f"{layer}.self_norm"
        query, keys, values = part.project(part.before(outputs, norm), f"{layer}.self_attention", 0, 3)
        keys = graph.op("Transpose", keys, perm=[0, 1, 3, 2])
        contexts = graph.op("MatMul", part.weights(query, keys, mask), values)
        outputs = part.after(outputs, part.join(contexts, f"{layer}.self_attention"), norm)
        outputs = part.feedforward(outputs, layer)
    encoded = part.final(outputs, "encoder")
    head = settings.hidden_size // settings.heads
    batch = graph.size("source", 0)
    shape = graph.op("Concat", batch, graph.numbers(settings.heads, 0, head), axis=0)
    empty = graph.op("ConstantOfShape", shape)
    name_state(graph, [empty] * (2 * settings.decoder_layers))
    for number in range(settings.decoder_layers):
        keys, values = part.project(encoded, f"decoder.{number}.cross_attention", 1, 3)
        graph.op("Transpose", keys, perm=[0, 1, 3, 2], name=f"memory.keys.{number}")
        graph.op("Identity", values, name=f"memory.values.{number}")


def _step(settings: TransformerSettings, graph: Graph) -> None:
    part = _Parts(settings, graph)
    ids = graph.op("Unsqueeze", "token", graph.numbers(1))
    if settings.start_token == "pad":
        ids = graph.op("Where", graph.op("Equal", ids, graph.numbers(BOS)), graph.numbers(PAD), ids)
    outputs = part.read(ids, "target", "position", graph.op("Add", "position", graph.numbers(1)))  # (N, 1, D)
    sentences = graph.size("memory.mask", 0)
    cache, grown, seen = states(graph, 2 * settings.decoder_layers), [], []
    for number in range(settings.decoder_layers):
        layer = f"decoder.{number}"
        norm = f"{layer}.self_norm"
        query, *new = part.project(part.before(outputs, norm), f"{layer}.self_attention", 0, 3)
        keys, values = (
            graph.op("Concat", old, added, axis=2)
            for old, added in zip(cache[2 * number : 2 * number + 2], new, strict=True)
        )
        grown += [keys, values]
        weights = part.weights(query, graph.op("Transpose", keys, perm=[0, 1, 3, 2]), "")
        looked = part.join(graph.op("MatMul", weights, values), f"{layer}.self_attention")
        outputs = part.after(outputs, looked, norm)

        norm = f"{layer}.cross_norm"
        (query,) = part.project(part.before(outputs, norm), f"{layer}.cross_attention", 0, 1, sentences)  # (B, H, R, K)
        weights = part.weights(query, f"memory.keys.{number}", "memory.mask")  # (B, H, R, S)
        seen.append(weights)
        contexts = graph.op("MatMul", weights, f"memory.values.{number}")
        looked = part.join(contexts, f"{layer}.cross_attention", rows=True)  # (N, 1, D)
        outputs = part.feedforward(part.after(outputs, looked, norm), layer)
    graph.op("Squeeze", part.final(outputs, "decoder"), graph.numbers(1), name="hidden")
    name_state(graph, grown, "next")
    aligned = max(0, settings.decoder_layers - 2) if settings.alignment_layer is None else settings.alignment_layer - 1
    if settings.alignment_head is None:
        alignment = graph.op("ReduceMean", seen[aligned], axes=[1], keepdims=0)  # (B, R, S)
    else:
        head = graph.literal("alignment_head", np.array(settings.alignment_head - 1, dtype=np.int64))
        alignment = graph.op("Gather", seen[aligned], head, axis=1)
    shape = graph.op("Concat", graph.numbers(-1), graph.size("memory.mask", 3), axis=0)
    graph.op("Reshape", alignment, shape, name="alignment")


class _Parts:
    """The parts of a Transformer layer."""

    def __init__(self, settings: TransformerSettings, graph: Graph) -> None:
        self.settings = settings
        self.graph = graph
        self.size = settings.hidden_size
        self.head = settings.hidden_size // settings.heads

    def read(self, ids: str, side: str, first: str, end: str) -> str:
        """√d E(word) + PE(position), (B, T, D), of ids (B, T) at positions `first` to `end`."""
        graph = self.graph
        words = graph.embed(ids, side)
        if self.settings.scale_embeddings:
            words = graph.op("Mul", words, graph.number(math.sqrt(self.size)))
        table = graph.constant(POSITIONS, graph.tensor(POSITIONS))
        return graph.op("Add", words, graph.op("Slice", table, first, end, graph.numbers(0)))

    def project(self, inputs: str, name: str, first: int, end: int, sentences: str = "") -> list[str]:
        """Parts `first` to `end` of queries, keys and values, each (B, H, T, K), of inputs (B, T, D).

        With `sentences` (1,), the rows (N, 1, D) of each sentence become its queries.
        """
        graph, count = self.graph, end - first
        rows = slice(first * self.size, end * self.size)
        bias = graph.tensor(f"{name}.bias")[rows] if graph.has(f"{name}.bias") else None
        weight = graph.tensor(f"{name}.weight")[rows]
        projected = graph.linear(inputs, weight, bias, f"{name}.{first}:{end}")
        sizes = (-1, count * self.settings.heads, self.head)
        if sentences:
            shape = graph.op("Concat", sentences, graph.numbers(*sizes), axis=0)
        else:
            shape = graph.numbers(0, *sizes)
        heads = graph.op("Transpose", graph.op("Reshape", projected, shape), perm=[0, 2, 1, 3])
        return [heads] if count == 1 else list(graph.split(heads, *[self.settings.heads] * count, axis=1))

    def weights(self, query: str, keys: str, mask: str) -> str:
        """softmax(q kᵀ / √K), (B, H, T, S), of keys (B, H, K, S)."""
        graph = self.graph
        scores = graph.op("MatMul", graph.op("Mul", query, graph.number(1 / math.sqrt(self.head))), keys)
        return graph.op("Softmax", graph.op("Add", scores, mask) if mask else scores, axis=-1)

    def join(self, contexts: str, name: str, rows: bool = False) -> str:
        """[head₁; …; head_H] W^O, (B, T, D), or (N, 1, D) of the rows of each sentence."""
        graph = self.graph
        joined = graph.op("Transpose", contexts, perm=[0, 2, 1, 3])
        shape = graph.numbers(-1, 1, self.size) if rows else graph.numbers(0, -1, self.size)
        return graph.apply(graph.op("Reshape", joined, shape), f"{name}.output")

    def before(self, inputs: str, norm: str) -> str:
        """Input of a sub-layer: normalised if pre-norm."""
        return self.graph.norm(inputs, norm) if self.settings.norm == "pre" else inputs

    def after(self, inputs: str, outputs: str, norm: str) -> str:
        """Residual connection, normalised if post-norm."""
        total = self.graph.op("Add", inputs, outputs)
        return total if self.settings.norm == "pre" else self.graph.norm(total, norm)

    def feedforward(self, inputs: str, layer: str) -> str:
        """W₂ activation(W₁ x + b₁) + b₂, with its residual connection."""
        norm = f"{layer}.feedforward_norm"
        inner = self.graph.apply(self.before(inputs, norm), f"{layer}.feedforward.inner")
        return self.after(inputs, self.graph.apply(self.activate(inner), f"{layer}.feedforward.outer"), norm)

    def activate(self, inputs: str) -> str:
        """The activation of the recipe."""
        graph = self.graph
        if self.settings.activation == "relu":
            return graph.op("Relu", inputs)
        if self.settings.activation == "silu":
            return graph.op("Mul", inputs, graph.op("Sigmoid", inputs))
        share = graph.op(
            "Add", graph.op("Erf", graph.op("Mul", inputs, graph.number(math.sqrt(0.5)))), graph.number(1.0)
        )
        return graph.op("Mul", graph.op("Mul", inputs, share), graph.number(0.5))

    def final(self, outputs: str, side: str) -> str:
        """The final norm, if pre-norm."""
        return self.graph.norm(outputs, f"{side}_norm") if self.settings.norm == "pre" else outputs
