"""`regard train`: its options, for every task."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.columns import Columns, parse_columns, refuse_columns
from regard.cli.shorthand import help_of, shorthand, what_ends
from regard.cli.texts import flat_words, has_one_file, one_text, training_text
from regard.errors import ConfigError


def train(
    recipe: Annotated[
        str | None,
        typer.Argument(
            metavar="RECIPE",
            help="A recipe's name (see `regard recipes`) or its .toml file; comes before the options.",
            show_default=False,
        ),
    ] = None,
    train: Annotated[
        list[str] | None,
        typer.Option(
            "--train",
            metavar="SOURCE [TARGET]",
            help="Training data. Text: two aligned files, one TSV file, or toy:NAME[:PAIR[:COUNT]]. Images for a "
            "classifier: a folder of IDX files, a folder of images for each class, or toy:two-ears. Images for a "
            "captioner: a TSV of file names and captions, a folder with train.tsv, or toy:scenes.",
            show_default=False,
        ),
    ] = None,
    valid: Annotated[
        list[str] | None,
        typer.Option(
            "--valid",
            metavar="SOURCE [TARGET]",
            help="Validation data, in the same form; without it, the data's own or a held-out share; or none.",
            show_default=False,
        ),
    ] = None,
    mix: Annotated[
        str | None,
        typer.Option(
            metavar="WEIGHTS",
            help="Several corpora, each named by its own --train: draw pairs in these proportions, such as 3,1.",
            show_default=False,
        ),
    ] = None,
    back_translated: Annotated[
        list[str] | None,
        typer.Option(
            "--back-translated",
            metavar="SOURCE [TARGET]",
            help="More training text, whose sources a model translated: each gets a tag.",
            show_default=False,
        ),
    ] = None,
    columns: Columns = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The model folder to write.", show_default=False),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a field of the recipe, such as training.learning_rate=3e-4; may be repeated.",
            show_default=False,
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(metavar="TIME", help=help_of("budget", "End after 90s, 10m or 1.5h."), show_default=False),
    ] = None,
    epochs: Annotated[
        float | None,
        typer.Option(help=help_of("epochs", "End after this many epochs."), show_default=False),
    ] = None,
    updates: Annotated[
        int | None, typer.Option(help=help_of("updates", "End after this many updates."), show_default=False)
    ] = None,
    lr: Annotated[
        float | None, typer.Option("--lr", help=help_of("lr", "The peak learning rate."), show_default=False)
    ] = None,
    batch_tokens: Annotated[
        int | None,
        typer.Option(help=help_of("batch_tokens", "Target tokens in a batch, with padding."), show_default=False),
    ] = None,
    dropout: Annotated[float | None, typer.Option(help=help_of("dropout", "Dropout rate."), show_default=False)] = None,
    vocabulary: Annotated[
        int | None, typer.Option(help=help_of("vocabulary", "Vocabulary size, in subwords."), show_default=False)
    ] = None,
    languages: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOURCE TARGET",
            help=help_of("languages", "Language codes, de en, if the names of the files do not tell."),
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help=help_of("seed", "Random seed."), show_default=False)] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Resume the training in this folder.", show_default=False),
    ] = None,
    start_from: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="MODEL",
            help="Fine-tune this model: start from its tokenizer and weights.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Only report skipped pairs, memory and time, with the processes and the precision that training would "
            "choose; write no model.",
        ),
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the model in --out.")] = False,
    device: Annotated[str, typer.Option(help="Device: cpu, cuda, cuda:1, …")] = "cpu",
    workers: Annotated[
        int | None,
        typer.Option(
            help="Processes on this machine that share each batch (default: measured, 1 or the number of cores; with "
            "--resume as before).",
            min=1,
            show_default=False,
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            help="CPU threads of each worker (default: all cores, divided among them).", min=1, show_default=False
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print errors only.")] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write TensorBoard events, into DIR/tensorboard.")
    ] = False,
    watch: Annotated[
        list[str] | None,
        typer.Option(
            "--watch-sentence",
            metavar="TEXT",
            help="Record the attention of this sentence, or `sentence ||| reference`, at each validation, for "
            "`regard look --over-time`; may be repeated.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Train a model from a recipe, or resume a training. The recipe decides the task.

    \b
    regard train bahdanau --train corpus.de corpus.en --valid dev.de dev.en --out models/de-en
    regard train luong --train toy:phrases:en-fr --out models/toy --budget 3m --lr 2e-3
    regard train bam --train /usr/share/datasets/fashion-mnist --out models/fashion
    regard train captioner --train toy:scenes --out models/scenes
    regard train fast --train a.de a.en --train b.de b.en --mix 3,1 --out models/both
    regard train --resume models/de-en
    regard train --resume models/de-en --budget 2h
    regard train transformer --train corpus.de corpus.en --out models/de-en --workers 8
    torchrun --standalone --nproc-per-node 8 -m regard train transformer --train corpus.de corpus.en --out models/de-en

    --budget, --epochs and --updates replace the recipe's own end, and count from the start of the training; of several,
    the first that is reached counts. `regard settings` lists what else --set can change.

    Several corpora: each --train names one, by its two files or its TSV file. Without --mix an epoch has every pair
    once; with it, as many pairs in the given proportions. --train SOURCE --train TARGET, one file each, is one corpus.

    --from, --dry-run, --watch-sentence, --mix and --back-translated are for translation models.

    With several workers, or under torchrun, each batch is divided among the processes; the updates stay the same. Under
    torchrun --out is a folder that all machines share.

    Ctrl-C saves a checkpoint and stops; --resume continues from it bit for bit, to the end that was set or a new one.
    The best model so far is in the folder from the first validation on.
    """
    chosen = parse_columns(columns)
    train_data, valid_data = training_text(train, back_translated, mix, chosen), one_text("--valid", valid, chosen)
    if not (has_one_file(train_data) or has_one_file(valid_data)):
        refuse_columns(columns, "it goes with one file with tabs, in --train or --valid")
    options = {
        "budget": budget,
        "epochs": epochs,
        "updates": updates,
        "lr": lr,
        "batch_tokens": batch_tokens,
        "dropout": dropout,
        "vocabulary": vocabulary,
        "languages": flat_words(languages) or None,
        "seed": seed,
    }
    overrides = shorthand(options, changes or [])
    if resume is not None:
        _only_resume(recipe, train_data, valid_data, out, start_from, dry_run or overwrite or bool(watch))
    elif recipe is None and start_from is None:
        _refuse_late_recipe(flat_words([*(train or []), *(valid or [])]))
        raise ConfigError("no recipe was given: name one (see `regard recipes`), or a model with --from.")
    elif out is None and not dry_run:
        raise ConfigError("no folder was given for the model: name one with --out.")
    if recipe is not None and not quiet and (remark := what_ends(recipe, overrides)):
        typer.echo(remark, err=True)
    from regard import training

    try:
        if dry_run:
            report = training.dry_run(
                recipe,
                train=train_data,
                valid=valid_data,
                start_from=start_from,
                device=device,
                workers="auto" if workers is None else workers,
                threads=threads,
                overrides=overrides,
                progress=not quiet,
            )
            typer.echo("\n".join(report.lines()))
            return
        training.train(
            recipe,
            train=train_data,
            valid=valid_data,
            out=resume or out or Path(),
            start_from=start_from,
            resume=resume is not None,
            overwrite=overwrite,
            device=device,
            workers="auto" if workers is None else workers,
            threads=threads,
            overrides=overrides,
            progress=not quiet,
            tensorboard=tensorboard,
            watch=[_watched(sentence) for sentence in watch or []],
        )
    except training.Interrupted as interrupted:
        if str(interrupted):
            typer.echo(str(interrupted), err=True)
        raise typer.Exit(interrupted.exit_code) from None
    except training.WorkersFailed as failed:
        raise typer.Exit(failed.exit_code) from None


def _only_resume(
    recipe: str | None,
    train: object,
    valid: object,
    out: Path | None,
    start_from: Path | None,
    flags: bool,
) -> None:
    """Refuse recipe, data and folder with --resume: the training has them."""
    if recipe or train or valid or out or start_from or flags:
        raise ConfigError(
            "--resume knows its recipe, data and folder: give only settings (--set, --updates, …), --device, "
            "--workers and --threads with it."
        )


def _refuse_late_recipe(files: list[str]) -> None:
    """A recipe behind --train or --valid is taken for a file of theirs."""
    from regard.config.recipes import recipe_names

    for word in files:
        if word.endswith(".toml") or (word in recipe_names() and not Path(word).exists()):
            raise ConfigError(f"{word}: a recipe comes before the options: `regard train {word} --train …`.")


def _watched(sentence: str) -> str | tuple[str, str]:
    """`the cat`, or `the cat ||| le chat` with a reference."""
    text, mark, reference = sentence.partition("|||")
    return (text.strip(), reference.strip()) if mark else text.strip()
