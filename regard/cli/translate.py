"""`regard translate`: a Unix filter, N lines in and N lines out, in order."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal

import typer

from regard.cli.progress import bar_on_stderr
from regard.cli.shards import first_recipe, ray_address, shown_run, wants_shards
from regard.cli.streams import check_open
from regard.config.settings import Recipe, SearchSettings
from regard.errors import DataError

if TYPE_CHECKING:
    from regard.inference.translator import Translator


def translate(
    models: Annotated[
        list[Path],
        typer.Argument(
            help="A model folder or an installed model, such as de-en; several are an ensemble.", metavar="MODEL"
        ),
    ],
    input_file: Annotated[
        Path | None,
        typer.Option("--input", "-i", help="Read this file (.gz too), or the shards of 'a/*.gz'.", show_default=False),
    ] = None,
    output_file: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write this file, atomically; for shards a folder.", show_default=False),
    ] = None,
    form: Annotated[
        Literal["text", "json"], typer.Option("--format", help="Plain text, or one JSON object per line.")
    ] = "text",
    scores: Annotated[bool, typer.Option("--scores", help="Add the score of each translation.")] = False,
    alignments: Annotated[
        bool, typer.Option("--alignments", help="Add word alignments: source-target, from 0.")
    ] = False,
    beam: Annotated[int | None, typer.Option(help="Beam size; 1 is greedy search.", show_default=False)] = None,
    n_best: Annotated[int | None, typer.Option(help="Translations per line (n-best list).", show_default=False)] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Sample instead of beam search.")] = False,
    temperature: Annotated[
        float | None, typer.Option(help="Sampling temperature: below 1 sharpens the distribution.", show_default=False)
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(help="Sampling: only the k most probable subwords.", show_default=False)
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(help="Nucleus sampling: probability mass p.", show_default=False),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Sampling: random seed.", show_default=False)] = None,
    prefix: Annotated[
        Path | None, typer.Option(help="File with a target prefix for each line.", show_default=False)
    ] = None,
    shortlist: Annotated[
        bool, typer.Option("--shortlist", help="Use the lexical shortlist (see `regard shortlist`).")
    ] = False,
    int8: Annotated[
        bool | None,
        typer.Option(
            "--int8/--float32",
            help="int8 quantisation: faster, slightly less exact (default: if its loss in training was < 0.1 BLEU).",
            show_default=False,
        ),
    ] = None,
    engine: Annotated[
        Literal["auto", "torch", "ctranslate2", "onnxruntime"] | None,
        typer.Option(help="Decoding backend (default: the fastest that supports the request).", show_default=False),
    ] = None,
    batch_tokens: Annotated[int | None, typer.Option(help="Source tokens in a batch.", show_default=False)] = None,
    window: Annotated[
        int | None,
        typer.Option(min=1, help="Lines read ahead (1024; at a terminal 1).", show_default=False),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override a search setting: search.length_penalty=0.6", show_default=False),
    ] = None,
    device: Annotated[str, typer.Option(help="Device: cpu, cuda, mps.")] = "cpu",
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads.", show_default=False)] = None,
    column: Annotated[
        str | None, typer.Option(help="JSON lines, Parquet: the column to translate (text).", show_default=False)
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(
            "--ray", metavar="[ADDRESS]", help="Translate shards on Ray: here, or HOST:PORT.", show_default=False
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Workers of one thread each (CPU threads; with --ray all cores).", show_default=False),
    ] = None,
) -> None:
    """Translate lines from stdin or a file, as a filter: as many lines out as in, in order.

    \b
    regard translate models/de-en < in.txt > out.txt
    echo "Der Hund schläft unter dem Tisch." | regard translate de-en

    A blank line gives a blank line. With --scores and --alignments, columns follow the text, separated by tabs.
    With --n-best 3, each line of input gives up to three lines `number ||| text ||| score`, numbered from 0, and a
    further ` ||| links` with --alignments. With --format json, each line of input gives one object with the keys
    source, text, score, log_probability, finished, tokens, alignment (null without --alignments) and n_best.

    Lines are read ahead and sorted by length among themselves, then written: --window 1 answers each line at once.
    The lines read ahead are shared out to --workers; their number changes neither translations nor order.
    A line of more subwords than search.max_source (1024) is cut there, and a warning names the line.
    Input that is not UTF-8 ends the work with an error that names the line; the lines before it have then been
    written to stdout, while the file of --output is left as it was.

    \b
    regard translate models/de-en --ray --input 'shards/*.txt.gz' --output out/

    A pattern or a folder as --input translates every file (text, JSON lines, Parquet; .gz too) to one of the same name,
    and writes out/manifest.json with counts and checksums. After an interruption the same command continues. With
    --ray, one worker per core, or per GPU with --device cuda, translates a file at a time: on this machine, or on the
    cluster at HOST:PORT (auto: the one of this machine; without ADDRESS, RAY_ADDRESS if it is set).
    """
    flags = {
        "beam": beam,
        "n_best": n_best,
        "sample": sample or None,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "seed": seed,
        "shortlist": shortlist or None,
        "int8": int8,
        "engine": engine,
        "batch_tokens": batch_tokens,
    }
    only_shards = {"--ray": ray, "--column": column}
    unfit = {"--prefix": prefix, **({} if ray is None else {"--threads": threads})}
    if wants_shards(input_file, output_file, only_shards, unfit):
        assert input_file is not None
        assert output_file is not None
        from regard.bulk.run import translate_shards
        from regard.process import tune_without_torch

        if ray is None:
            tune_without_torch(threads)
        settings = _search_settings(models, first_recipe(models), overrides or [], flags)
        with shown_run() as (on_status, say):
            translate_shards(
                models,
                input_file,
                output_file,
                search=settings,
                form=form,
                column=column or "text",
                scores=scores,
                alignments=alignments,
                window=window,
                device=device,
                ray=ray_address(ray),
                workers=workers,
                on_status=on_status,
                say=say,
            )
        return
    if input_file is None:
        check_open("stdin", "name a file with --input, or redirect one to it")
    if output_file is None:
        check_open("stdout", "name a file with --output, or redirect it to one")
    from regard.data.lines import read_lines
    from regard.inference.lines import WINDOW
    from regard.inference.lines_out import json_lines, text_lines
    from regard.process import thread_count, tune_without_torch

    tune_without_torch(threads)
    translator = _load(models, device)
    translator.use_workers(workers or thread_count())
    settings = _search_settings(models, translator.recipe, overrides or [], flags)
    at_terminal = input_file is None and sys.stdin.isatty()
    if at_terminal:
        end = "Ctrl-Z and Enter end" if os.name == "nt" else "Ctrl-D ends"
        typer.echo(f"type a sentence and press Enter; {end}", err=True)
    translations = translator.translate_lines(
        _input_lines(input_file),
        search=settings,
        attention=alignments,
        prefixes=None if prefix is None else read_lines(prefix),
        window=window or (1 if at_terminal else WINDOW),
    )
    show = json_lines(alignments) if form == "json" else text_lines(settings.n_best > 1, scores, alignments)
    quiet = at_terminal or (output_file is None and sys.stdout.isatty())
    # stdout, a pipe or a device; a file appears at the end, and each flush would cost compression if it is packed
    read_along = output_file is None or (output_file.exists() and not output_file.is_file())
    with _output(output_file) as out, bar_on_stderr(wanted=not quiet) as show_progress:
        total = None if quiet or not sys.stderr.isatty() else _count_lines(input_file)  # for the bar alone
        show_progress("lines translated", 0, total)  # the clock starts here
        for number, translation in enumerate(translations):
            out.write(show(number, translation).encode())
            if read_along:
                out.flush()
            show_progress("lines translated", number + 1, total)


def _load(models: list[Path], device: str) -> "Translator":
    from regard.inference.box import model_folder
    from regard.inference.translator import Translator

    loaded = [Translator.load(model_folder(model), device) for model in models]
    return loaded[0] if len(loaded) == 1 else Translator.ensemble(loaded)


def _search_settings(models: list[Path], recipe: Recipe, overrides: list[str], flags: dict[str, Any]) -> SearchSettings:
    """The recipe's settings, changed by --set and then by the options of their own name."""
    from regard.decoding.search_settings import changed_settings, overridden_settings
    from regard.inference.box import check_shortlist

    settings = overridden_settings(recipe, overrides)
    settings = changed_settings(settings, {name: value for name, value in flags.items() if value is not None})
    if settings.shortlist and len(models) == 1:
        check_shortlist(models[0])
    return settings


# --- lines in -----------------------------------------------------------------------------------------------------


def _input_lines(path: Path | None) -> Iterator[str]:
    """The lines of a file or of stdin."""
    from regard.data.lines import decode_lines, read_lines

    return decode_lines(sys.stdin.buffer, "stdin") if path is None else read_lines(path)


def _count_lines(path: Path | None) -> int | None:
    """The number of lines; None for pipes and unreadable files; errors are reported during translation."""
    from regard.data.lines import read_lines

    if path is None or not path.is_file():
        return None
    try:
        return sum(1 for _ in read_lines(path))
    except DataError:
        return None


# --- lines out ----------------------------------------------------------------------------------------------------


@contextmanager
def _output(path: Path | None) -> Iterator[BinaryIO]:
    """stdout, or a file that is written beside and renamed when it is whole."""
    if path is None:
        yield sys.stdout.buffer
        return
    from regard.data.lines import writing_lines

    with writing_lines(path) as out:
        yield out
