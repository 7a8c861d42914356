"""`regard settings`: the settings of recipes, which `--set` changes."""

import json
import textwrap
from difflib import get_close_matches
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.config.reference import Setting

WIDTH = 80


class SettingsFormat(StrEnum):
    """How the settings are printed."""

    text = "text"
    json = "json"


def settings(
    pattern: Annotated[
        str | None,
        typer.Argument(help="Part of a name (dropout, training.) or of a description.", show_default=False),
    ] = None,
    output_format: Annotated[
        SettingsFormat, typer.Option("--format", help="text: for reading; json: one list.")
    ] = SettingsFormat.text,
) -> None:
    """List the settings of recipes: name, default, type, meaning, and which recipes change them.

    Without a pattern, one line each. Change a setting with `regard train RECIPE --set NAME=VALUE`.

    \b
    regard settings learning_rate
    """
    from regard.config.reference import all_settings, matching

    found = all_settings() if pattern is None else matching(pattern)
    if not found:
        names = [setting.name for setting in all_settings()]
        nearest = get_close_matches(str(pattern), [*names, *(name.split(".")[1] for name in names)], n=1, cutoff=0.6)
        remedy = f"did you mean '{nearest[0]}'?" if nearest else "`regard settings` lists all of them."
        raise ConfigError(f"no setting matches '{pattern}': {remedy}")
    if output_format is SettingsFormat.json:
        typer.echo(json.dumps([vars(setting) for setting in found], ensure_ascii=False, default=list))
    elif pattern is None:
        names = [setting.name for setting in found]
        typer.echo("\n".join(_line(setting, names.count(setting.name) > 1) for setting in found))
    else:
        typer.echo("\n\n".join(_entry(setting) for setting in found))


def _line(setting: "Setting", with_scope: bool) -> str:
    """One line; one of several settings of the same name says which models or tasks have it."""
    scope = f" ({', '.join(setting.applies_to)})" if with_scope else ""
    return textwrap.shorten(f"{setting.name} = {setting.default}{scope}  {setting.meaning}", WIDTH, placeholder=" …")


def _entry(setting: "Setting") -> str:
    lines = [f"{setting.name} = {setting.default}", *_wrapped(setting.meaning), *_wrapped(f"type: {setting.type}")]
    if setting.tasks and not setting.models:
        lines += _wrapped(f"tasks: {', '.join(setting.tasks)}")
    if setting.models:
        lines += _wrapped(f"models: {', '.join(setting.models)}")
    if setting.recipes:
        lines += _wrapped("recipes: " + ", ".join(f"{name} {value}" for name, value in setting.recipes.items()))
    return "\n".join(lines)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="    ", subsequent_indent="    ")
