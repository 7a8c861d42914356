"""Changes of a recipe, as `--set table.key=value` writes them: put into its table, and blamed for what they break."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel

from regard.config.base import Settings
from regard.config.settings import AnyRecipe
from regard.errors import ConfigError

FORM = "write it as table.key=value, such as training.learning_rate=3e-4"

# names from other toolkits -> the setting; of several, the one that the recipe's task has
ALIASES = {
    "lr": ("training.learning_rate",),
    "rate": ("training.learning_rate",),
    "time": ("training.budget",),
    "steps": ("training.updates",),
    "max_steps": ("training.updates",),
    "max_updates": ("training.updates",),
    "max_epochs": ("training.epochs",),
    "batch": ("training.batch_tokens", "training.batch_images"),
    "batch_size": ("training.batch_tokens", "training.batch_images"),
    "batch_tokens": ("training.batch_images",),
    "warmup_steps": ("training.warmup",),
    "clip": ("training.clip_norm",),
    "max_grad_norm": ("training.clip_norm",),
    "vocab": ("text.vocabulary_size",),
    "vocab_size": ("text.vocabulary_size",),
    "vocabulary": ("text.vocabulary_size",),
    "beam_size": ("search.beam",),
    "dim": ("model.hidden_size",),
    "d_model": ("model.hidden_size",),
    "num_heads": ("model.heads",),
    "num_layers": ("model.layers", "model.encoder_layers"),
}


class Override(str):
    """`table.key=value`, and how the user gave it: `--set …`, an option that is shorthand for it, or "" if implied."""

    said: str

    def __new__(cls, text: str, said: str | None = None) -> Override:
        made = super().__new__(cls, text)
        made.said = f"--set {text}" if said is None else said
        return made

    @classmethod
    def of(cls, text: str) -> Override:
        """The same, of any string."""
        return text if isinstance(text, Override) else cls(text)

    @property
    def path(self) -> list[str]:
        """The parts of the key."""
        return self.partition("=")[0].strip().split(".")


def put(table: dict[str, Any], override: Override, recipe: type[AnyRecipe]) -> None:
    """Write the value into the table of a recipe; whether it fits is checked later, with all the others."""
    _, equals, text = override.partition("=")
    parts = override.path
    if not equals or not all(parts):
        raise ConfigError(f"{override.said}: {FORM}.")
    try:
        value = tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a bare word is a string
    whole = table
    for part in parts[:-1]:
        inner = table.setdefault(part, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{override.said}: {part!r} is a value, not a table.")
        table = inner
    # TOML has no null: `none` unsets an optional setting; elsewhere it is a string, such as tie_embeddings = none.
    table[parts[-1]] = None if value == "none" and _may_be_unset(parts, whole, recipe) else value


def culprit(overrides: Sequence[Override], path: Sequence[str], *, unknown: bool) -> Override | None:
    """The last override of the setting at this path; of an unknown table, the last override of anything in it."""
    for each in reversed(overrides):
        shared = min(len(each.path), len(path)) if unknown else len(each.path)
        if each.path[:shared] == list(path[:shared]):
            return each
    return None


def unknown_setting(override: Override, recipe: type[AnyRecipe], table: Mapping[str, Any]) -> str:
    """A line about a key that the recipe does not have: the full name of what was probably meant."""
    key = ".".join(override.path)
    return f"{override.said}: there is no setting {key!r}: {_nearest_setting(key, recipe, table)}"


def _nearest_setting(key: str, recipe: type[AnyRecipe], table: Mapping[str, Any]) -> str:
    names = list(_setting_names(recipe, table))
    last = key.rpartition(".")[2].lower().replace("-", "_")
    found = [name for name in ALIASES.get(last, ()) if name in names]
    found = found or [name for name in names if name.rpartition(".")[2] == last]
    found = found or get_close_matches(key, names, n=1, cutoff=0.75)
    if not found:
        near = get_close_matches(last, [name.rpartition(".")[2] for name in names], n=1, cutoff=0.6)
        found = [name for name in names if name.rpartition(".")[2] in near]
    if not found:
        return "see `regard settings`."
    return f"did you mean {' or '.join(found)}?"


def _setting_names(recipe: type[AnyRecipe], table: Mapping[str, Any]) -> Iterator[str]:
    for group in recipe.model_fields:
        settings = settings_at([group], recipe, table)
        if settings is not recipe:
            yield from (f"{group}.{name}" for name in settings.model_fields)


def settings_at(path: Sequence[str], settings: type[BaseModel], table: Mapping[str, Any]) -> type[BaseModel]:
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
        tables = [choice for choice in choices if isinstance(choice, type) and issubclass(choice, BaseModel)]
        if not tables:
            break
        settings = tables[0]
    return settings


def _may_be_unset(path: list[str], table: dict[str, Any], recipe: type[AnyRecipe]) -> bool:
    field = settings_at(path[:-1], recipe, table).model_fields.get(path[-1])
    return field is not None and type(None) in get_args(field.annotation)
