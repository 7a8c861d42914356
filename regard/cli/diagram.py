"""`regard diagram`: a model unrolled over a short sentence."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.errors import ConfigError, ModelFolderError
from regard.inference.box import boxed_names, model_folder
from regard.storage.reading import CONFIG_BYTES, read_json

if TYPE_CHECKING:
    from regard.config.settings import Recipe


def diagram(
    recipe: Annotated[
        str,
        typer.Argument(help="A recipe, by name or file, or a model.", show_default=False),
    ],
    source: Annotated[str, typer.Option(help="The source sentence, up to 8 words.")] = "the cat sat",
    target: Annotated[
        str | None,
        typer.Option(help="Its translation, up to 8 words. [default: y1 y2]", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The .svg file to write; without it, stdout.", show_default=False),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any setting: model.window=local-p.", show_default=False),
    ] = None,
) -> None:
    """Draw a model, unrolled over a short sentence, as SVG: the data flow of its recipe.

    \b
    regard diagram bahdanau --source "the cat sat" --output bahdanau.svg
    """
    from regard.look.views.pictures import check_picture_path, write_picture

    if output is not None:
        check_picture_path(output, ["svg"])
    svg = diagram_of(recipe, source, target, settings or ())
    if output is None:
        typer.echo(svg, nl=False)
    else:
        write_picture(output, svg.encode())
        typer.echo(f"wrote {output}", err=True)


def diagram_of(recipe: str, source: str, target: str | None = None, settings: Sequence[str] = ()) -> str:
    """The SVG of a recipe or a model folder, with `table.key=value` changes."""
    from regard.config.recipes import with_overrides
    from regard.look.views.diagram import build_diagram
    from regard.look.views.diagram_svg import draw_diagram

    read = with_overrides(_recipe_of(recipe), settings)
    graph = build_diagram(read.model, source, target)
    return draw_diagram(graph, Path(recipe).resolve().name.removesuffix(".toml"), _subtitle(read))


def _recipe_of(name: str) -> "Recipe":
    """The recipe of a name, a file or a model folder; reading a folder's config needs no torch."""
    from regard.config.recipes import check_recipe, load_recipe_as
    from regard.config.settings import Recipe

    folder = Path(name)
    if not folder.is_dir():
        if name not in boxed_names():
            return load_recipe_as(Recipe, name)
        folder = model_folder(name)
    try:
        table = read_json(folder / "config.json", CONFIG_BYTES)
        about = dict(table.pop("regard"))
    except (ModelFolderError, ValueError, KeyError, TypeError):
        from regard.inference.folder import read_folder

        return read_folder(folder).recipe  # it says what is wrong with the folder
    if about.get("model_class"):
        raise ConfigError(
            f"{name}: holds a model of your own class {about['model_class']}, which only its code describes: "
            "give a recipe of one of Regard's models."
        )
    return check_recipe(table, str(folder / "config.json"))


def _subtitle(recipe: "Recipe") -> str:
    model = recipe.model
    about = recipe.description.rstrip(".") or model.title
    paper = recipe.paper or model.paper
    return " ".join(f"{about} · {paper}".split())
