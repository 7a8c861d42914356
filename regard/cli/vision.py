"""`regard vision`: attention over images, with commands of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from regard.errors import ConfigError, ModelFolderError

vision = typer.Typer(no_args_is_help=False, rich_markup_mode=None, add_completion=False)

MODEL = typer.Argument(metavar="MODEL", help="A model folder that `regard vision train` wrote.", show_default=False)
DEVICE = typer.Option(help="Where to compute: cpu, cuda, cuda:1, …")
THREADS = typer.Option(help="CPU threads (default: all cores).", min=1, show_default=False)
DATA = "IDX files in a folder, a folder of PNG or JPEG images for each class, or toy:two-ears"


@vision.callback(invoke_without_command=True)
def root(context: typer.Context) -> None:
    """Train, evaluate, look inside and compare networks with attention over images.

    \b
    regard vision train bam --data /usr/share/datasets/fashion-mnist --out models/fashion
    regard vision look models/fashion shirt.png -o shirt-look.png
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@vision.command(short_help="Train a classifier or a captioner from a recipe.")
def train(
    recipe: Annotated[
        str | None,
        typer.Argument(help="A recipe's name (see `regard vision recipes`) or its .toml file.", show_default=False),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DATA",
            help=f"The images to learn from: {DATA}; for a captioner toy:scenes, or a folder with train.tsv.",
            show_default=False,
        ),
    ] = None,
    valid: Annotated[
        str | None,
        typer.Option(
            metavar="DATA",
            help="The images to validate on, alike (default: those of DATA, or some that are held out).",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The model folder to write.", show_default=False)
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a field of the recipe, such as training.budget=5m; may be repeated.",
            show_default=False,
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Go on with the training in this folder.", show_default=False),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the model that is in --out.")] = False,
    device: Annotated[str, DEVICE] = "cpu",
    threads: Annotated[int | None, THREADS] = None,
    seed: Annotated[
        int | None, typer.Option(help="The same as --set training.seed=N.", min=0, show_default=False)
    ] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write TensorBoard events, into DIR/tensorboard.")
    ] = False,
) -> None:
    """Train a classifier or a captioner from a recipe, or go on with one.

    \b
    regard vision train bam --data /usr/share/datasets/fashion-mnist --out models/fashion
    regard vision train two-ears --data toy:two-ears --out models/ears --set model.attention=bam
    regard vision train --resume models/fashion

    Ctrl-C saves and stops; --resume goes on exactly where it was.
    """
    overrides = [*(changes or []), *([] if seed is None else [f"training.seed={seed}"])]
    if resume is not None:
        if recipe or data or valid or out or overwrite:
            raise ConfigError("--resume knows its recipe, images and folder: give only --set, --device and --threads.")
    elif recipe is None:
        raise ConfigError("no recipe was given: name one, such as bam (see `regard vision recipes`).")
    elif out is None:
        raise ConfigError("no folder was given for the model: name one with --out.")
    from regard.training import Interrupted

    try:
        _train(
            recipe,
            data,
            valid,
            resume or out or Path(),
            resume is not None,
            overwrite,
            device,
            threads,
            overrides,
            tensorboard,
        )
    except Interrupted as interrupted:
        typer.echo(str(interrupted), err=True)
        raise typer.Exit(interrupted.exit_code) from None


def _train(
    recipe: str | None,
    data: str | None,
    valid: str | None,
    out: Path,
    resume: bool,
    overwrite: bool,
    device: str,
    threads: int | None,
    overrides: list[str],
    tensorboard: bool,
) -> None:
    from regard.config.captioning import CaptionRecipe
    from regard.config.classification import load_vision_recipe, recipe_kind
    from regard.training.tasks.classification_data import read_run

    chosen = None if recipe is None else load_vision_recipe(recipe, overrides)
    kind = recipe_kind(read_run(out / "training")["recipe"]) if chosen is None else type(chosen)
    left = overrides if chosen is None else []
    if kind is CaptionRecipe:
        from regard.training.tasks.captioning import train_captioner

        assert chosen is None or isinstance(chosen, CaptionRecipe)
        train_captioner(
            chosen,
            data=data or "toy:scenes",
            valid=valid,
            out=out,
            resume=resume,
            overwrite=overwrite,
            device=device,
            threads=threads,
            overrides=left,
            tensorboard=tensorboard,
        )
        return
    from regard.training.tasks.classification import train as train_classifier

    assert not isinstance(chosen, CaptionRecipe)
    train_classifier(
        chosen,
        data=data,
        valid=valid,
        out=out,
        resume=resume,
        overwrite=overwrite,
        device=device,
        threads=threads,
        overrides=left,
        tensorboard=tensorboard,
    )


@vision.command(short_help="Accuracy of a classifier, or quality of captions.")
def evaluate(
    model: Annotated[Path, MODEL],
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DATA", help=f"The images: {DATA}; for a captioner toy:scenes or a TSV.", show_default=False
        ),
    ] = None,
    split: Annotated[
        str, typer.Option(help="Which part of them: train, valid or test (captioner: also unseen).")
    ] = "test",
    form: Annotated[Literal["text", "json"], typer.Option("--format", help="How to print it.")] = "text",
    device: Annotated[str, DEVICE] = "cpu",
    threads: Annotated[int | None, THREADS] = None,
) -> None:
    """Accuracy of a classifier, class by class; or BLEU, truth and pointing of a captioner.

    Example: regard vision evaluate models/fashion --data /usr/share/datasets/fashion-mnist
    """
    if _kind(model) == "captioner":
        from regard.evaluation.captions import evaluate_captioner

        result: dict[str, Any] = evaluate_captioner(model, data=data, split=split, device=device, threads=threads)
    else:
        from regard.evaluation.accuracy import evaluate_classifier

        if data is None:
            raise ConfigError("no images were given: name them with --data.")
        result = evaluate_classifier(model, data=data, split=split, device=device, threads=threads)
    if form == "json":
        typer.echo(json.dumps(result, ensure_ascii=False))
        return
    for line in _lines(result):
        typer.echo(line)


def _lines(result: Mapping[str, Any], indent: str = "") -> list[str]:
    """Names and values, tables indented under their name; lists (of numbers) only JSON shows."""
    lines: list[str] = []
    for name, value in result.items():
        if isinstance(value, Mapping):
            lines += [f"{indent}{name}", *_lines(value, indent + "  ")]
        elif not isinstance(value, list):
            shown = f"{value:.4f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value
            lines.append(f"{indent}{name:<24} {shown}")
    return lines


@vision.command(short_help="Draw where a model looks in an image.")
def look(
    model: Annotated[Path, MODEL],
    image: Annotated[Path, typer.Argument(help="A PNG or JPEG file.", show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Draw into a .png, .svg, .pdf or .gif file.", show_default=False),
    ] = None,
    fit: Annotated[
        bool, typer.Option("--fit", help="Stretch and recolour the image to what a classifier reads.")
    ] = False,
    text: Annotated[
        str | None, typer.Option(help="Look at this caption instead of the captioner's own.", show_default=False)
    ] = None,
    font: Annotated[
        Path | None, typer.Option(help="A font file with the glyphs of the caption.", show_default=False)
    ] = None,
    device: Annotated[str, DEVICE] = "cpu",
) -> None:
    """Draw where a model looks: maps before and after each module, heads and layers, or words of a caption.

    Example: regard vision look models/fashion shirt.png -o look.png
    """
    if _kind(model) == "captioner":
        from regard.look.views.caption import look_captioner

        look_captioner(model, image, output, device, text=text, font=font)
        return
    if text is not None:
        raise ConfigError("--text: a classifier says no caption: leave it out.")
    from regard.look.views.image_maps import look_classifier

    typer.echo(look_classifier(model, image, output, device, fit=fit))


@vision.command(short_help="Networks with and without attention, side by side.")
def compare(
    out: Annotated[Path, typer.Argument(metavar="DIR", help="Where models, table and plot go.", show_default=False)],
    data: Annotated[str, typer.Option(metavar="DATA", help=f"The images: {DATA}.")] = "toy:two-ears",
    models: Annotated[
        str | None,
        typer.Option(help="Which, with commas: none, se, cbam, bam, self_attention, vit.", show_default="all"),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Trainings of each.", min=1)] = 3,
    budget: Annotated[str, typer.Option(help="Time of each training, such as 90s, 6m or 1h.")] = "6m",
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a field of all recipes alike.", show_default=False),
    ] = None,
    device: Annotated[str, DEVICE] = "cpu",
    threads: Annotated[int | None, THREADS] = None,
) -> None:
    """Train each network several times with the same budget, and tell accuracy, size and time with their spread.

    \b
    regard vision compare runs/ears
    regard vision compare runs/fashion --data /usr/share/datasets/fashion-mnist --models none,bam --budget 14m

    It can be stopped at any time: the same command goes on where it was. All of it takes models x seeds x budget,
    by default 18 trainings of 6 minutes, which is less than two hours.
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
        typer.echo("stopped, and saved: the same command goes on.", err=True)
        raise typer.Exit(interrupted.exit_code) from None
    typer.echo(table.text())


@vision.command(short_help="The recipes on images, with their papers.")
def recipes(
    name: Annotated[
        str | None, typer.Argument(help="Print this recipe, as a start for your own.", show_default=False)
    ] = None,
) -> None:
    """List the recipes on images; with a name, the recipe itself.

    Example: regard vision recipes bam > my.toml
    """
    from regard.config.classification import SHELF, load_vision_recipe
    from regard.config.recipes import recipe_folder, recipe_names
    from regard.errors import did_you_mean

    names = recipe_names(SHELF)
    if name is None:
        for known in names:
            recipe = load_vision_recipe(recipe_folder() / SHELF / f"{known}.toml")
            typer.echo(f"{known:<16} {recipe.description}" + (f" ({recipe.paper})" if recipe.paper else ""))
    elif name in names:
        typer.echo((recipe_folder() / SHELF / f"{name}.toml").read_text("utf-8"), nl=False)
    else:
        raise ConfigError(f"there is no recipe '{name}': {did_you_mean(name, names)}")


def _kind(folder: Path) -> str:
    """model.kind of a folder."""
    from regard.config.classification import RECIPES
    from regard.storage.folder import read_table

    model = read_table(folder)[0].get("model")
    kind = str(model.get("kind")) if isinstance(model, dict) else ""
    if kind not in RECIPES:
        raise ModelFolderError(f"{folder}: holds a {kind} model, which reads text: use `regard translate` and its kin.")
    return kind
