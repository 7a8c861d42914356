"""What training must know to go on exactly where it stopped, and how it survives a crash.

    OUT/training/
      checkpoint-00000007/   state.json, model.safetensors, optimizer.safetensors
      weights-00000400.safetensors    weights kept at a validation: the best, or those that are averaged

A checkpoint is written under a temporary name, synced, and renamed; only then is the one before it removed. A kept
weights file is written before the first checkpoint that names it and removed after the last one. So a checkpoint
that can be seen is whole, whenever the machine dies. Random numbers need no state: those of update n follow
from the seed and n alone.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from regard.errors import ModelFolderError
from regard.storage.files import sync_folder, write_json, write_tensors
from regard.storage.folder import load_tensors, model_tensors, read_json, read_tensors

_NAME = re.compile(r"checkpoint-(\d{8})")
_SEPARATOR = "|"  # between a parameter's name and the name of its optimizer state


@dataclass
class Snapshot:
    """Weights kept at a validation; `score` is higher for better, None without a validation set.

    Of two equal scores the one with the lower loss is better: BLEU is 100 long before a toy is learned.
    """

    update: int
    score: float | None
    loss: float = 0.0

    @property
    def file(self) -> str:
        """The name of its weights file."""
        return f"weights-{self.update:08d}.safetensors"


@dataclass
class State:
    """Where training stands; plain numbers, all of them in the checkpoint."""

    update: int = 0
    epoch: int = 0  # passes over the text that are complete
    position: int = 0  # batches of this pass that are done
    total: int | None = None  # the last update; None while a budget is being measured
    tokens: int = 0
    seconds: float = 0.0
    window_loss: float = 0.0  # sums since the last line of the log
    window_likelihood: float = 0.0
    window_tokens: int = 0
    window_seconds: float = 0.0
    validated: int = 0  # the update and the epoch of the last validation
    validated_epoch: int = 0
    best_score: float | None = None
    best_loss: float = 0.0
    best_update: int = 0
    stale: int = 0  # validations since the best one
    plateau: float = 1.0  # the factor that stalled validations have earned
    plateau_stale: int = 0
    stopped_early: bool = False
    snapshots: list[Snapshot] = field(default_factory=list)
    best_validation: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for state.json."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> State:
        """The state of a state.json."""
        known = {item.name for item in fields(cls)}
        if values.keys() != known:
            odd = min(values.keys() ^ known)
            raise ModelFolderError(f"the checkpoint's {odd!r} does not fit this version: start training anew.")
        return cls(**{**values, "snapshots": [Snapshot(**snapshot) for snapshot in values["snapshots"]]})


class Checkpoints:
    """The folder OUT/training."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def latest(self) -> Path | None:
        """The newest whole checkpoint."""
        found = sorted(path for path in self.folder.glob("checkpoint-*") if _NAME.fullmatch(path.name))
        return found[-1] if found else None

    def save(self, state: State, model: nn.Module, optimizer: Optimizer, machine: Mapping[str, str | int]) -> None:
        """Write a checkpoint beside the last one, rename it, and clear away what it replaces."""
        latest = self.latest()
        number = int(latest.name.removeprefix("checkpoint-")) + 1 if latest else 1
        final = self.folder / f"checkpoint-{number:08d}"
        temporary = self.folder / f".{final.name}.part"
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            temporary.mkdir()
            write_tensors(temporary / "model.safetensors", model_tensors(model))
            write_tensors(temporary / "optimizer.safetensors", optimizer_tensors(model, optimizer))
            write_json(temporary / "state.json", {"state": state.to_dict(), "machine": dict(machine)})
            os.rename(temporary, final)
            sync_folder(self.folder)
        except OSError:
            shutil.rmtree(temporary, ignore_errors=True)  # a full disk gets its space back
            raise
        self._clear(final, state)

    def load(self, model: nn.Module, optimizer: Optimizer) -> tuple[State, dict[str, str | int]]:
        """Put the newest checkpoint into model and optimizer; return its state and the machine it came from."""
        path = self.latest()
        if path is None:
            raise ModelFolderError(f"{self.folder}: holds no checkpoint to go on from: start training anew.")
        record = read_json(path / "state.json")
        state = State.from_dict(record["state"])
        load_tensors(model, read_tensors(path / "model.safetensors"), path / "model.safetensors")
        load_optimizer(model, optimizer, read_tensors(path / "optimizer.safetensors"))
        self._clear(path, state)
        return state, record["machine"]

    def keep_weights(self, snapshot: Snapshot, model: nn.Module) -> None:
        """Write the weights of a validation."""
        write_tensors(self.folder / snapshot.file, model_tensors(model))

    def kept_weights(self, snapshot: Snapshot) -> dict[str, Tensor]:
        """Read them."""
        return read_tensors(self.folder / snapshot.file)

    def _clear(self, current: Path, state: State) -> None:
        wanted = {current.name, *(snapshot.file for snapshot in state.snapshots)}
        for path in [*self.folder.glob("checkpoint-*"), *self.folder.glob(".checkpoint-*.part")]:
            if path.name not in wanted:
                shutil.rmtree(path, ignore_errors=True)
        for path in [*self.folder.glob("weights-*"), *self.folder.glob(".weights-*.part")]:
            if path.name not in wanted:
                path.unlink(missing_ok=True)


def optimizer_tensors(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """The optimizer's state by parameter name: `name|exp_avg` and so on."""
    return {
        f"{name}{_SEPARATOR}{key}": torch.as_tensor(value)
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def load_optimizer(model: nn.Module, optimizer: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put the state by parameter name back."""
    parameters = dict(model.named_parameters())
    for label, tensor in tensors.items():
        name, _, key = label.rpartition(_SEPARATOR)
        if name not in parameters:
            raise ModelFolderError(f"the checkpoint's optimizer state {label!r} belongs to another model.")
        parameter = parameters[name]
        # Adam counts its steps in a tensor that stays on the CPU unless it is fused on a GPU.
        device = parameter.device if tensor.dim() or optimizer.defaults.get("fused") else tensor.device
        # The fused rules walk through memory, so an average must lie as its parameter does (channels last or not).
        alike = tensor.shape == parameter.shape and tensor.dim() > 0
        state = torch.empty_like(parameter, dtype=tensor.dtype) if alike else torch.empty_like(tensor, device=device)
        optimizer.state[parameter][key] = state.copy_(tensor)


def average(weights: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several sets of weights, summed in float64; whole numbers are taken from the last set."""
    last = weights[-1]
    return {
        name: (torch.stack([part[name].double() for part in weights]).mean(0).to(tensor.dtype))
        if tensor.is_floating_point()
        else tensor
        for name, tensor in last.items()
    }
