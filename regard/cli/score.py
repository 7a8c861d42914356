"""`regard score`: log-probability and perplexity of given translations."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.cli.columns import Columns, parse_columns, refuse_columns, with_columns
from regard.cli.options import MODEL_HELP


def score(
    model: Annotated[Path, typer.Argument(help=MODEL_HELP)],
    source: Annotated[Path, typer.Option(help="The sentences, or one file with a tab between the sides.")],
    target: Annotated[Path | None, typer.Option(help="Their translations, line by line.", show_default=False)] = None,
    columns: Columns = None,
    form: Annotated[
        Literal["text", "json"], typer.Option("--format", help="Columns, or one JSON object per line.")
    ] = "text",
    batch_tokens: Annotated[
        int | None, typer.Option(min=1, help="Tokens in a batch, padding included.", show_default=False)
    ] = None,
    device: Annotated[str, typer.Option(help="Device: cpu, cuda, mps.")] = "cpu",
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads.", show_default=False)] = None,
) -> None:
    """Print the log-probability, tokens and perplexity of each given pair, and of all of them at the end.

    \b
    regard score models/de-en --source test.de --target test.en

    The logarithm is natural, and tokens count the end of the sentence. The columns are separated by tabs and have a
    header; the last line is named `total`. As JSON, the last object has the key `pairs` with their number.
    """
    from regard.data.text.parallel import read_pairs
    from regard.evaluation.scores import perplexity
    from regard.inference.box import model_folder
    from regard.inference.translator import Translator
    from regard.process import tune_process

    if target is not None:
        refuse_columns(columns, "with --target, no file has two columns")
    first = source if target is not None else with_columns(source, parse_columns(columns))
    tune_process(threads)
    translator = Translator.load(model_folder(model), device)
    pairs, log_probability, tokens = 0, 0.0, 0
    if form == "text":
        typer.echo("pair\tlog_probability\ttokens\tperplexity")
    for each in translator.score_pairs(read_pairs(first, target), batch_tokens=batch_tokens):
        pairs += 1
        log_probability += each.log_probability
        tokens += each.tokens
        _show(form, str(pairs), each.log_probability, each.tokens, each.perplexity)
    _show(form, "total", log_probability, tokens, perplexity(log_probability, tokens), pairs)


def _show(
    form: str, name: str, log_probability: float, tokens: int, perplexity: float, pairs: int | None = None
) -> None:
    if form == "text":
        typer.echo(f"{name}\t{log_probability:.4f}\t{tokens}\t{perplexity:.4f}")
        return
    values: dict[str, float | None] = {
        "log_probability": log_probability,
        "tokens": tokens,
        "perplexity": perplexity if perplexity < float("inf") else None,  # JSON has no infinity
    }
    typer.echo(json.dumps({"pairs": pairs, **values} if pairs is not None else values))
