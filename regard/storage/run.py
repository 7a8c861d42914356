"""run.json in OUT/training: the data and the recipe of a training, needed to resume it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from regard import __version__
from regard.config.recipes import TaskRecipe, check_as, recipe_type
from regard.config.settings import AnyRecipe
from regard.errors import ModelFolderError
from regard.storage.files import write_json
from regard.storage.reading import read_json

RUN = "run.json"


class RunFile(NamedTuple):
    """The recipe of a training and the description of its data."""

    recipe: TaskRecipe
    about: dict[str, Any]  # "data" for the model card; a classifier's "classes"


def holds_run(folder: Path) -> bool:
    """Whether OUT/training holds a training."""
    return (folder / RUN).exists()


def write_run(folder: Path, recipe: AnyRecipe, **about: Any) -> None:
    """Write run.json, last: it marks the training folder as complete."""
    write_json(folder / RUN, {"version": __version__, "recipe": recipe.model_dump(mode="json"), **about})


def read_run(folder: Path) -> RunFile:
    """Read and check run.json."""
    if not holds_run(folder):
        raise ModelFolderError(
            f"{folder.parent}: holds no unfinished training: start one with `regard train RECIPE --train … --out …`."
        )
    record = read_json(folder / RUN)
    if (version := record.pop("version", None)) != __version__:
        raise ModelFolderError(
            f"{folder / RUN}: was written by Regard {version}, and this is {__version__}: "
            "resume with that version, or start training anew."
        )
    table = record.pop("recipe", None)
    if not isinstance(table, dict) or not isinstance(record.get("data"), dict):
        raise ModelFolderError(f"{folder / RUN}: is damaged (no recipe or no data): start a new training.")
    return RunFile(check_as(recipe_type(table), table, str(folder / RUN)), record)
