"""Untrusted safetensors files: their headers, and their tensors as numpy arrays, without torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors

from regard.errors import ModelFolderError
from regard.storage.reading import HEADER_BYTES, RESTORE, open_regular, short

FLOATS = ("F64", "F32", "F16", "BF16")
INTEGERS = ("I64", "I32", "I16", "I8", "U8", "BOOL")
Array = npt.NDArray[np.generic]
Shape = tuple[int, ...]

INT8_SCALE = ".int8_scale"
"""`NAME.int8_scale` are the scales of the compact tensor NAME (`compact.py`)."""


def read_shapes(path: Path) -> dict[str, Shape]:
    """The shapes of a file's tensors by name, from the header only."""
    with opened_tensors(path) as file:
        return {name: tensor_shape(path, name, file) for name in own_names(file)}


def read_arrays(path: Path) -> dict[str, Array]:
    """The tensors of a file as arrays."""
    with opened_tensors(path) as file:
        names = list(file.keys())
        for name in names:
            tensor_shape(path, name, file)
        return {name: file.get_tensor(name) for name in names}


def read_about(path: Path) -> dict[str, str]:
    """The metadata of a file."""
    with opened_tensors(path) as file:
        return dict(file.metadata() or {})


@contextmanager
def opened_tensors(path: Path, framework: str = "numpy") -> Iterator[Any]:
    """Open a safetensors file; its header size is checked before parsing, and its errors become ModelFolderError."""
    with open_regular(path) as plain:
        size = int.from_bytes(plain.read(8), "little")
    if size > HEADER_BYTES:
        raise _damaged(path, f"a header of {size:,} bytes")
    try:
        with safetensors.safe_open(path, framework=framework) as file:
            yield file
    except (safetensors.SafetensorError, OSError, ValueError, RuntimeError, AttributeError) as error:
        raise _damaged(path, short(error)) from None


def own_names(file: Any) -> list[str]:
    """The names of a file's tensors; the scales of compact ones belong to them."""
    names = list(file.keys())
    scales = {name + INT8_SCALE for name in names}
    return [name for name in names if name not in scales]


def tensor_shape(path: Path, name: str, file: Any) -> Shape:
    """The shape of a tensor; raises for an unsupported type."""
    part = file.get_slice(name)
    if part.get_dtype() not in (*FLOATS, *INTEGERS):
        raise ModelFolderError(f"{path}: the tensor {name} has the type {part.get_dtype()}: {RESTORE}.")
    return tuple(part.get_shape())


def _damaged(path: Path, reason: str) -> ModelFolderError:
    return ModelFolderError(f"{path}: is damaged or cut short ({reason}): {RESTORE}.")
