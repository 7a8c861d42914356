"""Builds ONNX graphs in order of computation; values are names.

The weights of all graphs of a model lie in one file, `weights.bin`, each once. With `int8`, large matrices are
quantised: one scale per output, and dynamic quantisation of the inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.decoding.engines.graphs import proto

WEIGHTS_FILE = "weights.bin"
ALIGNMENT = 64  # bytes

INT8_ELEMENTS = 2**14  # minimum elements of a weight for which int8 pays
INT8_STEPS = 63
"""Weights have seven bits: without VNNI, sums of two 8-bit products would overflow their 16-bit accumulator."""

Array = NDArray[Any]
Inputs = Mapping[str, tuple[str, proto.Shape]]
"""Element type and shape by name."""


@dataclass(frozen=True)
class Place:
    """An array in `weights.bin`."""

    offset: int
    array: Array


class Weights:
    """The arrays of all graphs of a model, by name."""

    def __init__(self, tensors: Mapping[str, Array], int8: bool, empty: bool = False) -> None:
        self.tensors = tensors
        self.int8 = int8
        self.empty = empty  # whether only shapes count
        self.places: dict[str, Place] = {}
        self._tied: dict[int, Place | None] = {id(tensor): None for tensor in tensors.values()}  # stored once
        self._end = 0

    def place(self, name: str, value: Array) -> Place:
        """The place of an array; added at the end if it is new."""
        if name not in self.places:
            found = self._tied.get(id(value))
            if found is None:
                start = -(-self._end // ALIGNMENT) * ALIGNMENT
                found = Place(start, value if self.empty else np.asarray(value, order="C"))
                self._end = start + value.nbytes
                if id(value) in self._tied:
                    self._tied[id(value)] = found
            self.places[name] = found
        return self.places[name]

    @property
    def size(self) -> int:
        """The size of `weights.bin` in bytes."""
        return self._end

    def quantise(self, weight: Array) -> tuple[Array, Array]:
        """Rounded weights (in, out) and the scale of each output, of weights (out, in)."""
        if self.empty:
            return np.empty(weight.shape[::-1], dtype=np.int8), np.empty(len(weight), dtype=np.float32)
        scale = np.maximum(np.abs(weight).max(1) / INT8_STEPS, 1e-12).astype(np.float32)
        return np.ascontiguousarray(np.round(weight / scale[:, None]).astype(np.int8).T), scale

    def content(self) -> bytes:
        """The content of `weights.bin`."""
        whole = bytearray(self._end)
        for place in self.places.values():
            whole[place.offset : place.offset + place.array.nbytes] = place.array.tobytes()
        return bytes(whole)


@dataclass
class Graph:
    """A graph under construction."""

    weights: Weights
    prefix: str = ""  # of value names, for the body of a loop
    outer: Graph | None = None  # the graph around the body of a loop
    nodes: list[bytes] = field(default_factory=list)
    constants: dict[str, bytes] = field(default_factory=dict)

    def op(self, kind: str, *inputs: str, name: str = "", domain: str = "", **attributes: proto.Attribute) -> str:
        """Add an operation with one output; returns its name."""
        return self.ops(kind, *inputs, names=[name or self._name(kind)], domain=domain, **attributes)[0]

    def ops(
        self, kind: str, *inputs: str, names: Sequence[str], domain: str = "", **attributes: proto.Attribute
    ) -> Sequence[str]:
        """Add an operation with several outputs; returns their names."""
        self.nodes.append(proto.node(kind, inputs, names, domain, attributes))
        return names

    def _name(self, kind: str) -> str:
        return f"{self.prefix}{kind}_{len(self.nodes)}"

    # --- constants ----------------------------------------------------------------------------------------------------

    def constant(self, name: str, value: Array) -> str:
        """A weight, in `weights.bin`. A loop's body reads those of the graph around it."""
        if self.outer is not None:
            return self.outer.constant(name, value)
        if name not in self.constants:
            offset = self.weights.place(name, value).offset
            self.constants[name] = proto.external_tensor(name, value, WEIGHTS_FILE, offset)
        return name

    def literal(self, name: str, value: Array) -> str:
        """A number of the architecture, in the graph itself."""
        if self.outer is not None:
            return self.outer.literal(name, value)
        self.constants[name] = proto.tensor(name, value)
        return name

    def numbers(self, *values: int) -> str:
        """Integers, for shapes and indices."""
        return self.literal("numbers_" + "_".join(map(str, values)), np.array(values, dtype=np.int64))

    def number(self, value: float) -> str:
        """A float."""
        return self.literal(f"number_{value!r}", np.array(value, dtype=np.float32))

    def tensor(self, name: str) -> Array:
        """A weight of the model."""
        return self.weights.tensors[name]

    def has(self, name: str) -> bool:
        """Whether the model has this weight."""
        return name in self.weights.tensors

    # --- arithmetic ---------------------------------------------------------------------------------------------------

    def linear(self, inputs: str, weight: Array, bias: Array | None, name: str) -> str:
        """x Wᵀ + b of inputs (..., columns of the weight); `name` is that of the weight in the file."""
        if self.weights.int8 and weight.size >= INT8_ELEMENTS:
            rounded, scale = self.weights.quantise(weight)
            quantised = [
                self.constant(f"{name}.int8", rounded),
                self.constant(f"{name}.scale", scale),
                "",
                *([] if bias is None else [self.constant(f"{name}.bias", bias)]),
            ]
            return self.op("DynamicQuantizeMatMul", inputs, *quantised, domain="com.microsoft")
        product = self.op("MatMul", inputs, self.constant(f"{name}.transposed", weight.T))
        return product if bias is None else self.op("Add", product, self.constant(f"{name}.bias", bias))

    def apply(self, inputs: str, name: str) -> str:
        """The model's linear layer of this name."""
        bias = self.tensor(f"{name}.bias") if self.has(f"{name}.bias") else None
        return self.linear(inputs, self.tensor(f"{name}.weight"), bias, name)

    def norm(self, inputs: str, name: str) -> str:
        """The model's layer normalisation of this name."""
        weight, bias = (self.constant(f"{name}.{part}", self.tensor(f"{name}.{part}")) for part in ("weight", "bias"))
        return self.op("LayerNormalization", inputs, weight, bias, epsilon=1e-5, axis=-1)

    def embed(self, ids: str, side: str) -> str:
        """Embeddings (..., E) of ids."""
        name = f"embeddings.{side}.weight"
        return self.op("Gather", self.constant(name, self.tensor(name)), ids)

    def split(self, inputs: str, *sizes: int, axis: int = -1) -> Sequence[str]:
        """Parts of these sizes."""
        first = self._name("Split")
        names = [f"{first}_{part}" for part in range(len(sizes))]
        return self.ops("Split", inputs, self.numbers(*sizes), names=names, axis=axis)

    def lerp(self, start: str, end: str, weight: str) -> str:
        """start + weight · (end − start)."""
        return self.op("Add", start, self.op("Mul", weight, self.op("Sub", end, start)))

    def size(self, inputs: str, axis: int) -> str:
        """One size of a shape, (1,)."""
        return self.op("Shape", inputs, start=axis, end=axis + 1)

    # --- whole graphs -------------------------------------------------------------------------------------------------

    def serialise(self, name: str, inputs: Inputs, outputs: Inputs) -> bytes:
        """The GraphProto."""
        given = [proto.value_info(key, *value) for key, value in inputs.items()]
        found = [proto.value_info(key, *value) for key, value in outputs.items()]
        return proto.graph(name, self.nodes, self.constants.values(), given, found)
