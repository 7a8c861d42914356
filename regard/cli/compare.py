"""`regard compare`: image classifiers with and without attention, trained side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DATA = "IDX files in a folder, a folder of PNG or JPEG images for each class, or toy:two-ears"


def compare(
    out: Annotated[Path, typer.Argument(metavar="DIR", help="Where models, table and plot go.", show_default=False)],
    data: Annotated[str, typer.Option(metavar="DATA", help=f"The images: {DATA}.")] = "toy:two-ears",
    models: Annotated[
        str | None,
        typer.Option(
            help="Networks, separated by commas: none, se, cbam, bam, self_attention, vit.", show_default="all"
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Trainings per network.", min=1)] = 3,
    budget: Annotated[str, typer.Option(help="Time of each training, such as 90s, 6m or 1h.")] = "6m",
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a field in all recipes.", show_default=False),
    ] = None,
    device: Annotated[str, typer.Option(help="Device: cpu, cuda, cuda:1, …")] = "cpu",
    threads: Annotated[
        int | None, typer.Option(help="CPU threads (default: all cores).", min=1, show_default=False)
    ] = None,
) -> None:
    """Train each image classifier several times with the same budget, and compare accuracy, size and time.

    \b
    regard compare runs/ears
    regard compare runs/fashion --data /usr/share/datasets/fashion-mnist --models none,bam --budget 14m

    Ctrl-C stops it; the same command resumes. The total time is models x seeds x budget, by default 18 trainings of 6
    minutes, less than two hours.
    """
    from regard.training import Interrupted
    from regard.training.comparison import compare as compare_networks

    try:
        table = compare_networks(
            out,
            data=data,
            models=None if models is None else [name.strip() for name in models.split(",")],
            seeds=seeds,
            budget=budget,
            overrides=changes or [],
            device=device,
            threads=threads,
        )
    except Interrupted as interrupted:
        typer.echo("stopped and saved: the same command resumes.", err=True)
        raise typer.Exit(interrupted.exit_code) from None
    typer.echo(table.text())
