"""`regard shortlist`: add a lexical shortlist to a model folder, for faster translation."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.columns import Columns, parse_columns, refuse_columns
from regard.cli.texts import one_text


def shortlist(
    model: Annotated[Path, typer.Argument(help="A model folder; installed models are read-only.", show_default=False)],
    train: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOURCE [TARGET]",
            help="The text to learn from, as for `regard train`; by default what MODEL/training keeps.",
            show_default=False,
        ),
    ] = None,
    columns: Columns = None,
    likely: Annotated[
        int | None, typer.Option(min=1, help="Translations kept for each source subword.", show_default=False)
    ] = None,
    common: Annotated[
        int | None, typer.Option(min=0, help="Frequent target subwords in every shortlist.", show_default=False)
    ] = None,
) -> None:
    """Write a lexical shortlist, MODEL/shortlist.safetensors: the probable target subwords of each source subword.

    \b
    regard shortlist models/de-en
    regard translate models/de-en --shortlist < in.txt

    IBM model 1 on the training text finds the probable subwords. `--shortlist` then computes the output layer for
    these alone, which is faster where that layer dominates: in beam search, with a large vocabulary. Scores are over
    the shortlist alone. A longer shortlist is slower and changes fewer translations.
    """
    from regard.data.text.sources import Given
    from regard.decoding.shortlist import COMMON, LIKELY
    from regard.inference.shortlist import own_folder, shortlist_folder

    text: Given | None = one_text("--train", train, parse_columns(columns))
    if text is None or isinstance(text, tuple):
        refuse_columns(columns, "it goes with --train and one file with tabs")

    folder = own_folder(model)
    typer.echo("estimating translation probabilities: up to two minutes for a large text", err=True)
    made = shortlist_folder(
        folder, text, likely=LIKELY if likely is None else likely, common=COMMON if common is None else common
    )
    size = len(made.common)
    typer.echo(
        f"wrote a shortlist into {model}: {size} subwords for every sentence, up to "
        f"{made.likely.shape[1]} for each source subword"
    )
