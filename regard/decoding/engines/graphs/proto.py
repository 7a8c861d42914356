"""ONNX files in protocol-buffer wire format: the few messages that our graphs need, without the `onnx` package.

Field numbers are those of `onnx.proto`. A message is a sequence of fields; a field is its number and wire type, then a
varint, four bytes, or a length and bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

Shape = Sequence[int | str]
"""Sizes, or names of sizes that vary."""

Attribute = int | float | str | list[int] | list[str] | bytes
"""Value of an attribute; bytes are a serialised graph."""

ELEMENT_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9}
IR_VERSION = 8
OPSETS = {"": 17, "com.microsoft": 1}

_VARINT, _BYTES, _FOUR_BYTES = 0, 2, 5


def model(graph: bytes, producer: str, about: Mapping[str, str]) -> bytes:
    """A ModelProto."""
    opsets = [_text(1, domain) + _number(2, version) for domain, version in OPSETS.items()]
    entries = [_text(1, key) + _text(2, value) for key, value in about.items()]
    return b"".join(
        [
            _number(1, IR_VERSION),
            _text(2, producer),
            _field(7, graph),
            *(_field(8, opset) for opset in opsets),
            *(_field(14, entry) for entry in entries),
        ]
    )


def graph(
    name: str, nodes: Iterable[bytes], constants: Iterable[bytes], inputs: list[bytes], out: list[bytes]
) -> bytes:
    """A GraphProto."""
    return b"".join(
        [
            *(_field(1, node) for node in nodes),
            _text(2, name),
            *(_field(5, constant) for constant in constants),
            *(_field(11, value) for value in inputs),
            *(_field(12, value) for value in out),
        ]
    )


def node(
    kind: str, inputs: Iterable[str], outputs: Iterable[str], domain: str, attributes: Mapping[str, Attribute]
) -> bytes:
    """A NodeProto."""
    parts = [*(_text(1, name) for name in inputs), *(_text(2, name) for name in outputs), _text(4, kind)]
    parts += [_field(5, _attribute(name, value)) for name, value in attributes.items()]
    return b"".join([*parts, _text(7, domain)] if domain else parts)


def tensor(name: str, value: NDArray[Any]) -> bytes:
    """A TensorProto."""
    return _tensor(name, value) + _field(9, value.tobytes())


def external_tensor(name: str, value: NDArray[Any], file: str, offset: int) -> bytes:
    """A TensorProto whose bytes are in a file beside the model."""
    place = {"location": file, "offset": str(offset), "length": str(value.nbytes)}
    entries = [_field(13, _text(1, key) + _text(2, text)) for key, text in place.items()]
    return _tensor(name, value) + b"".join(entries) + _number(14, 1)


def value_info(name: str, element: str, shape: Shape) -> bytes:
    """A ValueInfoProto of a tensor."""
    sizes = [_text(2, size) if isinstance(size, str) else _number(1, size) for size in shape]
    dimensions = b"".join(_field(1, size) for size in sizes)
    kind = _number(1, ELEMENT_TYPES[element]) + _field(2, dimensions)
    return _text(1, name) + _field(2, _field(1, kind))


def _tensor(name: str, value: NDArray[Any]) -> bytes:
    dimensions = b"".join(_number(1, size) for size in value.shape)
    return dimensions + _number(2, ELEMENT_TYPES[value.dtype.name]) + _text(8, name)


def _attribute(name: str, value: Attribute) -> bytes:
    start = _text(1, name)
    if isinstance(value, int):
        return start + _number(3, value) + _number(20, 2)
    if isinstance(value, float):
        return start + _key(2, _FOUR_BYTES) + struct.pack("<f", value) + _number(20, 1)
    if isinstance(value, str):
        return start + _text(4, value) + _number(20, 3)
    if isinstance(value, bytes):
        return start + _field(6, value) + _number(20, 5)
    if value and isinstance(value[0], str):
        return start + b"".join(_text(9, str(each)) for each in value) + _number(20, 8)
    return start + b"".join(_number(8, int(each)) for each in value) + _number(20, 7)


def _key(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def _number(number: int, value: int) -> bytes:
    return _key(number, _VARINT) + _varint(value & (1 << 64) - 1)  # negative numbers as two's complement


def _text(number: int, value: str) -> bytes:
    return _field(number, value.encode())


def _field(number: int, content: bytes) -> bytes:
    return _key(number, _BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
