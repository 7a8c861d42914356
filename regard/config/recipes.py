"""Reading recipes: find by name, parse, apply `--set`, validate; validation errors in one line. Needs no torch."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from regard.config.base import Architecture
from regard.config.captioning import CaptionRecipe
from regard.config.classification import ClassifierRecipe
from regard.config.overrides import Override, culprit, put, settings_at, unknown_setting
from regard.config.settings import AnyRecipe, Recipe
from regard.errors import ConfigError, did_you_mean

AnyKind = TypeVar("AnyKind", bound=AnyRecipe)

TaskRecipe = Recipe | CaptionRecipe | ClassifierRecipe
"""A recipe of any task: translation, captioning, classification."""

TASK_RECIPES: tuple[type[TaskRecipe], ...] = (Recipe, CaptionRecipe, ClassifierRecipe)

# model.kind -> the settings of the architecture, in any task
ARCHITECTURES: dict[str, type[Architecture]] = {
    kind: settings for recipe in TASK_RECIPES for kind, settings in recipe.models.items()
}


def recipe_folder() -> Path:
    """The folder of recipes: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).parent.parent
    installed = package / "recipes"
    return installed if installed.is_dir() else package.parent / "recipes"


def recipe_names() -> list[str]:
    """Names of the built-in recipes."""
    return sorted(path.stem for path in recipe_folder().glob("*.toml"))


def load_recipe(name: str | Path, overrides: Sequence[str] = ()) -> TaskRecipe:
    """The recipe of a name (`bahdanau`, `captioner`) or a file, with `table.key=value` overrides."""
    table, path = _read_recipe(name)
    return check_as(recipe_type(table), table, str(path), overrides)


def load_recipe_as(kind: type[AnyKind], name: str | Path, overrides: Sequence[str] = ()) -> AnyKind:
    """The recipe of a name or a file, for one task only."""
    table, path = _read_recipe(name)
    if (found := model_kind(table)) in ARCHITECTURES and found not in kind.models:
        raise ConfigError(f"{name}: is the recipe of a {found}: give one of {', '.join(kind.models)}.")
    return check_as(kind, table, str(path), overrides)


def recipe_type(table: Mapping[str, Any]) -> type[TaskRecipe]:
    """The recipe class of an unvalidated table by its model.kind; translation if that is unknown."""
    kind = model_kind(table)
    return next((recipe for recipe in TASK_RECIPES if kind in recipe.models), Recipe)


def model_kind(table: Mapping[str, Any]) -> str:
    """The model.kind of an unvalidated table; empty if there is none."""
    model = table.get("model")
    return str(model.get("kind", "")) if isinstance(model, dict) else ""


def _read_recipe(name: str | Path) -> tuple[dict[str, Any], Path]:
    """The unvalidated table of a recipe by name or file, and its path."""
    path = _recipe_path(name)
    try:
        return tomllib.loads(path.read_text("utf-8")), path
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a folder, not a recipe: name a .toml file.") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text (byte {error.start}): a recipe is a TOML file.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is not valid TOML: {error}.") from None


def check_recipe(table: dict[str, Any], where: str) -> Recipe:
    """Validate a parsed table; raise the first error in one line."""
    return check_as(Recipe, table, where)


def check_as(kind: type[AnyKind], table: dict[str, Any], where: str, overrides: Sequence[str] = ()) -> AnyKind:
    """Apply `table.key=value` overrides to a parsed table and validate it as a recipe of this kind."""
    if isinstance(overrides, str):  # its letters would be taken for overrides
        raise ConfigError(f"overrides: {overrides!r} is one string: give a list, [{overrides!r}].")
    changes = [Override.of(override) for override in overrides]
    original = deepcopy(table) if changes else table
    for change in changes:
        put(table, change, kind)
    try:
        return kind.model_validate(table)
    except ValidationError as error:
        message = _explain_changed(error, kind, table, changes)
        if message is None and changes and _is_valid(kind, original):
            where = _all_blamed(error, kind, changes)
        raise ConfigError(message or f"{where}: {explain(error, kind, table)}") from None


def _explain_changed(
    error: ValidationError, kind: type[AnyRecipe], table: dict[str, Any], changes: Sequence[Override]
) -> str | None:
    """The message about an override that is wrong in itself; None if the error is about another setting."""
    first = error.errors(include_url=False)[0]
    unknown = first["type"] == "extra_forbidden"
    guilty = culprit(changes, _path(first, kind), unknown=unknown)
    if guilty is None:
        return None
    if unknown:
        return unknown_setting(guilty, kind, table)
    return f"{guilty.said}: {explain(error, kind, table)}"


def _all_blamed(error: ValidationError, kind: type[AnyRecipe], changes: Sequence[Override]) -> str:
    """The overrides of the table that a validation error is about, or all of them, as the user gave them."""
    table = _path(error.errors(include_url=False)[0], kind)[:1]
    given = [change for change in changes if change.said]
    return " ".join(change.said for change in [each for each in given if each.path[:1] == table] or given)


def _is_valid(kind: type[AnyRecipe], table: dict[str, Any]) -> bool:
    try:
        kind.model_validate(table)
    except ValidationError:
        return False
    return True


def with_overrides(recipe: AnyKind, overrides: Sequence[str]) -> AnyKind:
    """The recipe with `table.key=value` overrides applied."""
    if not overrides:
        return recipe
    return check_as(type(recipe), recipe.model_dump(mode="json"), "--set", overrides)


def explain(error: ValidationError, settings: type[BaseModel], table: dict[str, Any]) -> str:
    """The first validation error of pydantic in one line: key, value, cause, remedy."""
    first = error.errors(include_url=False)[0]
    path = _path(first, settings)
    models = settings.models if issubclass(settings, AnyRecipe) else {}
    key = ".".join(path)
    if first["type"] == "extra_forbidden":
        known = settings_at(path[:-1], settings, table).model_fields
        return f"unknown key {key!r}: {did_you_mean(path[-1], known)}"
    if first["type"] == "missing":
        return f"the key {key!r} is missing: add it."
    if first["type"] in ("union_tag_invalid", "union_tag_not_found"):
        kind = table.get("model", {}).get("kind") if isinstance(table.get("model"), dict) else None
        if isinstance(kind, str) and kind in ARCHITECTURES:
            return f"model.kind = {kind!r} is for another task: choose one of {', '.join(models)}."
        return f"model.kind = {kind!r}: there is no such model: {did_you_mean(str(kind), ARCHITECTURES)}"
    message = first["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:] if message[:5] == "Input" else message
    if first["type"] == "value_error":
        return f"{key}: {message}." if key else f"{message}."
    value = repr(first["input"])
    return f"{key} = {value if len(value) <= 200 else value[:199] + '…'}: {message}."


def _path(first: ErrorDetails, settings: type[BaseModel]) -> list[str]:
    """The key that a validation error of pydantic is about."""
    path = [str(part) for part in first["loc"]]
    # pydantic names the chosen member of the [model] union as an extra part of the path
    if len(path) > 1 and path[0] == "model" and issubclass(settings, AnyRecipe) and path[1] in settings.models:
        del path[1]
    return path


def _recipe_path(name: str | Path) -> Path:
    path = Path(name)
    if path.is_file():
        return path
    folder = recipe_folder()
    shipped = folder / f"{path.stem if path.parent.name in ('', folder.name) else path}.toml"
    if path.suffix in ("", ".toml") and shipped.exists():
        return shipped  # a folder of the same name is no recipe
    if path.exists():
        return path
    raise ConfigError(f"{name}: there is no such recipe or file: {did_you_mean(path.stem, recipe_names())}")
