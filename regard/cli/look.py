"""`regard look`: the attention of one sentence, in the terminal or as a picture."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.errors import ConfigError, NoAttention

if TYPE_CHECKING:
    from regard.translation import Translation


def look(
    model: Annotated[Path, typer.Argument(help="A model folder that `regard train` wrote.", show_default=False)],
    sentence: Annotated[str, typer.Argument(help="The sentence to translate.", show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Draw a picture: a .png, .svg or .pdf file.", show_default=False),
    ] = None,
    pieces: Annotated[bool, typer.Option("--pieces", help="Show the model's pieces instead of words.")] = False,
    reference: Annotated[
        str | None,
        typer.Option(help="Look at this translation instead of the model's own.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print words and weights as JSON.")] = False,
    beam: Annotated[int | None, typer.Option(help="Hypotheses kept; 1 is greedy.", show_default=False)] = None,
    title: Annotated[str | None, typer.Option(help="A title for the picture.", show_default=False)] = None,
    font: Annotated[
        Path | None,
        typer.Option(help="A font file with the glyphs of your languages.", show_default=False),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, mps.")] = "cpu",
) -> None:
    """Translate a sentence and draw which source words each word of the translation looked at.

    Example: regard look models/en-fr "the black cat sleeps ." --output map.png
    """
    from regard.look.pictures import check_picture_path

    if not sentence.strip():
        raise ConfigError("the sentence is empty: give some words, in quotation marks.")
    if reference is not None and not reference.strip():
        raise ConfigError("--reference is empty: give the translation to look at, or leave it out.")
    if output is not None:
        check_picture_path(output)
    found = _translate(model, sentence, reference, beam, device)
    if output is not None:
        from regard.look.heatmap import save_heatmap

        save_heatmap(found, output, pieces=pieces, title=title, font=font)
        typer.echo(f"wrote {output}", err=True)
    if as_json:
        typer.echo(json.dumps(_plain(found, pieces), ensure_ascii=False))
    elif output is not None:
        typer.echo(found.text)
    else:
        _print(found, pieces)


def _translate(model: Path, sentence: str, reference: str | None, beam: int | None, device: str) -> "Translation":
    from regard.translator import Translator

    translator = Translator.load(model, device)
    if reference is not None:
        found = translator.force(sentence, reference, attention=True)
    else:
        found = translator.translate(sentence, beam=beam, attention=True)
    if found.alignment is None:
        raise NoAttention(
            f"{model}: a {translator.recipe.model.kind} model has no attention to look at: "
            "train one that has (see `regard models`)."
        )
    return found


def _plain(found: "Translation", pieces: bool) -> dict[str, Any]:
    """What the matrix shows, as plain values: one row of weights for each target word."""
    from regard.look.terminal import labelled_weights

    weights, source, target = labelled_weights(found, pieces)
    return {
        "source": found.source,
        "text": found.text,
        "log_probability": found.log_probability,
        "columns": source,
        "rows": target,
        "weights": [[round(float(weight), 6) for weight in row] for row in weights],
    }


def _print(found: "Translation", pieces: bool) -> None:
    from rich.console import Console

    from regard.look.terminal import translation_table

    console = Console(highlight=False, markup=False, emoji=False)
    colour = console.is_terminal and not console.no_color
    digits = not console.encoding.lower().startswith("utf")
    typer.echo(found.text)
    typer.echo()
    table = translation_table(found, pieces=pieces, width=console.width, colour=colour, digits=digits)
    console.print(table, no_wrap=True, overflow="ignore", crop=False)
