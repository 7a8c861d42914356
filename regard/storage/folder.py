"""The model folder, with Hugging Face's file names.

    config.json           the resolved recipe, with the version that wrote it
    model.safetensors     the weights
    tokenizer.json        the pieces of both languages; or source.tokenizer.json and target.tokenizer.json
    metrics.json          what training measured
    README.md             a model card
    shortlist.safetensors likely target pieces by source piece, if `regard shortlist` was run
    training.fingerprint.npy  hashes of the training sentences, for the overlap warning
    training.words.npy    hashes of the training words, to mark words that training never saw
    log.jsonl, training/  the log, and the state for `regard train --resume`; both may be deleted
    compiled/             copies of the model for other engines; may be deleted
    watch.jsonl           looks at watched sentences during training, for `regard look --over-time`

`config.json` is written last and removed first: a folder without it is not a model.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

from regard import __version__
from regard.config.models import MODEL_SETTINGS
from regard.config.recipes import ARCHITECTURES, AnyKind, check_as, model_kind
from regard.config.settings import AnyRecipe, Recipe
from regard.errors import ConfigError, ModelFolderError
from regard.storage.files import sync_folder, write_bytes, write_json, write_tensors
from regard.storage.reading import CONFIG_BYTES, METRICS_BYTES, RESTORE, exists, read_json

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = 1
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
METRICS = "metrics.json"
CARD = "README.md"
JOINT = "tokenizer.json"
SOURCE = "source.tokenizer.json"
TARGET = "target.tokenizer.json"
SHORTLIST = "shortlist.safetensors"
COMPILED = "compiled"
FINGERPRINT_FILE = "training.fingerprint.npy"
WORDS_FILE = "training.words.npy"
MODEL_FILES = (CONFIG, WEIGHTS, METRICS, CARD, JOINT, SOURCE, TARGET, SHORTLIST, FINGERPRINT_FILE, WORDS_FILE)
LOG_FILES = ("log.jsonl", "watch.jsonl")

# those of metrics.json that commands and pages rely on; all may be missing
METRIC_TYPES: dict[str, type | tuple[type, ...]] = {
    "parameters": int,
    "updates": int,
    "epochs": (int, float),
    "seconds": (int, float),
    "source_vocabulary": int,
    "target_vocabulary": int,
    "data": dict,
    "valid": (dict, NoneType),
    "machine": dict,
}


def holds_model(path: Path) -> bool:
    """Whether the folder holds a model; its training may still be running."""
    return exists(path / CONFIG)


def holds_finished_model(path: Path) -> bool:
    """Whether the folder holds a model whose training is finished."""
    return holds_model(path) and not ((path / METRICS).exists() and read_json(path / METRICS).get("unfinished"))


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
    """Write the folder of any model, `config.json` last; an existing model is replaced.

    `files` are specific to this kind of model, `about` holds further entries of `config.json`. New weights of the same
    model replace the old files one at a time, each atomically: a reader finds the old model or the new one.
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
    """Whether the folder holds a model that differs only in weights, metrics and training settings."""
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
    shutil.rmtree(path / COMPILED, ignore_errors=True)


def remove_all(path: Path) -> None:
    """Remove a model with its log and its training state; other files stay."""
    remove_model(path)
    for name in LOG_FILES:
        (path / name).unlink(missing_ok=True)
    remove_training(path)


def remove_training(path: Path) -> None:
    """Remove OUT/training at once, by a rename: an interruption leaves no half of a training."""
    training, old = path / "training", path / ".training.old"
    shutil.rmtree(old, ignore_errors=True)
    if training.exists():
        training.rename(old)
        shutil.rmtree(old, ignore_errors=True)


def model_files(path: Path) -> list[Path]:
    """The files of the folder that have the names of a model's, or of a training's log."""
    return [path / name for name in (*MODEL_FILES, *LOG_FILES, COMPILED) if exists(path / name)]


# --- reading ------------------------------------------------------------------------------------------------------


def read_config(path: Path, kind: type[AnyKind]) -> tuple[AnyKind, dict[str, Any]]:
    """The recipe in `config.json`, which must be of this kind, and the file's other entries."""
    table, about = read_table(path)
    _check_kind(path, model_kind(table), kind)
    try:
        recipe = check_as(kind, table, str(path / CONFIG))
    except ConfigError as error:
        raise ModelFolderError(f"{error} Undo the change, or {RESTORE}.") from None
    return recipe, about


def _check_kind(path: Path, found: str, kind: type[AnyRecipe]) -> None:
    """Raise for a valid folder of a model for another task."""
    if found in kind.models or found not in ARCHITECTURES:
        return
    reads, commands = ("text", "`regard translate`") if found in MODEL_SETTINGS else ("images", "`regard look`")
    if kind is Recipe or found in MODEL_SETTINGS:
        raise ModelFolderError(
            f"{path}: holds a {found}, a model that reads {reads}: use {commands}, or regard.load from Python."
        )
    raise ModelFolderError(f"{path}: holds a {found}, which this is not for: regard.load from Python opens any folder.")


def read_table(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The unchecked recipe in `config.json` of any model, and the file's other entries."""
    if not os.path.isdir(path):
        kind = "is a file, not a model folder" if exists(path) else "there is no such model folder"
        raise ModelFolderError(f"{path}: {kind}: give a folder that `regard train` wrote.")
    file = path / CONFIG
    if not exists(file):
        if (path / "training").is_dir():
            remedy = f"its training is not finished: resume it with `regard train --resume {path}`"
        else:
            remedy = "give a folder that `regard train` wrote"
        raise ModelFolderError(f"{path}: holds no model ({CONFIG} is missing): {remedy}.")
    table = read_json(file, CONFIG_BYTES)
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


def read_metrics(folder: Path) -> dict[str, Any]:
    """What training measured, if the folder tells; what others rely on has the right types."""
    path = folder / METRICS
    if not exists(path):
        return {}
    metrics = read_json(path, METRICS_BYTES)
    data = metrics.get("data")
    faults = [
        name
        for name, kind in METRIC_TYPES.items()
        if name in metrics and (not isinstance(metrics[name], kind) or isinstance(metrics[name], bool))
    ]
    if isinstance(data, dict) and not all(isinstance(part, dict) for part in data.values()):
        faults.append("data")
    if faults:
        raise ModelFolderError(f"{path}: is damaged ({faults[0]} has another type): {RESTORE}, or delete the file.")
    return metrics
