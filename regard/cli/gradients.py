"""`regard gradients`: how far the gradient of the loss reaches back into the source."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.texts import flat_words
from regard.errors import ConfigError

VOCABULARY = 500  # of random words, for recipes
SHOWN = (0, 1, 2, 5, 10, 20, 50, 100)


def gradients(
    entrants: Annotated[
        list[str],
        typer.Argument(
            metavar="RECIPE|MODEL",
            help="Recipes (a newly initialised model on random words), recipes with changed settings "
            "(seq2seq:model.cell=rnn), or trained models (with --test).",
            show_default=False,
        ),
    ],
    test: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOURCE [TARGET]",
            help="Sentence pairs for trained models: two files, a TSV or an embedded corpus.",
            show_default=False,
        ),
    ] = None,
    length: Annotated[
        int, typer.Option(help="Source words; of the test set, sentences at least this long.", min=2)
    ] = 40,
    sentences: Annotated[int, typer.Option(help="Sentences to average over.", min=1)] = 16,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="PATH", help="Write a .png, .svg or .pdf picture.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed of weights and words.")] = 1,
) -> None:
    """Print the norm of the gradient of the loss over each source word, by its distance from the end of the source.

    \b
    regard gradients seq2seq:model.cell=rnn seq2seq:model.cell=gru seq2seq luong -o gradients.png
    regard gradients models/seq2seq models/bahdanau --test test.de test.en --length 20 -o gradients.png

    Without attention the gradient passes through every recurrent step between a word and the end of the sentence, and
    may vanish; how fast depends on the cell and its initialisation. Attention is a direct path to every word. A model
    that reads the source in reverse has the short paths at the beginning of the sentence.
    """
    from regard.comparison.entrants import parse_entrants
    from regard.comparison.gradients import measure_gradients
    from regard.evaluation.by_length import check_picture

    if output is not None:
        check_picture(output)
    chosen = parse_entrants(entrants, [])
    if chosen[0].task != "translation":
        raise ConfigError(f"{chosen[0].name}: is no translation model: gradients over source words need text.")
    found = measure_gradients(
        chosen, flat_words(test), length=length, count=sentences, vocabulary=VOCABULARY, seed=seed
    )
    places = [place for place in SHOWN if place < length]
    width = max(len(each.name) for each in found)
    typer.echo(f"{'distance':<{width}}  " + "  ".join(f"{place:>8}" for place in places))
    for each in found:
        typer.echo(f"{each.name:<{width}}  " + "  ".join(f"{each.norms[place]:>8.2g}" for place in places))
    if output is not None:
        from regard.look.views.gradients_plot import save_gradients

        save_gradients(found, output)
        typer.echo(f"wrote {output}", err=True)
