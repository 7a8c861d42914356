"""Reading recipes: find by name, parse, apply `--set`, validate; validation errors in one line. Needs no torch."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from regard.config.base import Architecture, Settings
from regard.config.captioning import CaptionRecipe
from regard.config.classification import ClassifierRecipe
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
    for override in overrides:
        _override(table, override, kind)
    try:
        return kind.model_validate(table)
    except ValidationError as error:
        raise ConfigError(f"{where}: {explain(error, kind, table)}") from None


def with_overrides(recipe: AnyKind, overrides: Sequence[str]) -> AnyKind:
    """The recipe with `table.key=value` overrides applied."""
    if not overrides:
        return recipe
    return check_as(type(recipe), recipe.model_dump(mode="json"), "--set", overrides)


def explain(error: ValidationError, settings: type[BaseModel], table: dict[str, Any]) -> str:
    """The first validation error of pydantic in one line: key, value, cause, remedy."""
    first = error.errors(include_url=False)[0]
    path = [str(part) for part in first["loc"]]
    # pydantic names the chosen member of the [model] union as an extra part of the path
    models = settings.models if issubclass(settings, AnyRecipe) else {}
    if len(path) > 1 and path[0] == "model" and path[1] in models:
        del path[1]
    key = ".".join(path)
    if first["type"] == "extra_forbidden":
        known = _settings_at(path[:-1], settings, table).model_fields
        return f"unknown key {key!r}: {did_you_mean(path[-1], known)}"
    if first["type"] == "missing":
        return f"the key {key!r} is missing: add it."
    if first["type"] in ("union_tag_invalid", "union_tag_not_found"):
        kind = table.get("model", {}).get("kind") if isinstance(table.get("model"), dict) else None
        if kind in ARCHITECTURES:
            return f"model.kind = {kind!r} is for another task: choose one of {', '.join(models)}."
        return f"model.kind = {kind!r}: there is no such model: {did_you_mean(str(kind), ARCHITECTURES)}"
    message = first["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:] if message[:5] == "Input" else message
    if first["type"] == "value_error":
        return f"{key}: {message}." if key else f"{message}."
    value = repr(first["input"])
    return f"{key} = {value if len(value) <= 200 else value[:199] + '…'}: {message}."


def _may_be_unset(path: list[str], table: dict[str, Any], recipe: type[AnyRecipe]) -> bool:
    field = _settings_at(path[:-1], recipe, table).model_fields.get(path[-1])
    return field is not None and type(None) in get_args(field.annotation)


def _settings_at(path: list[str], settings: type[BaseModel], table: dict[str, Any]) -> type[BaseModel]:
    """The settings class of a recipe table, or of its nearest existing parent."""
    for part in path:
        if part == "model" and issubclass(settings, AnyRecipe):
            model = table.get("model")
            kind = model.get("kind", "") if isinstance(model, dict) else ""
            settings = settings.models.get(kind, Settings)
            continue
        if part not in settings.model_fields:
            break
        annotation = settings.model_fields[part].annotation
        choices = [annotation, *get_args(annotation)]
        settings = next(choice for choice in choices if isinstance(choice, type) and issubclass(choice, BaseModel))
    return settings


def _recipe_path(name: str | Path) -> Path:
    path = Path(name)
    if path.exists():
        return path
    folder = recipe_folder()
    shipped = folder / f"{path.stem if path.parent.name in ('', folder.name) else path}.toml"
    if path.suffix in ("", ".toml") and shipped.exists():
        return shipped
    raise ConfigError(f"{name}: there is no such recipe or file: {did_you_mean(path.stem, recipe_names())}")


def _override(table: dict[str, Any], override: str, recipe: type[AnyRecipe]) -> None:
    key, equals, text = override.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        raise ConfigError(f"--set {override}: write it as table.key=value, such as training.learning_rate=3e-4.")
    try:
        value = tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a bare word is a string
    whole = table
    for part in parts[:-1]:
        inner = table.setdefault(part, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"--set {override}: {part!r} is a value, not a table.")
        table = inner
    # TOML has no null: `none` unsets an optional setting; elsewhere it is a string, such as tie_embeddings = none.
    table[parts[-1]] = None if value == "none" and _may_be_unset(parts, whole, recipe) else value
