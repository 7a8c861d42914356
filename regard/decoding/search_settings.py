"""The settings of one search: the recipe's, overridden by the caller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from regard.config.recipes import explain, with_overrides
from regard.config.settings import Recipe, SearchSettings
from regard.errors import ConfigError

SearchChanges = SearchSettings | Mapping[str, Any] | None
"""Search settings, or overrides of the recipe's by name."""


def chosen_settings(
    recipe: SearchSettings, search: SearchChanges = None, *, beam: int | None = None, n_best: int | None = None
) -> SearchSettings:
    """The recipe's search settings with overrides; `beam` and `n_best` are shortcuts."""
    base = search if isinstance(search, SearchSettings) else recipe
    changes: dict[str, Any] = {} if search is None or isinstance(search, SearchSettings) else dict(search)
    changes |= {name: value for name, value in (("beam", beam), ("n_best", n_best)) if value is not None}
    return changed_settings(base, changes)


def changed_settings(base: SearchSettings, changes: Mapping[str, Any]) -> SearchSettings:
    """Search settings with overrides by name; `n_best` without `beam` raises the beam to it."""
    if not changes:
        return base
    table = base.model_dump() | dict(changes)
    if "beam" not in changes and isinstance(table["n_best"], int):
        table["beam"] = max(base.beam, table["n_best"])
    try:
        return SearchSettings.model_validate(table)
    except ValidationError as error:
        raise ConfigError(f"search: {explain(error, SearchSettings, table)}") from None


def overridden_settings(recipe: Recipe, overrides: Sequence[str]) -> SearchSettings:
    """The recipe's search settings with `--set search.key=value`; other settings of a trained model are fixed."""
    changed = with_overrides(recipe, overrides)
    for override in overrides:
        if not override.strip().startswith("search."):
            raise ConfigError(f"--set {override}: only search settings can change now: write search.key=value.")
    return changed.search
