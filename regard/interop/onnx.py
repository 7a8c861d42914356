"""Exports a Transformer as two ONNX graphs: the encoder, and one step of the decoder.

    encoder.onnx    source (B, S) int64, source_mask (B, S) bool        -> memory (2·layers, B, H, S, K)
    decoder.onnx    token (B,) int64, memory, source_mask, past (2·layers, B, H, T, K)
                                -> logits (B, V), present (2·layers, B, H, T+1, K), attention (B, layers, H, S)

`memory` and `past` hold the keys and values of each decoder layer, keys first; `past` starts with T = 0, and `present`
is the `past` of the next step. For beam search, repeat the rows of `memory` and select rows of `present`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard import __version__
from regard.config.vocabulary import BOS, PAD
from regard.errors import ConfigError, ModelFolderError
from regard.interop.outgoing import Outgoing, read_transformer
from regard.nn.positions import position_table
from regard.storage.files import new_folder, write_bytes
from regard.storage.folder import CARD

MAX_POSITIONS = 2048
OPSET = 17
MAX_BYTES = 2**31


def export_onnx(path: Path, out: Path) -> None:
    """Write a folder with both graphs and the tokenizer."""
    try:
        import onnx
    except ImportError:
        raise ConfigError("onnx is not installed: pip install 'regard[interop]'.") from None
    model = read_transformer(path, "onnx")
    if sum(tensor.numel() * 4 for tensor in model.tensors.values()) >= MAX_BYTES:
        raise ModelFolderError(f"{path}: the weights exceed the 2 GB limit of an ONNX file: use ctranslate2.")
    with new_folder(out) as folder:
        for name, graph in (("encoder", _encoder(model, onnx)), ("decoder", _decoder(model, onnx))):
            onnx.checker.check_model(graph)
            write_bytes(folder / f"{name}.onnx", graph.SerializeToString())
        for name, content in model.tokenizer_files().items():
            write_bytes(folder / name, content.encode())
        write_bytes(folder / CARD, _card(path, model).encode())


class Graph:
    """Builder of an ONNX graph, in order of computation; values are names."""

    def __init__(self, model: Outgoing, onnx: Any) -> None:
        self.onnx = onnx
        self.settings = model.settings
        self.tensors = model.tensors
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def op(self, kind: str, *inputs: str, name: str | None = None, **attributes: int | float | list[int]) -> str:
        """Add an operation; returns its output."""
        result = name or f"{kind}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [result], **attributes))
        return result

    def constant(self, name: str, value: Any) -> str:
        """Add a constant."""
        if name not in self.constants:
            self.constants[name] = self.onnx.numpy_helper.from_array(np.array(value, order="C"), name)
        return name

    def numbers(self, *values: int) -> str:
        """Integers, for shapes and indices."""
        return self.constant("numbers_" + "_".join(map(str, values)), np.array(values, dtype=np.int64))

    def tensor(self, name: str, rows: slice = slice(None), *, transposed: bool = False) -> str:
        """A weight of the model, or some of its rows."""
        value = self.tensors[name][rows].float().numpy()
        part = "" if rows == slice(None) else f"[{rows.start or 0}:{rows.stop or ''}]"
        return self.constant(name + part, value.T if transposed else value)

    def finish(self, name: str, inputs: dict[str, tuple[int, list[Any]]], outputs: dict[str, list[Any]]) -> Any:
        """The ONNX model with these inputs (type and shape) and float outputs (shape)."""
        helper, proto = self.onnx.helper, self.onnx.TensorProto
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info(key, kind, shape) for key, (kind, shape) in inputs.items()],
            [helper.make_tensor_value_info(key, proto.FLOAT, shape) for key, shape in outputs.items()],
            list(self.constants.values()),
        )
        opset = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, producer_name=f"regard {__version__}", opset_imports=opset, ir_version=8)

    # --- the parts of a Transformer -------------------------------------------------------------------------------

    def linear(self, inputs: str, name: str, rows: slice = slice(None)) -> str:
        """W x + b."""
        product = self.op("MatMul", inputs, self.tensor(f"{name}.weight", rows, transposed=True))
        return self.op("Add", product, self.tensor(f"{name}.bias", rows)) if f"{name}.bias" in self.tensors else product

    def norm(self, inputs: str, name: str) -> str:
        """Layer normalisation."""
        weight, bias = self.tensor(f"{name}.weight"), self.tensor(f"{name}.bias")
        return self.op("LayerNormalization", inputs, weight, bias, epsilon=1e-5, axis=-1)

    def read(self, ids: str, side: str, first: str, end: str) -> str:
        """√d E(word) + PE(position), (B, T, D), of ids (B, T) at positions `first` to `end`."""
        settings = self.settings
        words = self.op("Gather", self.tensor(f"embeddings.{side}.weight"), ids)
        if settings.scale_embeddings:
            scale = np.array(math.sqrt(settings.hidden_size), dtype=np.float32)
            words = self.op("Mul", words, self.constant("scale", scale))
        cpu = torch.device("cpu")
        table = position_table(MAX_POSITIONS, settings.hidden_size, settings.positions, torch.float32, cpu)
        places = self.op("Slice", self.constant("positions", table.numpy()), first, end, self.numbers(0))
        return self.op("Add", words, places)

    def heads(self, projected: str) -> str:
        """(B, H, T, K) of (B, T, D)."""
        size = self.settings.hidden_size // self.settings.heads
        split = self.op("Reshape", projected, self.numbers(0, -1, self.settings.heads, size))
        return self.op("Transpose", split, perm=[0, 2, 1, 3])

    def weights(self, query: str, keys: str, allowed: str | None) -> str:
        """softmax(q kᵀ / √K), (B, H, T, S), with the mask `allowed` (B, 1, 1, S)."""
        scale = np.array(1 / math.sqrt(self.settings.hidden_size // self.settings.heads), dtype=np.float32)
        scores = self.op("MatMul", query, self.op("Transpose", keys, perm=[0, 1, 3, 2]))
        scores = self.op("Mul", scores, self.constant("head_scale", scale))
        if allowed is not None:
            never = self.constant("never", np.array(-np.inf, dtype=np.float32))
            scores = self.op("Where", allowed, scores, never)
        return self.op("Softmax", scores, axis=-1)

    def aggregate(self, weights: str, values: str, name: str) -> str:
        """[head₁; …; head_H] W^O, (B, T, D)."""
        joined = self.op("Transpose", self.op("MatMul", weights, values), perm=[0, 2, 1, 3])
        joined = self.op("Reshape", joined, self.numbers(0, -1, self.settings.hidden_size))
        return self.linear(joined, f"{name}.output")

    def before(self, inputs: str, norm: str) -> str:
        """Input of a sub-layer: normalised if pre-norm."""
        return self.norm(inputs, norm) if self.settings.norm == "pre" else inputs

    def after(self, inputs: str, outputs: str, norm: str) -> str:
        """Residual connection, normalised if post-norm."""
        total = self.op("Add", inputs, outputs)
        return total if self.settings.norm == "pre" else self.norm(total, norm)

    def feedforward(self, inputs: str, layer: str) -> str:
        """W₂ activation(W₁ x + b₁) + b₂, with its residual connection."""
        norm = f"{layer}.feedforward_norm"
        inner = self.linear(self.before(inputs, norm), f"{layer}.feedforward.inner")
        return self.after(inputs, self.linear(self.activate(inner), f"{layer}.feedforward.outer"), norm)

    def activate(self, inputs: str) -> str:
        """The activation of the recipe."""
        if self.settings.activation == "relu":
            return self.op("Relu", inputs)
        if self.settings.activation == "silu":
            return self.op("Mul", inputs, self.op("Sigmoid", inputs))
        half, one = (self.constant(f"number_{value}", np.array(value, dtype=np.float32)) for value in (0.5, 1.0))
        root = self.constant("root_half", np.array(math.sqrt(0.5), dtype=np.float32))
        share = self.op("Add", self.op("Erf", self.op("Mul", inputs, root)), one)
        return self.op("Mul", self.op("Mul", inputs, share), half)

    def final(self, outputs: str, side: str) -> str:
        """The final norm, if pre-norm."""
        return self.norm(outputs, f"{side}_norm") if self.settings.norm == "pre" else outputs


def _encoder(model: Outgoing, onnx: Any) -> Any:
    graph, settings, size = Graph(model, onnx), model.settings, model.settings.hidden_size
    allowed = graph.op("Unsqueeze", "source_mask", graph.numbers(1, 2))
    length = graph.op("Slice", graph.op("Shape", "source"), graph.numbers(1), graph.numbers(2), graph.numbers(0))
    outputs = graph.read("source", "source", graph.numbers(0), length)
    for number in range(settings.encoder_layers):
        layer = f"encoder.{number}"
        name, norm = f"{layer}.self_attention", f"{layer}.self_norm"
        inputs = graph.before(outputs, norm)
        rows = [slice(part * size, (part + 1) * size) for part in range(3)]
        query, keys, values = (graph.heads(graph.linear(inputs, name, part)) for part in rows)
        looked = graph.aggregate(graph.weights(query, keys, allowed), values, name)
        outputs = graph.feedforward(graph.after(outputs, looked, norm), layer)
    encoded = graph.final(outputs, "encoder")
    prepared = []
    for number in range(settings.decoder_layers):
        for part in (1, 2):
            rows_of = slice(part * size, (part + 1) * size)
            heads = graph.heads(graph.linear(encoded, f"decoder.{number}.cross_attention", rows_of))
            prepared.append(graph.op("Unsqueeze", heads, graph.numbers(0)))
    graph.op("Concat", *prepared, name="memory", axis=0)
    proto = onnx.TensorProto
    inputs_ = {"source": (proto.INT64, ["B", "S"]), "source_mask": (proto.BOOL, ["B", "S"])}
    return graph.finish("encoder", inputs_, {"memory": _cache_shape(model, "S")})


def _decoder(model: Outgoing, onnx: Any) -> Any:
    graph, settings, size = Graph(model, onnx), model.settings, model.settings.hidden_size
    allowed = graph.op("Unsqueeze", "source_mask", graph.numbers(1, 2))
    ids = graph.op("Unsqueeze", "token", graph.numbers(1))
    if settings.start_token == "pad":
        ids = graph.op("Where", graph.op("Equal", ids, graph.numbers(BOS)), graph.numbers(PAD), ids)
    first = graph.op("Slice", graph.op("Shape", "past"), graph.numbers(3), graph.numbers(4), graph.numbers(0))
    outputs = graph.read(ids, "target", first, graph.op("Add", first, graph.numbers(1)))
    present, seen = [], []
    for number in range(settings.decoder_layers):
        layer = f"decoder.{number}"
        name, norm = f"{layer}.self_attention", f"{layer}.self_norm"
        inputs = graph.before(outputs, norm)
        query = graph.heads(graph.linear(inputs, name, slice(0, size)))
        grown = []
        for part in (1, 2):
            new = graph.heads(graph.linear(inputs, name, slice(part * size, (part + 1) * size)))
            grown.append(graph.op("Concat", _pick(graph, "past", 2 * number + part - 1), new, axis=2))
            present.append(graph.op("Unsqueeze", grown[-1], graph.numbers(0)))
        looked = graph.aggregate(graph.weights(query, grown[0], None), grown[1], name)
        outputs = graph.after(outputs, looked, norm)
        name, norm = f"{layer}.cross_attention", f"{layer}.cross_norm"
        query = graph.heads(graph.linear(graph.before(outputs, norm), name, slice(0, size)))
        keys, values = (_pick(graph, "memory", 2 * number + part) for part in range(2))
        weights = graph.weights(query, keys, allowed)  # (B, H, 1, S)
        seen.append(graph.op("Transpose", weights, perm=[0, 2, 1, 3]))
        outputs = graph.after(outputs, graph.aggregate(weights, values, name), norm)
        outputs = graph.feedforward(outputs, layer)
    hidden = graph.op("Squeeze", graph.final(outputs, "decoder"), graph.numbers(1))
    logits = graph.op("MatMul", hidden, graph.tensor("embeddings.output_weight", transposed=True))
    bias = model.tensors.get("embeddings.output_bias")
    zeros = np.zeros(model.folder.target_tokenizer.size, dtype=np.float32)
    graph.op("Add", logits, graph.constant("output_bias", zeros if bias is None else bias.numpy()), name="logits")
    graph.op("Concat", *present, name="present", axis=0)
    graph.op("Concat", *seen, name="attention", axis=1)
    proto, cache = onnx.TensorProto, _cache_shape(model, "T")
    inputs_ = {
        "token": (proto.INT64, ["B"]),
        "memory": (proto.FLOAT, _cache_shape(model, "S")),
        "source_mask": (proto.BOOL, ["B", "S"]),
        "past": (proto.FLOAT, cache),
    }
    outputs_ = {
        "logits": ["B", model.folder.target_tokenizer.size],
        "present": [*cache[:3], "T+1", cache[4]],
        "attention": ["B", settings.decoder_layers, settings.heads, "S"],
    }
    return graph.finish("decoder", inputs_, outputs_)


def _pick(graph: Graph, name: str, place: int) -> str:
    """One slice of the keys and values stacked in `memory` or `past`."""
    where = graph.constant(f"place_{place}", np.array(place, dtype=np.int64))
    return graph.op("Gather", name, where, axis=0)


def _cache_shape(model: Outgoing, length: str) -> list[Any]:
    settings = model.settings
    return [2 * settings.decoder_layers, "B", settings.heads, length, settings.hidden_size // settings.heads]


def _card(path: Path, model: Outgoing) -> str:
    shape = ", ".join(str(part).replace("B", "1").replace("T", "0") for part in _cache_shape(model, "T"))
    files = list(model.tokenizer_files())
    return f"""# {path.resolve().name}

A Transformer trained with Regard, exported as ONNX graphs by Regard {__version__}: run `encoder.onnx` once per
sentence and `decoder.onnx` once per token. The ids 0 to 3 are `<pad> <unk> <s> </s>`. A sentence ends with 3 and has at
most {MAX_POSITIONS} tokens. Decoding starts with 2; 0 and 2 are never produced.

```python
import numpy as np
import onnxruntime
from regard.data.text.tokenizer import Tokenizer

encoder, decoder = (onnxruntime.InferenceSession(f"{{name}}.onnx") for name in ("encoder", "decoder"))
source, target = Tokenizer.load("{files[0]}"), Tokenizer.load("{files[-1]}")
ids = np.array([source.encode("…")])
mask = np.ones_like(ids, dtype=bool)
(memory,) = encoder.run(None, {{"source": ids, "source_mask": mask}})
past, words = np.zeros(({shape}), np.float32), [2]
while words[-1] != 3 and len(words) < 100:
    feed = {{"token": np.array(words[-1:]), "memory": memory, "source_mask": mask, "past": past}}
    logits, past, attention = decoder.run(None, feed)
    logits[:, [0, 2]] = -np.inf
    words.append(int(logits.argmax()))
print(target.decode(words))
```
"""
