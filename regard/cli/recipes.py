"""`regard architectures` and `regard recipes`: lists with papers and published scores."""

import textwrap
from collections.abc import Mapping
from typing import Annotated

import typer

from regard.errors import ConfigError, did_you_mean

WIDTH = 80
NONE = "none"  # also "none (see gnmt)", "none of its own"


def architectures(
    name: Annotated[str | None, typer.Argument(help="Show the settings of this one.", show_default=False)] = None,
) -> None:
    """List the architectures with their papers and the scores published there; with a name, its settings.

    \b
    regard architectures bahdanau
    """
    from regard.config.recipes import ARCHITECTURES

    if name is None:
        entries = {
            kind: (settings.title, _paper(settings.paper, settings.published))
            for kind, settings in ARCHITECTURES.items()
        }
        typer.echo(_listed(entries, max(map(len, entries))))
    elif name in ARCHITECTURES:
        typer.echo(_settings(name))
    else:
        raise ConfigError(f"there is no architecture '{name}': {did_you_mean(name, ARCHITECTURES)}")


def recipes(
    name: Annotated[
        str | None, typer.Argument(help="Print this recipe, as a start for your own.", show_default=False)
    ] = None,
) -> None:
    """List the recipes: what each is, its paper and the score published there; with a name, the recipe itself.

    \b
    regard recipes bahdanau > my.toml
    """
    from regard.config.recipes import load_recipe, recipe_folder, recipe_names
    from regard.config.settings import Recipe

    names = recipe_names()
    if name is None:
        groups: dict[str, dict[str, tuple[str, str]]] = {"Text": {}, "Images": {}}
        for known in names:
            recipe = load_recipe(recipe_folder() / f"{known}.toml")
            group = "Text" if isinstance(recipe, Recipe) else "Images"
            groups[group][known] = recipe.description, _paper(recipe.paper, recipe.published)
        width = max(map(len, names))
        listed = [f"{title}\n\n{_listed(entries, width)}" for title, entries in groups.items() if entries]
        typer.echo("\n\n".join(listed))
    elif (path := recipe_folder() / f"{name}.toml").is_file():  # also those of installed models, box/luong
        typer.echo(path.read_text("utf-8"), nl=False)
    else:
        raise ConfigError(f"there is no recipe '{name}': {did_you_mean(name, names)}")


def _settings(kind: str) -> str:
    """A model's title, paper and every setting with its default and its meaning."""
    from regard.config.recipes import ARCHITECTURES

    settings = ARCHITECTURES[kind]
    about = f"{kind}: {settings.title}", f"{settings.paper}: {settings.published}"
    lines = [*(textwrap.fill(line, WIDTH, subsequent_indent="    ") for line in about), ""]
    fields = {name: field for name, field in settings.model_fields.items() if name != "kind"}
    width = max(len(name) for name in fields)
    for name, field in fields.items():
        default = "none" if field.default is None else _toml(field.default)
        meaning = textwrap.fill(field.description or "", WIDTH, initial_indent="    ", subsequent_indent="    ")
        lines += [f"model.{name:<{width}} = {default}", meaning]
    return "\n".join(lines)


def _toml(value: object) -> str:
    """A setting's default as a recipe would write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{', '.join(_toml(each) for each in value)}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _paper(paper: str, published: str) -> str:
    """Where it comes from, and the score that was published."""
    return "" if paper.startswith(NONE) else paper if published.startswith(NONE) else f"{paper}: {published}"


def _listed(entries: Mapping[str, tuple[str, str]], width: int) -> str:
    """Names, each with its lines beside it, wrapped."""
    blank = " " * (width + 4)
    lines: list[str] = []
    for name, texts in entries.items():
        wrapped = [line for text in texts for line in textwrap.wrap(text, WIDTH - len(blank))]
        lines += [f"  {name:<{width}}  {wrapped[0]}", *(blank + line for line in wrapped[1:])]
    return "\n".join(lines)
