"""`regard look` for image models: a captioner word by word, a classifier module by module."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from regard.cli.options import only_options
from regard.errors import ConfigError, printable

if TYPE_CHECKING:
    from regard.inference.captioner import Captioner
    from regard.inference.classifier import Classifier
    from regard.look.record import Look

SHARED = ("model", "sentences", "output", "form", "device")
CAPTIONER = (*SHARED, "reference", "prefix", "beam", "candidates", "font", "title")
CLASSIFIER = (*SHARED, "fit")
FORMATS = ("png", "svg", "pdf", "gif", "html", "json")
LIKELIEST = 5  # printed classes


def look_image(context: typer.Context, folder: Path, images: list[str], output: Path | None, form: str) -> None:
    """Look at one image; the options are those of `regard look` that fit the model."""
    from regard.inference.captioner import Captioner
    from regard.inference.classifier import Classifier
    from regard.inference.load import load

    if len(images) != 1:
        raise ConfigError(f"{folder} reads images: give one PNG or JPEG file.")
    image, options = Path(images[0]), context.params
    model = load(folder, options["device"])
    if isinstance(model, Captioner):
        only_options(context, CAPTIONER, "a captioner has no such choice")
        references = options["reference"] or [None]
        if len(references) > 1:
            raise ConfigError("--reference: one caption for one image: give it once.")
        look_caption(model, image, output, form, references[0], context)
        return
    assert isinstance(model, Classifier)
    only_options(context, CLASSIFIER, "a classifier has no such choice")
    look_classification(model, image, output, form, fit=options["fit"])


def look_caption(
    captioner: Captioner, image: Path, output: Path | None, form: str, reference: str | None, context: typer.Context
) -> None:
    """Caption an image; print or draw the attention of each word."""
    from regard.look.views.caption import maps_text
    from regard.look.views.pictures import check_picture_path

    if output is not None:
        check_picture_path(output, FORMATS)
    options = context.params
    look = captioner.look(
        image,
        reference=reference,
        prefix=options["prefix"] or "",
        beam=options["beam"],
        candidates=options["candidates"],
    )
    if output is not None:
        _draw(look, output, options["font"], options["title"])
        typer.echo(f"wrote {output}", err=True)
    if form == "json":
        typer.echo(look.to_json())
    elif output is not None:
        typer.echo(look.target.text)
    else:
        typer.echo(f"{look.target.text}\n\n{maps_text(look, shutil.get_terminal_size().columns)}")


def _draw(look: Look, output: Path, font: Path | None, title: str | None) -> None:
    from regard.look.views.pictures import write_picture

    kind = output.suffix.lower()
    if kind == ".json":
        write_picture(output, f"{look.to_json()}\n".encode())
    elif kind == ".html":
        from regard.look.views.html import render_html

        write_picture(output, render_html(look, title=title).encode())
    else:
        from regard.look.views.caption_pictures import save_caption

        save_caption(look, output, font=font, title=title)


def look_classification(classifier: Classifier, image: Path, output: Path | None, form: str, *, fit: bool) -> None:
    """Classify an image; print the last attention module's maps, or draw all of them."""
    from regard.look.views.image_maps import FORMATS as DRAWN
    from regard.look.views.image_maps import save_look, text_maps
    from regard.look.views.pictures import check_picture_path

    if output is not None:
        check_picture_path(output, DRAWN)
    found = classifier.look(image, fit=fit)
    if output is not None:
        save_look(found, output)
        typer.echo(f"wrote {output}", err=True)
    if form == "json":
        typer.echo(json.dumps(found.to_dict(), ensure_ascii=False))
        return
    best = list(found.probabilities.items())[:LIKELIEST]
    lines = [f"{probability:7.2%}  {printable(name)}" for name, probability in best]
    if output is None:
        lines += ["", text_maps(found, shutil.get_terminal_size().columns)]
    typer.echo("\n".join(lines))
