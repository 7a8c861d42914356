"""`regard evaluate`: the options of an evaluation, the test set they name, and how the report is shown."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.columns import Columns, parse_columns, refuse_columns, with_columns
from regard.cli.options import only_options, reads_images
from regard.cli.progress import bar_on_stderr
from regard.errors import ConfigError
from regard.inference.box import model_folder

if TYPE_CHECKING:
    from regard.config.settings import SearchSettings
    from regard.evaluation.report import Report
    from regard.evaluation.test_set import TestSet
    from regard.inference.translator import Translator

IMAGE_SPLIT = "test"
IMAGE_OPTIONS = ("model", "data", "split", "output_format", "device", "threads")
WIDEST = 100
LABELS = {"valid": "valid captions", "bleu": "BLEU", "bleu_signature": "BLEU signature", "words": "words with a box"}
FORMATS = {"bleu": ".1f"} | dict.fromkeys(("valid", "accuracy", "pointing_accuracy", "mass_in_box", "by_chance"), ".1%")
SHARE_TABLES = ("by_class", "map_mass_inside_object")


class OutputFormat(StrEnum):
    """How the report is printed."""

    text = "text"
    json = "json"


def evaluate(
    context: typer.Context,
    model: Annotated[
        Path | None,
        typer.Argument(
            help="A model folder or an installed model; with --hypotheses it may be left out.", show_default=False
        ),
    ] = None,
    source: Annotated[
        Path | None, typer.Option(help="The sentences to translate; without --reference, a TSV with both sides.")
    ] = None,
    reference: Annotated[
        list[Path] | None, typer.Option(help="Their translations; give it again for each further reference.")
    ] = None,
    columns: Columns = None,
    gold_alignments: Annotated[
        Path | None, typer.Option(help="Gold word alignment of source and (first) reference: i-j sure, ipj possible.")
    ] = None,
    one_based: Annotated[
        bool, typer.Option("--one-based", help="Gold alignments count words from 1, not from 0.")
    ] = False,
    toy: Annotated[
        str | None, typer.Option(help="An embedded corpus with gold links instead of files: phrases:en-fr.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="Test images. Classifier: a folder of IDX files, a folder of images for each class, or toy:two-ears. "
            "Captioner: a TSV of file names and captions, or toy:scenes [the scenes it learned from]."
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="With --toy: test, structures, long or valid. With --data: train, valid or test (toy:scenes: also "
            "unseen) [test]."
        ),
    ] = None,
    count: Annotated[int | None, typer.Option(help="With --toy: number of sentences [500].", min=1)] = None,
    hypotheses: Annotated[Path | None, typer.Option(help="Score these translations instead of translating.")] = None,
    beam: Annotated[int | None, typer.Option(help="Beam size [the recipe's].")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="A search setting, such as search.length_penalty=0.6.")
    ] = None,
    tokenize: Annotated[
        str | None, typer.Option(help="BLEU's tokenizer: 13a, intl, char, zh, none, ja-mecab, ko-mecab or auto [13a].")
    ] = None,
    lowercase: Annotated[
        bool, typer.Option("--lowercase", help="Ignore case in BLEU and chrF too; TER always does.")
    ] = False,
    links: Annotated[
        str, typer.Option(help="Extracting word alignments from attention: argmax, threshold or intersection.")
    ] = "argmax",
    backward: Annotated[
        Path | None,
        typer.Option(help="A model of the reverse direction; alignments are symmetrised (grow-diag-final)."),
    ] = None,
    perplexity: Annotated[
        bool, typer.Option("--perplexity/--no-perplexity", help="Compute the perplexity of the reference.")
    ] = True,
    output_format: Annotated[OutputFormat, typer.Option("--format", help="Text, or all figures as JSON.")] = (
        OutputFormat.text
    ),
    plot: Annotated[Path | None, typer.Option(help="Draw BLEU by source length: .png, .svg or .pdf.")] = None,
    output: Annotated[Path | None, typer.Option(help="Write the translations to this file.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps ...")] = "cpu",
    threads: Annotated[int | None, typer.Option(help="CPU threads [torch's choice].", min=1)] = None,
) -> None:
    """Evaluate a model: BLEU, chrF and TER with their signatures, BLEU by length, alignment error rate.

    Classifiers: accuracy, by class. Captioners: BLEU and, on toy:scenes, valid captions and pointing accuracy.

    Word alignments come from attention under forced decoding of the reference, in two ways: from the step that predicts
    a word, and from the step that reads it.

    \b
    regard evaluate models/de-en --source test.de --reference test.en --gold-alignments test.talp
    regard evaluate models/en-fr --toy phrases:en-fr --split long --plot by-length.png
    regard evaluate models/fashion --data /usr/share/datasets/fashion-mnist
    """
    folder = None if model is None else model_folder(model)
    if folder is not None and reads_images(folder):
        only_options(context, IMAGE_OPTIONS, f"{model} reads images, and this is for text")
        _evaluate_images(folder, data, split or IMAGE_SPLIT, output_format, device, threads)
        return
    if data is not None:
        raise ConfigError("--data: names images, for a captioner or a classifier: give --source, or --toy.")
    from regard.data.text.overlap import load_fingerprint
    from regard.evaluation import report as library

    _check_outputs(plot, output)
    if hypotheses is not None and (beam is not None or overrides):
        raise ConfigError("--hypotheses: nothing is translated, so --beam and --set change nothing: leave them out.")
    if toy is None:
        _refuse({"--split": split, "--count": count}, "it goes with --toy")
        test = _read_files(source, reference or [], columns, gold_alignments, one_based)
    else:
        _refuse({"--source": source, "--reference": reference, "--gold-alignments": gold_alignments}, "--toy has it")
        refuse_columns(columns, "--toy names no file")
        test = _toy_test(toy, split, count)
    given = None if hypotheses is None else _read_hypotheses(hypotheses, len(test.sources))
    needed_for = "--gold-alignments" if gold_alignments else None
    translator = _load(folder, device, threads, needed_for=needed_for, given=given)
    with bar_on_stderr() as show:
        report = library.evaluate(
            translator,
            test.sources,
            test.references,
            gold=None if translator is None else test.gold,
            hypotheses=given,
            search=None if translator is None else _search(translator, beam, overrides or []),
            tokenize=tokenize,
            lowercase=lowercase,
            method=links,
            backward=None if backward is None else _load(model_folder(backward), device, threads),
            likelihood=perplexity,
            training=None if folder is None else load_fingerprint(folder),
            on_progress=show,
        )
    _write(report, plot, output)  # first, so that a closed pipe loses nothing
    _show(report, test, model, output_format, tokenize)


# --- images -------------------------------------------------------------------------------------------------------


def _evaluate_images(
    folder: Path, data: str | None, split: str, output_format: OutputFormat, device: str, threads: int | None
) -> None:
    from regard.inference.captioner import Captioner
    from regard.inference.captioner_evaluation import evaluate_captioner
    from regard.inference.classifier import Classifier
    from regard.inference.load import load
    from regard.process import tune_process

    tune_process(threads)
    model = load(folder, device)
    if isinstance(model, Captioner):
        result = evaluate_captioner(model, data, split)
    else:
        assert isinstance(model, Classifier)
        if data is None:
            raise ConfigError("no images were given: name them with --data.")
        result = model.evaluate(model.labelled_images(data, split)).to_dict()
    lines = [json.dumps(result, ensure_ascii=False)] if output_format is OutputFormat.json else _figures(result)
    typer.echo("\n".join(lines))


def _figures(result: Mapping[str, Any]) -> list[str]:
    """Names and values, tables indented under their name; lists of numbers are left to JSON."""
    lines: list[str] = []
    for name, value in result.items():
        label = LABELS.get(name, name.replace("_", " "))
        if isinstance(value, Mapping):
            # the names of classes are the user's, and stay as they are
            words = {each: each if name == "by_class" else each.replace("_", " ") for each in value}
            shares = name in SHARE_TABLES
            lines += [
                label,
                *(
                    f"  {words[each]:<22} {_figure(number, '.1%' if shares else '.4f')}"
                    for each, number in value.items()
                ),
            ]
        elif not isinstance(value, list):
            lines.append(f"{label:<24} {_figure(value, FORMATS.get(name, '.4f'))}")
    return lines


def _figure(value: object, form: str) -> str:
    if isinstance(value, float):
        return f"{value:{form}}".replace("%", " %")
    return f"{value:,}" if isinstance(value, int) else str(value)


# --- the test set -------------------------------------------------------------------------------------------------


def _read_files(
    source: Path | None, references: Sequence[Path], columns: str | None, gold: Path | None, one_based: bool
) -> TestSet:
    from regard.evaluation.test_set import read_test_set

    if source is None:
        raise ConfigError("there is no test set: give --source and --reference, or --toy phrases:en-fr.")
    if gold is None:
        _refuse({"--one-based": one_based or None}, "it goes with --gold-alignments")
    if references:
        refuse_columns(columns, "with --reference, no file has two columns")
        return read_test_set(source, references, gold, one_based=one_based)
    return read_test_set(with_columns(source, parse_columns(columns)), (), gold, one_based=one_based)


def _toy_test(toy: str, split: str | None, count: int | None) -> TestSet:
    from regard.data.toy import toy_corpus
    from regard.evaluation.test_set import TOY_COUNT, TOY_SPLIT, toy_test_set

    name, _, pair = toy.removeprefix("toy:").partition(":")
    return toy_test_set(toy_corpus(name, pair or None), split or TOY_SPLIT, count or TOY_COUNT)


def _read_hypotheses(path: Path, lines: int) -> list[str]:
    from regard.data.lines import read_lines
    from regard.evaluation.test_set import check_lines

    texts = list(read_lines(path))
    check_lines(path, len(texts), "the test set", lines)
    return texts


# --- options ------------------------------------------------------------------------------------------------------


def _load(
    model: Path | None,
    device: str,
    threads: int | None,
    *,
    needed_for: str | None = None,
    given: list[str] | None = None,
) -> Translator | None:
    if model is None:
        if given is None or needed_for is not None:
            reason = f"{needed_for} needs a model" if given is not None else "there is no model to evaluate"
            raise ConfigError(f"{reason}: name a model folder, as in `regard evaluate models/de-en ...`.")
        return None
    from regard.inference.translator import Translator
    from regard.process import thread_count, tune_without_torch

    tune_without_torch(threads)
    translator = Translator.load(model, device=device)
    translator.use_workers(thread_count())
    return translator


def _search(translator: Translator, beam: int | None, overrides: Sequence[str]) -> SearchSettings:
    """The model's search settings, with the changes asked for; one translation each."""
    from regard.decoding.search_settings import overridden_settings

    of_beam = [] if beam is None else [f"search.beam={beam}"]
    return overridden_settings(translator.recipe, ["search.n_best=1", *overrides, *of_beam])


def _check_outputs(plot: Path | None, output: Path | None) -> None:
    """Refuse, before any work, files that could not be written after it."""
    from regard.evaluation.by_length import check_picture

    if plot is not None:
        check_picture(plot)
    for option, path in (("--plot", plot), ("--output", output)):
        if path is not None and path.is_dir():
            raise ConfigError(f"{option} {path}: is a folder: name a file in it.")
        if path is not None and not path.parent.is_dir():
            raise ConfigError(f"{option} {path}: there is no folder {path.parent}: make it first.")


def _refuse(options: dict[str, object], reason: str) -> None:
    for option, value in options.items():
        if value is not None:
            raise ConfigError(f"{option}: {reason}: leave it out, or change the others.")


# --- showing ------------------------------------------------------------------------------------------------------


def _show(report: Report, test: TestSet, model: Path | None, output_format: OutputFormat, tokenize: str | None) -> None:
    from regard.evaluation.scores import fitting_tokenizer
    from regard.evaluation.text_report import render

    warning = None if report.overlap is None else report.overlap.warning()
    if warning is not None:
        typer.echo(f"regard: warning: {warning}", err=True)
    fitting = fitting_tokenizer(test.references[0])
    if tokenize is None and fitting != "13a":
        typer.echo(f"regard: warning: BLEU by 13a words says little here: --tokenize {fitting} fits better.", err=True)
    if output_format is OutputFormat.json:
        about = {"model": None if model is None else str(model), "test": test.description}
        typer.echo(json.dumps(about | report.to_dict(), ensure_ascii=False, allow_nan=False))
        return
    typer.echo(test.description if model is None else f"{model} on {test.description}")
    width = min(WIDEST, shutil.get_terminal_size((80, 24)).columns)
    typer.echo(render(report, width=max(40, width), ascii_only=not _can_write("█─")))


def _can_write(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _write(report: Report, plot: Path | None, output: Path | None) -> None:
    from regard.evaluation.by_length import plot_by_length

    if output is not None:
        from regard.data.lines import writing_lines

        with writing_lines(output) as out:
            out.write("".join(f"{line}\n" for line in report.hypotheses).encode())
    if plot is not None:
        plot_by_length(report.by_length, plot, title="BLEU by source length")
