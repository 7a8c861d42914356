"""A model folder: everything that translating needs, under Hugging Face's names.

    config.json           the resolved recipe, with the version that wrote it
    model.safetensors     the weights
    tokenizer.json        the pieces of both languages; or source.tokenizer.json and target.tokenizer.json
    metrics.json          what training measured
    README.md             a model card
    shortlist.safetensors likely target pieces by source piece, if `regard shortlist` was run
    training.fingerprint.npy  hashes of the training sentences, for the overlap warning
    log.jsonl, training/  the log, and what `regard train --resume` needs; both may be deleted
    watch.jsonl           the sentences that were watched in training, for `regard look --over-time`

`config.json` is written last and removed first: a folder without it is not a model.
"""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import torch
from torch import Tensor, nn

from regard import __version__
from regard.config.models import MODEL_SETTINGS
from regard.config.recipes import ARCHITECTURES, AnyKind, check_as, model_kind
from regard.config.settings import AnyRecipe, Recipe
from regard.data.text.overlap import FINGERPRINT_FILE, Fingerprint
from regard.data.text.tokenizer import Tokenizer
from regard.errors import ConfigError, ModelFolderError, RegardError
from regard.models.contract import Model
from regard.storage.files import sync_folder, write_bytes, write_json, write_tensors

FORMAT = 1
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
METRICS = "metrics.json"
CARD = "README.md"
JOINT = "tokenizer.json"
SOURCE = "source.tokenizer.json"
TARGET = "target.tokenizer.json"
SHORTLIST = "shortlist.safetensors"
MODEL_FILES = (CONFIG, WEIGHTS, METRICS, CARD, JOINT, SOURCE, TARGET, SHORTLIST, FINGERPRINT_FILE)

RESTORE = "copy the folder again from where it came, or train it again"


@dataclass(frozen=True)
class Folder:
    """A model folder that was read and checked; the weights are read when they are asked for."""

    path: Path
    recipe: Recipe
    version: str
    model_class: str | None  # the class of a user's own model, which only the user can build
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    metrics: dict[str, Any]

    def weights(self) -> dict[str, Tensor]:
        """The tensors of model.safetensors."""
        return read_tensors(self.path / WEIGHTS)

    def model(self, own: Model | None = None) -> Model:
        """The model with its weights, ready to translate; `own` is the user's model if the folder holds one."""
        model = own
        if model is None:
            if self.model_class is not None:
                raise ModelFolderError(
                    f"{self.path}: holds a model of the class {self.model_class}, which Regard cannot build: "
                    "build it yourself and pass it as `model`."
                )
            from regard.models import build_model

            sizes = self.source_tokenizer.size, self.target_tokenizer.size
            model = build_model(self.recipe.model, *sizes)
        load_tensors(model, self.weights(), self.path / WEIGHTS)
        return model.eval()


def holds_model(path: Path) -> bool:
    """Whether there is a model; the training that wrote it may still go on."""
    return (path / CONFIG).exists()


def holds_finished_model(path: Path) -> bool:
    """Whether there is a model whose training came to its end."""
    return holds_model(path) and not ((path / METRICS).exists() and read_json(path / METRICS).get("unfinished"))


def write_folder(
    path: Path,
    *,
    recipe: Recipe,
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    weights: Mapping[str, Tensor],
    metrics: Mapping[str, Any],
    card: str,
    fingerprint: Fingerprint | None = None,
    model_class: str | None = None,
) -> None:
    """Write the folder of a model that translates."""
    if source_tokenizer is target_tokenizer:
        files = {JOINT: source_tokenizer.to_json().encode()}
    else:
        files = {SOURCE: source_tokenizer.to_json().encode(), TARGET: target_tokenizer.to_json().encode()}
    if fingerprint is not None:
        buffer = io.BytesIO()
        np.save(buffer, fingerprint.astype("<u8"), allow_pickle=False)
        files[FINGERPRINT_FILE] = buffer.getvalue()
    about = {"model_class": model_class}
    write_model(path, recipe=recipe, weights=weights, metrics=metrics, card=card, files=files, about=about)


def write_model(
    path: Path,
    *,
    recipe: AnyRecipe,
    weights: Mapping[str, Tensor],
    metrics: Mapping[str, Any],
    card: str,
    files: Mapping[str, bytes],
    about: Mapping[str, Any],
) -> None:
    """Write the folder of any model, `config.json` last; a model that was there is replaced.

    `files` are those that only this kind of model has, `about` what `config.json` says beside the recipe. Other weights
    of the same model are replaced one file at a time: whoever reads the folder finds the old model or the new one.
    """
    path.mkdir(parents=True, exist_ok=True)
    record = {"format": FORMAT, "version": __version__, **about}
    config = {"regard": record, **recipe.model_dump(mode="json")}
    if not _holds_same_model(path, config, files):
        remove_model(path)
    write_tensors(path / WEIGHTS, weights)
    for name, content in files.items():
        assert name in MODEL_FILES, f"{name} would not be removed with its model"
        write_bytes(path / name, content)
    write_json(path / METRICS, metrics)
    write_bytes(path / CARD, card.encode())
    write_json(path / CONFIG, config)


def _holds_same_model(path: Path, config: Mapping[str, Any], files: Mapping[str, bytes]) -> bool:
    """Whether the folder holds a model that differs in its weights, metrics and settings of training alone."""
    try:
        found = json.loads((path / CONFIG).read_bytes())
        same = all(found[name] == config.get(name) for name in found if name not in ("training", "search"))
        return same and all((path / name).read_bytes() == content for name, content in files.items())
    except (OSError, ValueError, AttributeError, TypeError):
        return False


def remove_model(path: Path) -> None:
    """Remove the files of a model, `config.json` first; anything else in the folder stays."""
    for name in MODEL_FILES:
        (path / name).unlink(missing_ok=True)
        if name == CONFIG:
            sync_folder(path)


def remove_all(path: Path) -> None:
    """Remove a model with its log and its training state, but nothing that is not ours."""
    remove_model(path)
    for name in ("log.jsonl", "watch.jsonl"):
        (path / name).unlink(missing_ok=True)
    shutil.rmtree(path / "training", ignore_errors=True)


# --- reading ------------------------------------------------------------------------------------------------------


def read_folder(path: str | Path) -> Folder:
    """Read and check a model folder."""
    path = Path(path)
    recipe, about = read_config(path, Recipe)
    if (path / JOINT).exists():
        source = target = read_tokenizer(path / JOINT)
    else:
        source, target = read_tokenizer(path / SOURCE), read_tokenizer(path / TARGET)
    if not (path / WEIGHTS).exists():
        raise ModelFolderError(f"{path / WEIGHTS}: is missing: {RESTORE}.")
    metrics = read_json(path / METRICS) if (path / METRICS).exists() else {}
    return Folder(path, recipe, str(about.get("version", "?")), about.get("model_class"), source, target, metrics)


def read_config(path: Path, kind: type[AnyKind]) -> tuple[AnyKind, dict[str, Any]]:
    """The recipe in `config.json`, which must be of this kind, and what else the file says."""
    table, about = read_table(path)
    _check_kind(path, model_kind(table), kind)
    try:
        return check_as(kind, table, str(path / CONFIG)), about
    except ConfigError as error:
        raise ModelFolderError(f"{error} Undo the change, or {RESTORE}.") from None


def _check_kind(path: Path, found: str, kind: type[AnyRecipe]) -> None:
    """Refuse a folder that is whole but holds a model for something else."""
    if found in kind.models or found not in ARCHITECTURES:
        return
    reads, commands = ("text", "`regard translate`") if found in MODEL_SETTINGS else ("images", "`regard look`")
    if kind is Recipe or found in MODEL_SETTINGS:
        raise ModelFolderError(
            f"{path}: holds a {found}, a model that reads {reads}: use {commands}, or regard.load from Python."
        )
    raise ModelFolderError(f"{path}: holds a {found}, which this is not for: regard.load from Python opens any folder.")


def read_table(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The unchecked recipe in `config.json`, whatever the model is, and what else the file says."""
    if not path.is_dir():
        kind = "is a file, not a model folder" if path.exists() else "there is no such model folder"
        raise ModelFolderError(f"{path}: {kind}: give a folder that `regard train` wrote.")
    file = path / CONFIG
    if not file.exists():
        if (path / "training").is_dir():
            remedy = f"its training is not finished: go on with `regard train --resume {path}`"
        else:
            remedy = "give a folder that `regard train` wrote"
        raise ModelFolderError(f"{path}: holds no model ({CONFIG} is missing): {remedy}.")
    table = read_json(file)
    about = table.pop("regard", None)
    if not isinstance(about, dict) or not isinstance(about.get("format"), int):
        raise ModelFolderError(f"{file}: was not written by Regard: give a folder that `regard train` wrote.")
    if about["format"] != FORMAT:
        remedy = "update Regard" if about["format"] > FORMAT else "train the model again"
        raise ModelFolderError(
            f"{file}: has format {about['format']} (Regard {about.get('version')}), and this Regard "
            f"{__version__} reads format {FORMAT}: {remedy}."
        )
    return table, about


def read_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer in a file of a model folder."""
    if not path.exists():
        raise ModelFolderError(f"{path}: is missing: {RESTORE}.")
    try:
        return Tokenizer.load(path)
    except RegardError as error:
        raise ModelFolderError(f"{path}: {error}") from None
    except Exception as error:  # tokenizers raises bare Exception for a damaged file
        raise ModelFolderError(f"{path}: is damaged ({_short(error)}): {RESTORE}.") from None


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object, or a line about what is wrong with the file."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        raise ModelFolderError(f"{path}: is damaged ({_short(error)}): {RESTORE}.") from None
    if not isinstance(value, dict):
        raise ModelFolderError(f"{path}: is damaged (no JSON object): {RESTORE}.")
    return value


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, or a line about what is wrong with it."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except FileNotFoundError:
        raise ModelFolderError(f"{path}: is missing: {RESTORE}.") from None
    except safetensors.SafetensorError as error:
        raise ModelFolderError(f"{path}: is damaged or cut short ({_short(error)}): {RESTORE}.") from None


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:120]


# --- weights ------------------------------------------------------------------------------------------------------


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The parameters and saved buffers of a model by name, a shared one once, under its first name."""
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
    remedy = f"config.json and the weights do not belong together; {RESTORE}"
    missing, unknown = own.keys() - tensors.keys(), tensors.keys() - own.keys()
    if missing or unknown:
        name, fault = (min(missing), "is missing") if missing else (min(unknown), "is not part of the model")
        raise ModelFolderError(f"{where}: the tensor {name} {fault}: {bring_over(name) or remedy}.")
    for name, tensor in own.items():
        if tensor.shape != tensors[name].shape:
            raise ModelFolderError(
                f"{where}: the tensor {name} has the shape {tuple(tensors[name].shape)}, "
                f"but the model needs {tuple(tensor.shape)}: {bring_over(name) or remedy}."
            )
        tensor.copy_(tensors[name])


def bring_over(name: str) -> str | None:
    """How to bring over a folder written before the model with this tensor changed; None if it never did."""
    if re.search(r"norm_(input|hidden)\.(gates|candidate)\.", name):
        return (
            "a GRU's gates and candidate were normalised together when it was trained, and are now apart, as in "
            "Ba et al. 2016 (model.layer_norm): train it again"
        )
    if re.search(r"attention\.\d+\.(channel|spatial)\.\d+\.", name):
        return 'BAM had no least width when it was trained; write "min_hidden": 1 under "model" in its config.json'
    return None
