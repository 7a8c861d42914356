"""`regard import`: a model of another tool as a model folder."""

from pathlib import Path
from typing import Annotated

import typer

from regard.errors import ConfigError, did_you_mean

FORMS = ("marian",)


def import_(
    form: Annotated[str, typer.Argument(metavar="FORMAT", help="Format: marian.", show_default=False)],
    folder: Annotated[Path, typer.Argument(help="The folder of the model.", show_default=False)],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The model folder to write.", show_default=False)],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the model in --out.")] = False,
) -> None:
    """Import a model of another tool as a model folder.

    \b
    regard import marian opus-mt-de-en --out models/opus-de-en
    regard translate models/opus-de-en < in.txt

    marian: a Hugging Face Marian model on disk, such as those of OPUS-MT: config.json, model.safetensors, source.spm,
    target.spm and vocab.json. All commands work with it, fine-tuning (`regard train --from`) included.
    """
    if form not in FORMS:
        raise ConfigError(f"{form}: Regard does not import that: {did_you_mean(form, FORMS)}")
    from regard.interop.marian import import_marian

    count = import_marian(folder, out, overwrite=overwrite)
    typer.echo(f"wrote {out}: a Transformer with {count:,} parameters")
