"""`regard compare`: recipes and models under the same conditions, in one report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.texts import one_or_two
from regard.errors import ConfigError


def compare(
    entrants: Annotated[
        list[str],
        typer.Argument(
            metavar="RECIPE|MODEL",
            help="Recipes, recipes with changed settings (luong:model.score=dot,model.layers=1), model folders or "
            "installed models, also with changed search settings; {a,b} makes a grid. They come before the options.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where models, results and report go.")] = Path("comparison"),
    train: Annotated[
        list[str] | None,
        typer.Option(metavar="SOURCE [TARGET]", help="Training data, as in `regard train`.", show_default=False),
    ] = None,
    valid: Annotated[
        list[str] | None,
        typer.Option(metavar="SOURCE [TARGET]", help="Validation data, as in `regard train`.", show_default=False),
    ] = None,
    test: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOURCE [REFERENCE]",
            help="Test data. Embedded corpora, image data and installed models have their own.",
            show_default=False,
        ),
    ] = None,
    gold: Annotated[
        Path | None,
        typer.Option("--gold-alignments", metavar="PATH", help="Gold links of the test set.", show_default=False),
    ] = None,
    sentences: Annotated[
        list[str] | None,
        typer.Option(
            "--sentence",
            metavar="TEXT",
            help="Draw the attention of this sentence; may be repeated (default: two of the test set).",
            show_default=False,
        ),
    ] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Train each for 90s, 10m or 1.5h.", show_default=False)
    ] = None,
    epochs: Annotated[
        float | None, typer.Option(help="Train each for this many epochs, the same tokens.", show_default=False)
    ] = None,
    vocabulary: Annotated[
        int | None, typer.Option(help="Size of the joint vocabulary (default: the largest of the recipes).")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Trainings per recipe, with the seeds 1, 2, …", min=1)] = 1,
    beam: Annotated[int | None, typer.Option(help="Beam size on the test set.", min=1, show_default=False)] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting in all recipes.", show_default=False),
    ] = None,
    device: Annotated[str, typer.Option(help="Device: cpu, cuda, cuda:1, …")] = "cpu",
    threads: Annotated[
        int | None, typer.Option(help="CPU threads (default: all cores).", min=1, show_default=False)
    ] = None,
) -> None:
    """Train recipes under the same conditions, evaluate them with trained models on one test set, write a report.

    \b
    regard compare 'de-en/*'
    regard compare seq2seq bahdanau transformer-tiny --train train.de train.en --valid dev.de dev.en \\
        --test test.de test.en --budget 10m --out runs/de-en
    regard compare models/a models/b --test test.de test.en --out runs/ab
    regard compare fast luong-bi --train toy:phrases:en-fr --epochs 1 --out runs/toy
    regard compare luong:model.score={dot,general} --train a.de a.en --test t.de t.en --epochs 3 --out runs/scores
    regard compare models/a:search.length_penalty={0,0.5,1} --test test.de test.en --out runs/penalties
    regard compare resnet bam se --train /usr/share/datasets/fashion-mnist --budget 14m --seeds 3 --out runs/fashion

    All recipes get the same data, the same joint vocabulary and the same budget. The report (comparison.md and
    comparison.html in DIR) has parameters, training time and speed, BLEU and chrF with confidence intervals and paired
    significance, BLEU by source length and by minutes of training, alignment error rate where gold links are given,
    decoding speed, loss curves and attention side by side; for image classifiers accuracy and operations.

    Ctrl-C stops it; the same command resumes, and what is finished is not repeated.
    """
    if budget is not None and epochs is not None:
        raise ConfigError("--budget and --epochs: one of them is the common end: give one.")
    data, dev, held_out = (
        one_or_two(option, given) for option, given in (("--train", train), ("--valid", valid), ("--test", test))
    )
    from regard.comparison import compare as run
    from regard.training import Interrupted

    try:
        found = run(
            entrants,
            out=out,
            train=data,
            valid=dev,
            test=held_out,
            gold=gold,
            sentences=sentences or (),
            budget=budget,
            epochs=epochs,
            vocabulary=vocabulary,
            seeds=seeds,
            beam=beam,
            overrides=changes or [],
            device=device,
            threads=threads,
        )
    except Interrupted as interrupted:
        typer.echo("stopped and saved: the same command resumes.", err=True)
        raise typer.Exit(interrupted.exit_code) from None
    typer.echo(found.text())
    typer.echo(f"report: {out / 'comparison.html'}", err=True)
