"""The box: models installed by the package `regard-models`, and their names. Needs no torch.

`de-en/bahdanau` is a model folder of the package, `de-en` the one with the best test score of its group. A model folder
of the user's with such a name wins, with a warning.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from regard.config.recipes import model_kind
from regard.errors import ConfigError, ModelFolderError, did_you_mean
from regard.storage.folder import SHORTLIST
from regard.storage.reading import CONFIG_BYTES, METRICS_BYTES, RESTORE, exists, read_bounded, read_json

PACKAGE = "regard_models"
CHECKOUT = Path("packages/regard-models") / PACKAGE  # in a clone of the repository
INSTALL = "pip install 'regard[models]'"
SENTENCES = "sentences.tsv"  # of our own, a column for each language; the floor is measured on them
COMPARED = "comparison.tsv"  # the same with short, middle and long sentences, for `regard compare`
CONFIG, METRICS = "config.json", "metrics.json"


class BoxWarning(UserWarning):
    """A name means both an installed model and a local folder."""


class Figure(BaseModel):
    """A score of a boxed model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    metric: str  # BLEU, or accuracy in per cent
    value: float
    data: str
    before: float | None = None  # before the weights were made compact
    signature: str | None = None


class Record(BaseModel):
    """The entry `box` in metrics.json of a boxed model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    licence: str
    attribution: str
    test: Figure
    floor: Figure  # the least score on sentences of our own, for the tests
    weights: str  # SHA-256 of the weights before they were compact


@dataclass(frozen=True)
class BoxedModel:
    """An installed model."""

    name: str  # group/architecture
    folder: Path
    kind: str
    languages: tuple[str, str] | None
    record: Record

    @property
    def group(self) -> str:
        """The first part of the name."""
        return self.name.partition("/")[0]

    @property
    def bytes(self) -> int:
        """The size of its files."""
        return sum(path.stat().st_size for path in self.folder.iterdir() if path.is_file())


def box_folder() -> Path | None:
    """The folder of the package with the models, installed or in a checkout; None if there is none."""
    spec = find_spec(PACKAGE)
    places = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    places.append(Path(__file__).parents[2] / CHECKOUT)
    return next((place for place in places if place.is_dir()), None)


def boxed_names() -> list[str]:
    """The names of installed models and of their groups."""
    models = [f"{folder.parent.name}/{folder.name}" for folder in _folders("*/*")]
    return sorted({*models, *(name.partition("/")[0] for name in models)})


def boxed_models(pattern: str = "*", root: Path | None = None) -> list[BoxedModel]:
    """The models, installed or in `root`, whose names match a pattern such as `de-en/*`; the best of a group first."""
    models = [_read(folder) for folder in _folders("*/*", root)]
    found = [model for model in models if fnmatchcase(model.name, pattern)]
    return sorted(found, key=lambda model: (model.group, -model.record.test.value, model.name))


def tested_figure(metrics: Mapping[str, Any]) -> Figure | None:
    """The test score in the metrics of a boxed model; None for any other model."""
    try:
        return Record.model_validate(metrics.get("box")).test
    except ValidationError:
        return None


def own_sentences(root: Path | None = None, file: str = SENTENCES) -> list[dict[str, str]]:
    """Sentences of our own, by language; none without the package."""
    root = root or box_folder()
    if root is None or not exists(root / file):
        return []
    names, *rows = read_bounded(root / file, METRICS_BYTES).decode("utf-8").splitlines()
    return [dict(zip(names.split("\t"), row.split("\t"), strict=True)) for row in rows]


def expanded(word: str) -> list[str]:
    """The names of the installed models that match a pattern such as `de-en/*`; any other word as it is."""
    if "*" not in word or exists(Path(word)):
        return [word]
    if names := [model.name for model in boxed_models(word)]:
        return names
    known = boxed_names()
    remedy = f"installed are {', '.join(known)}" if known else f"name a model folder, or install models: {INSTALL}"
    raise ModelFolderError(f"{word}: no installed model has such a name: {remedy}.")


def model_folder(model: str | Path) -> Path:
    """The folder of a model that is given by its path or by the name of an installed model."""
    if not isinstance(model, str | Path):
        raise ConfigError(f"{model!r} is not a model: give the path of its folder, or the name of an installed model.")
    path = Path(model)
    boxed = path.as_posix() in boxed_names()
    if exists(path / CONFIG):
        if boxed:
            warnings.warn(f"{path}: the folder here is used, not the installed model.", BoxWarning, stacklevel=2)
            return path.absolute()  # an absolute path is never an installed name: one warning only
        return path
    if not boxed:
        if exists(path):
            return path  # its reader says what is wrong with it
        raise ModelFolderError(f"{path}: {_unknown(path.as_posix())}")
    if os.path.isdir(path):
        said = f"{path}: the folder here holds no model: the installed model is used."
        warnings.warn(said, BoxWarning, stacklevel=2)
    return _best(path.as_posix())


def is_installed(folder: Path) -> bool:
    """Whether a folder belongs to the installed models, which are read-only."""
    root = box_folder()
    return root is not None and folder.resolve().is_relative_to(root.resolve())


def _folders(pattern: str, root: Path | None = None) -> list[Path]:
    """The model folders in the box; a hidden one, such as `de-en/.transformer.part`, is an unfinished packing."""
    root = root or box_folder()
    folders = [] if root is None else sorted(path.parent for path in root.glob(f"{pattern}/{CONFIG}"))
    return [path for path in folders if not path.parent.name.startswith(".") and not path.name.startswith(".")]


def _best(name: str) -> Path:
    """The folder of an installed model, or of the best one of a group."""
    (first, *others) = _folders(name if "/" in name else f"{name}/*")
    models = [_read(folder) for folder in (first, *others)] if others else []
    return max(models, key=lambda model: model.record.test.value).folder if models else first


def _unknown(name: str) -> str:
    known = boxed_names()
    if not known:
        return f"there is no such model folder: give a folder that `regard train` wrote, or install models: {INSTALL}."
    nearest = did_you_mean(name, known)
    installed = f" Installed: {', '.join(known)}." if nearest.startswith("did") else ""
    return f"there is no such model folder or installed model: {nearest}{installed}"


def _read(folder: Path) -> BoxedModel:
    config: dict[str, Any] = read_json(folder / CONFIG, CONFIG_BYTES)
    text = config.get("text")
    languages = text.get("languages") if isinstance(text, dict) else None
    pair = tuple(map(str, languages)) if isinstance(languages, list) else ()
    try:
        record = Record.model_validate(read_json(folder / METRICS).get("box"))
    except ValidationError:
        raise ModelFolderError(f"{folder / METRICS}: is no installed model's: {RESTORE}.") from None
    return BoxedModel(
        name=f"{folder.parent.name}/{folder.name}",
        folder=folder,
        kind=model_kind(config),
        languages=(pair[0], pair[1]) if len(pair) == 2 else None,
        record=record,
    )


def check_shortlist(model: str | Path) -> None:
    """Refuse to translate with the shortlist of a model that has none; `model` is what the user calls it."""
    folder = model_folder(model)
    if exists(folder / SHORTLIST):
        return
    remedy = f"make one with `regard shortlist {model}`"
    if is_installed(folder):
        remedy = f"copy {folder} and make one there (`regard shortlist COPY --train SOURCE TARGET`)"
    raise ConfigError(f"{model}: this model has no shortlist: {remedy}, or translate without --shortlist.")
