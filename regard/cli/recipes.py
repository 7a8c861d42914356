"""`regard models` and `regard recipes`: what there is, with the papers and their published scores."""

import textwrap
from typing import Annotated

import typer

from regard.errors import ConfigError, did_you_mean


def models(
    name: Annotated[str | None, typer.Argument(help="Show the settings of this model.", show_default=False)] = None,
) -> None:
    """List the architectures with their papers and published scores; with a name, its settings.

    Example: regard models bahdanau
    """
    from regard.config.recipes import ARCHITECTURES

    if name is None:
        rows = [(kind, settings.paper, settings.published) for kind, settings in ARCHITECTURES.items()]
        typer.echo(_columns([("model", "paper", "published"), *rows]))
    elif name in ARCHITECTURES:
        typer.echo(_settings(name))
    else:
        raise ConfigError(f"there is no model '{name}': {did_you_mean(name, ARCHITECTURES)}")


def recipes(
    name: Annotated[
        str | None, typer.Argument(help="Print this recipe, as a start for your own.", show_default=False)
    ] = None,
) -> None:
    """List the recipes with their papers and published scores; with a name, the recipe itself.

    Example: regard recipes bahdanau > my.toml
    """
    from regard.config.recipes import load_recipe, recipe_folder, recipe_names

    names = recipe_names()
    if name is None:
        loaded = [(known, load_recipe(recipe_folder() / f"{known}.toml")) for known in names]
        rows = [(known, recipe.paper, recipe.published) for known, recipe in loaded]
        typer.echo(_columns([("recipe", "paper", "published"), *rows]))
    elif name in names:
        typer.echo((recipe_folder() / f"{name}.toml").read_text("utf-8"), nl=False)
    else:
        raise ConfigError(f"there is no recipe '{name}': {did_you_mean(name, names)}")


def _settings(kind: str) -> str:
    """A model's title, paper and every setting with its default and its meaning."""
    from regard.config.recipes import ARCHITECTURES

    settings = ARCHITECTURES[kind]
    lines = [f"{kind}: {settings.title}", f"{settings.paper}: {settings.published}", ""]
    fields = {name: field for name, field in settings.model_fields.items() if name != "kind"}
    width = max(len(name) for name in fields)
    for name, field in fields.items():
        default = "none" if field.default is None else _toml(field.default)
        meaning = textwrap.fill(field.description or "", 80, initial_indent="    ", subsequent_indent="    ")
        lines += [f"model.{name:<{width}} = {default}", meaning]
    return "\n".join(lines)


def _toml(value: object) -> str:
    """A setting's default as a recipe would write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{', '.join(_toml(each) for each in value)}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _columns(rows: list[tuple[str, str, str]]) -> str:
    """Rows as columns with two blanks between them."""
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    return "\n".join(f"{first:<{widths[0]}}  {second:<{widths[1]}}  {third}".rstrip() for first, second, third in rows)
