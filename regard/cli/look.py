"""`regard look`: the attention of a sentence, in the terminal, as a picture, an animation, a page or JSON."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.cli.options import MODEL_HELP, reads_images
from regard.errors import ConfigError
from regard.inference.box import model_folder

if TYPE_CHECKING:
    from regard.look.maps import Choice
    from regard.look.record import Look


MOST_PATH = 200  # characters of a file name


def look(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help=MODEL_HELP, show_default=False)],
    sentences: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SENTENCE",
            help="The sentence to translate, or several; for a captioner or classifier a PNG or JPEG file.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Draw a .png, .svg or .pdf picture, a .gif that plays the steps, or an .html page to explore.",
            show_default=False,
        ),
    ] = None,
    form: Annotated[
        Literal["text", "json"],
        typer.Option("--format", help="Print a matrix, or the whole record as JSON, a line for each sentence."),
    ] = "text",
    reference: Annotated[
        list[str] | None,
        typer.Option(help="Forced decoding of this translation or caption; one per sentence.", show_default=False),
    ] = None,
    prefix: Annotated[
        str | None, typer.Option(help="Target prefix: the translation begins with it.", show_default=False)
    ] = None,
    pieces: Annotated[bool, typer.Option("--pieces", help="Show subwords instead of words.")] = False,
    specials: Annotated[
        bool | None,
        typer.Option(
            "--specials/--no-specials",
            help="Show <s> and </s> (with --pieces: yes; else a column that holds the largest weight of a row).",
            show_default=False,
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(help="Attention to show: cross, encoder-self, decoder-self.", show_default=False),
    ] = None,
    layer: Annotated[int | None, typer.Option(help="Only this layer, counted from 1.", show_default=False)] = None,
    head: Annotated[int | None, typer.Option(help="Only this head, counted from 1.", show_default=False)] = None,
    average: Annotated[bool, typer.Option("--average", help="The average of each layer's heads.")] = False,
    entropy: Annotated[
        bool, typer.Option("--entropy", help="Add the entropy of each row, in bits, and the sum of each column.")
    ] = False,
    over_time: Annotated[
        bool,
        typer.Option(
            "--over-time", help="Show attention during training, for a sentence of `regard train --watch-sentence`."
        ),
    ] = False,
    beam: Annotated[int | None, typer.Option(help="Beam size; 1 is greedy search.", show_default=False)] = None,
    candidates: Annotated[int, typer.Option(min=1, help="JSON, HTML: most probable subwords of each step.")] = 5,
    tree: Annotated[
        bool, typer.Option("--tree", help="JSON: add the beam search tree, with pruned hypotheses.")
    ] = False,
    steps: Annotated[int | None, typer.Option(min=1, help="GIF: only the first steps.", show_default=False)] = None,
    size: Annotated[int, typer.Option(min=300, max=2000, help="GIF: its width in pixels.")] = 900,
    speed: Annotated[float, typer.Option(min=0.1, max=10, help="GIF: 2 is twice as fast.")] = 1.0,
    title: Annotated[str | None, typer.Option(help="A title for the picture.", show_default=False)] = None,
    font: Annotated[
        Path | None,
        typer.Option(help="A font file with the glyphs of your languages.", show_default=False),
    ] = None,
    fit: Annotated[bool, typer.Option("--fit", help="Resize and convert the image to a classifier's input.")] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda, mps.")] = "cpu",
) -> None:
    """Draw the attention of a sentence while it is translated, or of an image while it is captioned or classified.

    \b
    regard look models/en-fr "the black cat sleeps ."
    regard look models/en-fr "the black cat sleeps ." "a dog" --output map.png
    regard look models/en-fr "the black cat sleeps ." --output steps.gif --steps 3
    regard look models/transformer "the black cat sleeps ." --layer 2 --output heads.pdf
    regard look models/en-fr --over-time --output strip.png
    regard look models/scenes photo.png --output look.gif
    regard look de-en/bahdanau "Der Hund schläft unter dem Tisch."
    regard look models/fashion shirt.png --output look.png

    A model without attention shows its fixed context vector instead.
    """
    model = model_folder(model)
    if reads_images(model):
        from regard.cli.look_image import look_image

        look_image(context, model, sentences or [], output, form)
        return
    if fit:
        raise ConfigError("--fit: is for classifiers: leave it out.")
    from regard.look.maps import Choice
    from regard.look.views.pictures import check_picture_path
    from regard.look.views.save import FORMATS

    given, references = sentences or [], reference or []
    _refuse_files(given, model)
    _check(given, references, prefix, output, over_time)
    if output is not None:
        check_picture_path(output, FORMATS)
    choice = Choice(kind, layer, head, average, pieces, specials)
    if over_time:
        page = output is not None and output.suffix.lower() == ".html"
        looks = [_watched(model, given, candidates, device if page else None)]
    else:
        wants_tree = tree or (output is not None and output.suffix.lower() == ".html" and not references)
        looks = _looks(model, given, references, prefix, beam, candidates, wants_tree, device)
    if output is not None:
        _draw(looks, output, choice, entropy, title, font, steps, size, speed)
        typer.echo(f"wrote {output}", err=True)
    for number, each in enumerate(looks):
        if form == "json":
            typer.echo(each.to_json())
        elif output is not None:
            typer.echo(each.target.text)
        else:
            if number:
                typer.echo()
            _print(each, choice, entropy)


def _check(given: list[str], references: list[str], prefix: str | None, output: Path | None, over_time: bool) -> None:
    """Refuse invalid options before loading the model."""
    if not given and not over_time:
        raise ConfigError("no sentence was given: write it in quotation marks.")
    if any(not sentence.strip() for sentence in given):
        raise ConfigError("the sentence is empty: give some words, in quotation marks.")
    if any(not each.strip() for each in references):
        raise ConfigError("--reference is empty: give the translation to look at, or leave it out.")
    if references and len(references) != len(given):
        raise ConfigError(f"{len(given)} sentences but {len(references)} references: give one for each, or none.")
    if references and prefix:
        raise ConfigError("--reference is the whole translation: leave --prefix out.")
    if len(given) > 1 and (over_time or (output is not None and output.suffix.lower() == ".gif")):
        raise ConfigError("one sentence at a time, please: only pictures and pages show several.")


def _refuse_files(given: list[str], model: Path) -> None:
    """A file name is no sentence; a translator would translate its letters."""
    for sentence in given:
        image = sentence.lower().endswith((".png", ".jpg", ".jpeg")) and len(sentence.split()) == 1
        if image or Path(sentence[:MOST_PATH]).is_file():
            what = "an image, and this model translates text" if image else "a file"
            raise ConfigError(f"{sentence}: is {what}: give {model} the sentence itself, in quotation marks.")


def _looks(
    model: Path,
    sentences: list[str],
    references: list[str],
    prefix: str | None,
    beam: int | None,
    candidates: int,
    tree: bool,
    device: str,
) -> "list[Look]":
    from regard.inference.translator import Translator

    translator = Translator.load(model, device)
    return [
        translator.look(
            sentence,
            reference=references[number] if references else None,
            prefix=prefix,
            beam=beam,
            candidates=candidates,
            tree=tree,
        )
        for number, sentence in enumerate(sentences)
    ]


def _watched(model: Path, sentences: list[str], candidates: int, device: str | None) -> "Look":
    """The moments of a watched sentence; with a device the model of the folder adds its layers, heads and steps."""
    from regard.look.moments import watched_look

    kept = watched_look(model, sentences[0] if sentences else None)
    if device is None:
        return kept
    from regard.inference.translator import Translator

    reference = kept.target.text if kept.forced else None
    now = Translator.load(model, device).look(kept.source.text, reference=reference, candidates=candidates)
    return now.model_copy(update={"over_time": kept.over_time})


def _draw(
    looks: "list[Look]",
    output: Path,
    choice: "Choice",
    entropy: bool,
    title: str | None,
    font: Path | None,
    steps: int | None,
    size: int,
    speed: float,
) -> None:
    from regard.look.views.save import save_looks

    save_looks(looks, output, choice, measures=entropy, title=title, font=font, steps=steps, size=size, speed=speed)


def _print(each: "Look", choice: "Choice", entropy: bool) -> None:
    from rich.console import Console

    from regard.look.views.over_time import over_time_table
    from regard.look.views.terminal import look_table

    console = Console(highlight=False, markup=False, emoji=False)
    colour = console.is_terminal and not console.no_color
    digits = not console.encoding.lower().startswith("utf")
    if each.over_time is None:
        table = look_table(each, choice, width=console.width, colour=colour, digits=digits, measures=entropy)
        typer.echo(f"{each.target.text}\n")
    else:
        table = over_time_table(each, choice, width=console.width, colour=colour, digits=digits)
    console.print(table, no_wrap=True, overflow="ignore", crop=False)
