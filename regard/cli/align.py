"""`regard align`: word alignment of parallel text, without a model."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.columns import Columns, parse_columns, refuse_columns, with_columns
from regard.cli.progress import bar_on_stderr
from regard.cli.texts import one_text


def align(
    source: Annotated[Path, typer.Argument(help="The sentences, or one file with a tab between the sides.")],
    target: Annotated[Path | None, typer.Argument(help="Their translations, line by line.", show_default=False)] = None,
    train: Annotated[
        list[str] | None,
        typer.Option(metavar="SOURCE [TARGET]", help="More training text for the aligner.", show_default=False),
    ] = None,
    columns: Columns = None,
    gold: Annotated[
        Path | None,
        typer.Option(help="Gold alignments to compare with: i-j sure, ipj possible, from 0.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write this file, atomically.", show_default=False),
    ] = None,
    pieces: Annotated[
        int | None, typer.Option(min=8, help="Vocabulary size of each language, in subwords.", show_default=False)
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads.", show_default=False)] = None,
) -> None:
    """Print the word alignment of each pair, as `0-0 1-2`: source word, target word, counted from 0.

    \b
    regard align corpus.de corpus.en > links.txt
    regard align test.de test.en --train corpus.de corpus.en --gold test.talp > links.txt

    Words are separated by white space: tokenise the text first. Two hidden Markov models (both directions) are trained
    on the text itself; a link needs the agreement of both. Guided attention uses the same alignments
    (`regard train --set training.guided_attention=0.5`). It needs some thousand pairs; --train adds more.
    """
    from regard.data.lines import writing_lines
    from regard.data.text.aligner import PIECES, align_corpus
    from regard.data.text.sources import Mix, open_text
    from regard.data.text.texts import Text
    from regard.errors import ConfigError
    from regard.evaluation.alignment import aer, check_bounds, format_links, read_links
    from regard.process import tune_process

    tune_process(threads)
    if output is not None and not output.parent.is_dir():
        raise ConfigError(f"--output {output}: there is no folder {output.parent}: make it first.")
    chosen = parse_columns(columns)
    more = one_text("--train", train, chosen)
    if target is not None and (more is None or isinstance(more, tuple)):
        refuse_columns(columns, "no text is one file with tabs")
    first = (str(source), str(target)) if target is not None else with_columns(str(source), chosen)
    text = open_text(Mix([first] if more is None else [first, more]), "train")
    known = None if gold is None else read_links(gold)
    if known is not None:
        asked = list(Text(text.corpora[:1]).pairs())
        check_bounds(known, [pair.source for pair in asked], [pair.target for pair in asked], where=str(gold))
    found = []
    with bar_on_stderr() as show, nullcontext(sys.stdout.buffer) if output is None else writing_lines(output) as out:
        for links in align_corpus(
            text,
            pieces=PIECES if pieces is None else pieces,
            on_progress=lambda share: show("aligning words, %", round(100 * share), 100),
        ):
            out.write(f"{format_links(links)}\n".encode())
            if known is not None:
                found.append(links)
    if known is not None:
        score = aer(found, [links.sure for links in known], [links.possible for links in known])
        figures = f"precision {score.precision:.3f}  recall {score.recall:.3f}  links {score.links:,}"
        typer.echo(f"AER {score.aer:.3f}  {figures}", err=True)
