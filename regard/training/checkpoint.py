"""Checkpoints: training resumes from them bit for bit; atomic writes and checksums protect them from crashes.

    OUT/training/
      checkpoint-00000007/   state.json, model.safetensors, optimizer.safetensors, checksums.json, good
      weights-00000400.safetensors    weights kept at a validation: the best, or those to average

A checkpoint is written under a temporary name, synced, and renamed; only then are older ones removed. Two stay: the
newest, and the newest older one known to be good. A checkpoint is known to be good when a loss was computed with its
weights, at its validation or at the next update, and that loss was sane (`sane_loss`). A kept weights file is written
before the first checkpoint that names it and removed after the last one. So every visible checkpoint is complete, even
after a crash. Random number generators need no state: update n is seeded with the seed and n.

A checkpoint with a missing or damaged file (by its SHA-256) is set aside on loading, and the previous one is loaded.
"""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from regard.errors import ModelFolderError
from regard.storage.files import (
    check_files,
    sha256,
    write_bytes,
    write_checksums,
    write_json,
    write_tensors,
    writing_folder,
)
from regard.storage.reading import read_json
from regard.storage.weights import load_tensors, model_tensors, read_tensors

_NAME = re.compile(r"checkpoint-(\d{8})")
_SEPARATOR = "|"  # between a parameter's name and the name of its optimizer state

STATE, MODEL, OPTIMIZER = "state.json", "model.safetensors", "optimizer.safetensors"
GOOD = "good"  # an empty file: this checkpoint is known to be good


@dataclass
class Snapshot:
    """Weights kept at a validation; `score` is higher for better, None without a validation set.

    The lower loss breaks ties: BLEU reaches 100 long before a toy task is learned.
    """

    update: int
    score: float | None
    loss: float = 0.0
    sha256: str = ""  # of its weights file

    @property
    def file(self) -> str:
        """The name of its weights file."""
        return f"weights-{self.update:08d}.safetensors"


@dataclass
class TrainingState:
    """Progress of a training; plain values, saved in the checkpoint."""

    update: int = 0
    epoch: int = 0  # completed epochs
    position: int = 0  # batches done in this epoch
    total: int | None = None  # the last update; None while the speed is being measured
    ends: list[Any] = field(default_factory=list)  # the settings that determine it
    first_total: int | None = None  # first estimate of `total` with a budget
    next_estimate: int = 0  # update of the next estimate
    warm: float = 0.0  # with a budget: share of the peak rate reached by the warm-up,
    peak_update: int = 0  # last update of the warm-up,
    decayed: float = 0.0  # finished share of the decay
    validations: int = 0  # with a budget: validations done (see VALIDATIONS)
    validation_part: int = 1000  # used share of the validation set, in thousandths
    tokens: int = 0
    seconds: float = 0.0
    window_loss: float = 0.0  # sums since the last log line
    window_likelihood: float = 0.0
    window_tokens: int = 0
    window_seconds: float = 0.0
    first_loss: float | None = None  # of the first update, per token, without smoothing
    validated: int = 0  # the update, the epoch and the loss of the last validation
    validated_epoch: int = 0
    validated_loss: float | None = None
    best_score: float | None = None
    best_loss: float = 0.0
    best_update: int = 0
    stale: int = 0  # validations since the best one
    plateau: float = 1.0  # learning rate factor after validations without improvement
    plateau_stale: int = 0
    stopped_early: bool = False
    snapshots: list[Snapshot] = field(default_factory=list)
    best_validation: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for state.json."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrainingState:
        """The state of a state.json."""
        known = {item.name: item.type for item in fields(cls)}
        if values.keys() != known.keys():
            odd = min(values.keys() ^ known.keys())
            raise ModelFolderError(f"the checkpoint's {odd!r} does not fit this version: start a new training.")
        for name, value in values.items():
            if not _fits(value, str(known[name])):
                raise ModelFolderError(f"the checkpoint's {name} = {value!r} is not of the type {known[name]}.")
        try:
            snapshots = [Snapshot(**snapshot) for snapshot in values["snapshots"]]
            if not all(_fits(getattr(each, item.name), str(item.type)) for each in snapshots for item in fields(each)):
                raise TypeError
            return cls(**{**values, "snapshots": snapshots})
        except TypeError:
            raise ModelFolderError("the checkpoint's snapshots do not fit this version.") from None


_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "str": (str,),
    "None": (type(None),),
    "list": (list,),
    "dict": (dict,),
}


def _fits(value: object, annotation: str) -> bool:
    names = [name.partition("[")[0].strip() for name in annotation.split(" | ")]
    if isinstance(value, bool):
        return "bool" in names
    return any(isinstance(value, _TYPES[name]) for name in names)


def sane_loss(loss: float, vocabulary_size: int, first_loss: float | None) -> bool:
    """Whether a loss per token is plausible: at most twice the uniform distribution's, or the first update's."""
    return math.isfinite(loss) and loss <= 2 * max(math.log(max(vocabulary_size, 2)), first_loss or 0.0)


@dataclass(frozen=True)
class Loaded:
    """The result of `Checkpoints.load`."""

    state: TrainingState
    machine: dict[str, str | int]
    name: str  # of the loaded checkpoint
    damaged: list[str]  # faults of newer checkpoints


class Checkpoints:
    """The folder OUT/training."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._unproven: Path | None = None  # the checkpoint with the model's current weights, until a loss is known

    def all(self) -> list[Path]:
        """The checkpoints, oldest first."""
        return sorted(path for path in self.folder.glob("checkpoint-*") if _NAME.fullmatch(path.name))

    def latest(self) -> Path | None:
        """The newest checkpoint."""
        return next(reversed(self.all()), None)

    def save(
        self,
        state: TrainingState,
        model: nn.Module,
        optimizer: Optimizer,
        machine: Mapping[str, str | int],
        good: bool = False,
    ) -> None:
        """Write a checkpoint atomically and remove the ones it replaces; `good` if it is known to be good."""
        number = 1 + max((int(path.name.rpartition("-")[2]) for path in [*self.all(), *self._aside()]), default=0)
        final = self.folder / f"checkpoint-{number:08d}"
        with writing_folder(final) as fresh:
            write_tensors(fresh / MODEL, model_tensors(model))
            write_tensors(fresh / OPTIMIZER, optimizer_tensors(model, optimizer))
            write_json(fresh / STATE, {"state": state.to_dict(), "machine": dict(machine)})
            write_checksums(fresh, (STATE, MODEL, OPTIMIZER))
            if good:
                write_bytes(fresh / GOOD, b"")
        self._unproven = None if good else final
        for path in self._aside():
            shutil.rmtree(path, ignore_errors=True)
        self._clear()

    def await_proof(self) -> None:
        """The model has the weights of the newest checkpoint, which is not yet known to be good."""
        self._unproven = self.latest()

    def prove(self, sane: bool) -> None:
        """Mark the checkpoint saved or loaded last as good if the loss of its weights is sane."""
        if self._unproven is not None and sane:
            write_bytes(self._unproven / GOOD, b"")
        self._unproven = None

    def load(self, model: nn.Module, optimizer: Optimizer) -> Loaded:
        """Load the newest intact checkpoint into model and optimizer; newer, damaged ones are set aside.

        If the kept weights of all checkpoints are damaged, the newest is loaded without them.
        """
        damaged: list[str] = []
        for forgiving in (False, True):
            damaged = []
            for path in reversed(self.all()):
                try:
                    state, machine = self._read(path, damaged if forgiving else None)
                except ModelFolderError as error:
                    damaged.append(str(error))
                    continue
                load_tensors(model, read_tensors(path / MODEL), path / MODEL)
                load_optimizer(model, optimizer, read_tensors(path / OPTIMIZER))
                self._set_aside_after(path)
                self._unproven = None if (path / GOOD).exists() else path
                self._clear()
                return Loaded(state, machine, path.name, damaged)
        why = f" ({damaged[0].rstrip('.')})" if damaged else ""
        raise ModelFolderError(
            f"{self.folder}: holds no intact checkpoint to resume from{why}: start a new training with --overwrite."
        )

    def machine(self) -> dict[str, str | int]:
        """The machine of the newest checkpoint; empty if there is none."""
        latest = self.latest()
        with suppress(ModelFolderError, OSError):
            found = {} if latest is None else read_json(latest / STATE).get("machine", {})
            return found if isinstance(found, dict) else {}
        return {}

    def number(self) -> int:
        """The number of the newest checkpoint."""
        return int(self.all()[-1].name.rpartition("-")[2])

    def only_good(self) -> int:
        """Set aside checkpoints newer than the newest good one; returns the update to resume from."""
        found = self.all()
        chosen = ([path for path in found if (path / GOOD).exists()] or found)[-1]
        self._set_aside_after(chosen)
        self._unproven = None
        return self._read(chosen, [])[0].update

    def keep_weights(self, snapshot: Snapshot, model: nn.Module) -> None:
        """Write the weights of a validation."""
        path = self.folder / snapshot.file
        write_tensors(path, model_tensors(model))
        snapshot.sha256 = sha256(path)

    def kept_weights(self, snapshot: Snapshot) -> dict[str, Tensor]:
        """Read the weights of a validation."""
        return read_tensors(self.folder / snapshot.file)

    def _read(self, path: Path, lost: list[str] | None = None) -> tuple[TrainingState, dict[str, str | int]]:
        """The state of an intact checkpoint; damaged kept weights are added to `lost`."""
        if check_files(path) != {STATE, MODEL, OPTIMIZER}:
            raise ModelFolderError(f"{path}: its list of files is not that of a checkpoint.")
        record = read_json(path / STATE)
        if not isinstance(record.get("state"), dict) or not isinstance(record.get("machine"), dict):
            raise ModelFolderError(f"{path / STATE}: is not the state of a training.")
        state = TrainingState.from_dict(record["state"])
        for snapshot in list(state.snapshots):
            kept = self.folder / snapshot.file
            if kept.is_file() and sha256(kept) == snapshot.sha256:
                continue
            fault = f"{kept}: is missing or damaged (its checksum differs)."
            if lost is None:
                raise ModelFolderError(fault)
            lost.append(fault)
            state.snapshots.remove(snapshot)
            state.best_score = None  # the next validation becomes the best
        return state, record["machine"]

    def _aside(self) -> list[Path]:
        return list(self.folder.glob("aside-*"))

    def _set_aside_after(self, chosen: Path) -> None:
        """Rename the checkpoints after this one; writing the next one removes them."""
        for path in self.all():
            if path.name > chosen.name:
                path.rename(self.folder / path.name.replace("checkpoint", "aside"))

    def _clear(self) -> None:
        """Remove all but the newest checkpoint, the newest good one before it, and their kept weights."""
        *older, newest = self.all()
        good = [path for path in older if (path / GOOD).exists()] or older
        kept = [newest, *good[-1:]]
        wanted = {path.name for path in kept}
        for path in kept:
            with suppress(ModelFolderError, OSError, KeyError, TypeError):
                wanted |= {Snapshot(**each).file for each in read_json(path / STATE)["state"]["snapshots"]}
        for path in [*older, *self.folder.glob(".checkpoint-*.part")]:
            if path.name not in wanted:
                shutil.rmtree(path, ignore_errors=True)
        for path in [*self.folder.glob("weights-*"), *self.folder.glob(".weights-*.part")]:
            if path.name not in wanted:
                with suppress(OSError):
                    path.unlink()


class FollowedCheckpoints(Checkpoints):
    """The checkpoints that another rank writes."""

    def read(self, number: int, model: nn.Module, optimizer: Optimizer) -> TrainingState:
        """Load a checkpoint into model and optimizer, and change nothing on the disk."""
        path = self.folder / f"checkpoint-{number:08d}"
        state, _ = self._read(path, [])
        load_tensors(model, read_tensors(path / MODEL), path / MODEL)
        load_optimizer(model, optimizer, read_tensors(path / OPTIMIZER))
        return state

    def save(
        self,
        state: TrainingState,
        model: nn.Module,
        optimizer: Optimizer,
        machine: Mapping[str, str | int],
        good: bool = False,
    ) -> None:
        """Nothing."""

    def keep_weights(self, snapshot: Snapshot, model: nn.Module) -> None:
        """Nothing."""


def optimizer_tensors(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """The optimizer's state by parameter name: `name|exp_avg` and so on."""
    return {
        f"{name}{_SEPARATOR}{key}": torch.as_tensor(value)
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def load_optimizer(model: nn.Module, optimizer: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Restore the optimizer's state by parameter name."""
    parameters = dict(model.named_parameters())
    for label, tensor in tensors.items():
        name, _, key = label.rpartition(_SEPARATOR)
        if name not in parameters:
            raise ModelFolderError(f"the checkpoint's optimizer state {label!r} belongs to another model.")
        parameter = parameters[name]
        # Adam's step count is a CPU tensor, unless Adam is fused on a GPU.
        device = parameter.device if tensor.dim() or optimizer.defaults.get("fused") else tensor.device
        # Fused optimizers need the averages in the memory format of their parameters (channels last or not).
        alike = tensor.shape == parameter.shape and tensor.dim() > 0
        state = torch.empty_like(parameter, dtype=tensor.dtype) if alike else torch.empty_like(tensor, device=device)
        optimizer.state[parameter][key] = state.copy_(tensor)


def average(weights: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Checkpoint averaging: the mean of several weights, summed in float64; integers are taken from the last one."""
    last = weights[-1]
    return {
        name: (torch.stack([part[name].double() for part in weights]).mean(0).to(tensor.dtype))
        if tensor.is_floating_point()
        else tensor
        for name, tensor in last.items()
    }
