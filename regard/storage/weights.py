"""Untrusted safetensors files: their headers are compared with the model before memory is allocated."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.errors import ModelFolderError
from regard.storage.arrays import INT8_SCALE, Shape, opened_tensors, own_names, read_shapes, tensor_shape
from regard.storage.compact import expand
from regard.storage.reading import RESTORE, short

AnyModule = TypeVar("AnyModule", bound=nn.Module)


def read_tensors(path: Path, names: Iterable[str] | None = None) -> dict[str, Tensor]:
    """The tensors of a file, or those in `names`; compact ones are expanded to float32."""
    with opened_tensors(path, "pt") as file:
        stored = set(file.keys())
        wanted = own_names(file) if names is None else list(names)
        tensors: dict[str, Tensor] = {}
        for name in wanted:
            tensor_shape(path, name, file)
            tensors[name] = file.get_tensor(name)
            if (scale := name + INT8_SCALE) in stored:
                tensor_shape(path, scale, file)
                tensors[name] = expand(name, tensors[name], file.get_tensor(scale), path)
        return tensors


def build_checked(build: Callable[[], AnyModule], path: Path) -> AnyModule:
    """Build the model, if its tensor shapes match the file.

    It is built twice, first on the meta device (`shapes_alone`) to compare shapes with the header. A config.json that
    describes a huge model thus raises without allocating memory.
    """
    try:
        planned = shapes_alone(build)
    except (RuntimeError, ValueError, OverflowError, TypeError) as error:
        raise ModelFolderError(f"{path.parent}: describes no model ({short(error)}): {RESTORE}.") from None
    own = {name: tuple(tensor.shape) for name, tensor in model_tensors(planned).items()}
    _check_shapes(own, read_shapes(path), path)
    needed = sum(tensor.nbytes for tensor in planned.state_dict().values())
    if needed > _memory():
        raise ModelFolderError(
            f"{path}: its model takes {needed / 2**30:,.0f} GB of memory, more than this machine has: use another."
        )
    return build()


class _Still(TorchFunctionMode):
    """Skips random initialisation, which on the meta device only imports torch's compiler."""

    def __torch_function__(
        self, function: Any, types: Any, arguments: Sequence[Any] = (), named: Mapping[str, Any] | None = None
    ) -> Any:
        if getattr(function, "__name__", "") in ("normal_", "trunc_normal_", "uniform_", "kaiming_uniform_"):
            return arguments[0] if arguments else (named or {})["tensor"]
        return function(*arguments, **(named or {}))


def shapes_alone(build: Callable[[], AnyModule]) -> AnyModule:
    """The model on torch's meta device: shapes and types without data."""
    with torch.device("meta"), _Still():
        return build()


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The parameters and persistent buffers of a model by name; a tied one only under its first name."""
    seen: set[int] = set()
    tensors: dict[str, Tensor] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            tensors[name] = tensor
    return tensors


@torch.no_grad()
def load_tensors(model: nn.Module, tensors: Mapping[str, Tensor], where: Path | str) -> None:
    """Copy tensors into a model, which must have the same names and shapes."""
    own = model_tensors(model)
    shapes, found = ({name: tuple(each.shape) for name, each in part.items()} for part in (own, tensors))
    _check_shapes(shapes, found, where)
    for name, tensor in own.items():
        given = tensors[name]
        if given.is_floating_point() != tensor.is_floating_point():
            raise ModelFolderError(
                f"{where}: the tensor {name} has the type {given.dtype}, but the model needs {tensor.dtype}: {RESTORE}."
            )
        tensor.copy_(given)


def _check_shapes(own: Mapping[str, Shape], found: Mapping[str, Shape], where: Path | str) -> None:
    """Raise if the names or shapes of tensors differ from the model's."""
    remedy = f"config.json and the weights do not belong together; {RESTORE}"
    missing, unknown = own.keys() - found.keys(), found.keys() - own.keys()
    if missing or unknown:
        name, fault = (min(missing), "is missing") if missing else (min(unknown), "is not part of the model")
        raise ModelFolderError(f"{where}: the tensor {name} {fault}: {bring_over(name) or remedy}.")
    for name, shape in own.items():
        if shape != found[name]:
            raise ModelFolderError(
                f"{where}: the tensor {name} has the shape {found[name]}, but the model needs {shape}: "
                f"{bring_over(name) or remedy}."
            )


def bring_over(name: str) -> str | None:
    """How to migrate a folder from before a change of the model with this tensor; None without such a change."""
    if re.search(r"norm_(input|hidden)\.(gates|candidate)\.", name):
        return (
            "it was trained when layer normalisation covered a GRU's gates and candidate together; now they are "
            "separate, as in Ba et al. 2016 (model.layer_norm): train it again"
        )
    if re.search(r"attention\.\d+\.(channel|spatial)\.\d+\.", name):
        return 'BAM had no minimum width when it was trained; write "min_hidden": 1 under "model" in its config.json'
    return None


def _memory() -> int:
    """The memory of the machine in bytes."""
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return 1 << 46
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
