"""Start of a training: its recipe and its output folder."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from shlex import quote

from regard.config.recipes import TaskRecipe, load_recipe, load_recipe_as, with_overrides
from regard.config.settings import AnyRecipe, Recipe
from regard.errors import ConfigError, ModelFolderError
from regard.inference.box import model_folder
from regard.inference.folder import Folder, read_folder
from regard.models.contract import Predictor
from regard.storage.folder import holds_finished_model, holds_model, model_files
from regard.storage.run import holds_run
from regard.training.checkpoint import Checkpoints

FilePath = str | PathLike[str]


def choose_recipe(
    recipe: TaskRecipe | FilePath | None, start_from: FilePath | None, overrides: Sequence[str]
) -> tuple[TaskRecipe, Folder | None]:
    """The recipe with its overrides; for fine-tuning, the folder's model and text settings, and its recipe if none."""
    if start_from is None:
        if recipe is None:
            raise ConfigError("no recipe was given: name one (see `regard recipes`), or a model with --from.")
        if isinstance(recipe, AnyRecipe):
            return with_overrides(recipe, overrides), None
        return load_recipe(Path(recipe), overrides), None
    folder = read_folder(model_folder(Path(start_from)))
    if recipe is None:
        return with_overrides(folder.recipe, overrides), folder
    if not isinstance(recipe, AnyRecipe):
        recipe = load_recipe_as(Recipe, Path(recipe))
    if not isinstance(recipe, Recipe):
        raise ConfigError(f"--from: a {recipe.model.kind} cannot start from another model: leave it out.")
    merged = recipe.model_copy(update={"model": folder.recipe.model, "text": folder.recipe.text})
    return with_overrides(merged, overrides), folder


def check_out(out: Path, overwrite: bool) -> None:
    """Refuse a folder that already holds a model or a training, or files of others under their names."""
    if out.exists() and not out.is_dir():
        raise ModelFolderError(f"{out}: is a file: choose another --out folder.")
    _check_training_folder(out / "training")
    if overwrite:
        return
    if holds_finished_model(out):
        raise ModelFolderError(f"{out}: holds a model already: choose another --out, or add --overwrite to replace it.")
    training = out / "training"
    if holds_run(training):
        if Checkpoints(training).latest() is None:
            raise ModelFolderError(f"{out}: holds a training without a checkpoint: add --overwrite to replace it.")
        resume = f"regard train --resume {quote(str(out))}"
        raise ModelFolderError(f"{out}: holds an unfinished training: resume it with `{resume}`, or add --overwrite.")
    if not holds_model(out) and (files := model_files(out)):
        raise ModelFolderError(
            f"{files[0]}: training would replace it: choose another --out folder, or add --overwrite to replace it."
        )


def _check_training_folder(training: Path) -> None:
    """OUT/training is removed with the training in it, so it must not be anything else."""
    if training.is_symlink() or (training.exists() and not training.is_dir()):
        raise ModelFolderError(
            f"{training}: is a link or a file, where Regard keeps its checkpoints: choose another --out folder."
        )
    if training.exists() and not holds_run(training) and any(training.iterdir()):
        raise ModelFolderError(
            f"{training}: holds files that are not of a training: choose another --out folder, or move them."
        )


def count_parameters(model: Predictor) -> int:
    """The number of parameters; shared ones count once."""
    return sum(parameter.numel() for parameter in model.parameters())
