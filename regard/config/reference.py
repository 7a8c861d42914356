"""The settings reference: every setting with its type, default and meaning, and the recipes that change it.

It is read off the settings themselves, so it cannot drift from them. `regard settings` and docs/settings.md show it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from regard.config.base import Settings
from regard.config.captioning import CaptionRecipe
from regard.config.classification import ClassifierRecipe
from regard.config.overrides import ALIASES
from regard.config.recipes import TASK_RECIPES, TaskRecipe, load_recipe, recipe_folder, recipe_names
from regard.config.settings import Recipe

TABLES = ("model", "text", "images", "training", "search")
TYPES = {str: "string", int: "integer", float: "float", bool: "boolean", NoneType: "none"}
TASKS = {Recipe: "translation", CaptionRecipe: "captioning", ClassifierRecipe: "classification"}


@dataclass(frozen=True)
class Setting:
    """One setting, as a recipe writes it: `name = value` below its table."""

    name: str  # training.learning_rate
    type: str
    default: str
    meaning: str
    tasks: tuple[str, ...]  # the tasks that have it; empty: all that have its table
    models: tuple[str, ...]  # the model.kind that have it; empty: all of the tasks
    recipes: Mapping[str, str]  # the recipes of these tasks and models that change it, with their values

    @property
    def applies_to(self) -> tuple[str, ...]:
        """The models or tasks that have it; empty: all that have its table."""
        return self.models or self.tasks


def all_settings() -> list[Setting]:
    """Every setting of every task, table by table."""
    loaded = {name: load_recipe(recipe_folder() / f"{name}.toml") for name in recipe_names()}
    found: dict[tuple[str, str, str], Setting] = {}
    for recipe in TASK_RECIPES:
        own = {name: each for name, each in loaded.items() if type(each) is recipe}
        for table, models, settings in _tables(recipe):
            for field_name, field in settings.model_fields.items():
                if field_name == "kind":
                    continue
                setting = _setting(f"{table}.{field_name}", field, TASKS[recipe], models, own)
                key = setting.name, setting.default, setting.meaning
                same = found.get(key)
                found[key] = setting if same is None else _joined(same, setting)
    settings_found = [_without_all_tasks(setting) for setting in found.values()]
    return sorted(settings_found, key=lambda each: TABLES.index(each.name.split(".")[0]))


def matching(pattern: str) -> list[Setting]:
    """The settings whose name holds the pattern, or a word of whose meaning begins with it."""
    settings, wanted = all_settings(), pattern.lower()
    names = {wanted, *ALIASES.get(wanted, ())}
    exact = [each for each in settings if names & {each.name, each.name.split(".")[1]}]
    if exact:
        return exact
    word = re.compile(rf"\b{re.escape(wanted)}")
    return [each for each in settings if wanted in each.name or word.search(each.meaning.lower())]


def _without_all_tasks(setting: Setting) -> Setting:
    """Every task that has the table has the setting: none is named."""
    table = setting.name.split(".")[0]
    having = tuple(TASKS[recipe] for recipe in TASK_RECIPES if table in recipe.model_fields)
    return replace(setting, tasks=()) if setting.tasks == having else setting


def _tables(recipe: type[TaskRecipe]) -> Iterator[tuple[str, tuple[str, ...], type[Settings]]]:
    """Name, model kinds and settings of every table that a recipe of the task has."""
    for name, field in recipe.model_fields.items():
        if name == "model":
            yield from ((name, (kind,), settings) for kind, settings in recipe.models.items())
        elif isinstance(field.annotation, type) and issubclass(field.annotation, Settings):
            yield name, (), field.annotation


def _setting(
    name: str, field: FieldInfo, task: str, models: tuple[str, ...], loaded: Mapping[str, TaskRecipe]
) -> Setting:
    default = field.get_default(call_default_factory=True)
    return Setting(
        name=name,
        type=type_text(field.annotation),
        default="required" if field.is_required() else toml_text(default),
        meaning=field.description or "",
        tasks=(task,),
        models=models,
        recipes=dict(_changes(name, default, models, loaded)),
    )


def _changes(
    name: str, default: Any, models: tuple[str, ...], loaded: Mapping[str, TaskRecipe]
) -> Iterator[tuple[str, str]]:
    table, key = name.split(".")
    for recipe_name, recipe in loaded.items():
        settings = getattr(recipe, table, None)
        if settings is None or key not in type(settings).model_fields:
            continue
        if models and recipe.model.kind not in models:
            continue
        if (value := getattr(settings, key)) != default:
            yield recipe_name, toml_text(value)


def _joined(one: Setting, other: Setting) -> Setting:
    tasks = tuple(dict.fromkeys((*one.tasks, *other.tasks)))
    models = tuple(dict.fromkeys((*one.models, *other.models)))
    return replace(one, tasks=tasks, models=models, recipes={**one.recipes, **other.recipes})


def toml_text(value: object) -> str:
    """A value as a recipe writes it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return f"[{', '.join(toml_text(each) for each in value)}]"
    return f"{value:g}" if isinstance(value, float) else f'"{value}"' if isinstance(value, str) else str(value)


def type_text(annotation: Any) -> str:
    """A type in words: the choices of a literal, "float or none"."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_text(parts[0])
    if origin is Literal:
        return " | ".join(toml_text(choice) for choice in parts)
    if origin in (Union, UnionType):
        return " or ".join(type_text(part) for part in parts)
    if origin in (tuple, list):
        inner = [type_text(part) for part in parts if part is not Ellipsis]
        return f"list of {inner[0]}s" if len(set(inner)) == 1 else f"[{', '.join(inner)}]"
    return TYPES.get(annotation, "path" if getattr(annotation, "__name__", "") == "Path" else str(annotation))
