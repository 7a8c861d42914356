"""`regard quickstart`: the whole way from text to a picture of attention, with nothing to download."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from regard.data.toy import AlignedPair
    from regard.evaluation.report import Report
    from regard.inference.translator import Translator

LEAST_BLEU = 90.0
MOST_AER = 0.10
# About a million target tokens each, read in three minutes.
TRAIN_PAIRS = {"en-fr": 62_000, "en-de": 68_000, "en-ko": 80_000}
TEST_PAIRS, SHOWN = 500, 4
SHOWN_WORDS = (7, 11)  # the drawn sentence has so many words: enough to reorder, few enough for 80 columns


def quickstart(
    pair: Annotated[str, typer.Option(help="en-fr, en-de or en-ko.")] = "en-fr",
    out: Annotated[
        Path | None,
        typer.Option(help="The model folder (default: models/quickstart-PAIR or -images).", show_default=False),
    ] = None,
    threads: Annotated[int, typer.Option(help="Threads to use; more hardly help so small a model.")] = 1,
    images: Annotated[
        bool, typer.Option("--images", help="Train a captioner on embedded images instead of a translator.")
    ] = False,
) -> None:
    """Train a Bahdanau model on embedded phrases, translate unseen sentences, score them, and draw attention.

    Before that, the installed models (`regard models`) translate a sentence each.
    With --images, Show, Attend and Tell learns to describe embedded scenes.
    Either takes about three minutes, and exits with 1 if the model is worse than it should be.
    """
    if images:
        from regard.cli.quickstart_images import quickstart_images

        quickstart_images(out, threads)
        return
    from regard.data.toy import toy_corpus

    corpus = toy_corpus("phrases", pair)
    target = out or Path("models") / f"quickstart-{pair}"
    started = time.monotonic()
    _show_installed()
    typer.echo(f"1. Train a Bahdanau model on {TRAIN_PAIRS[pair]:,} embedded sentences, {pair}.")
    translator = _train(pair, target, may_overwrite=out is None, threads=threads)
    typer.echo(f"\n2. Translate {TEST_PAIRS} sentences that it has never seen.\n")
    test = list(corpus.generate("test", TEST_PAIRS, seed=0))
    report = translator.evaluate(f"toy:phrases:{pair}:{TEST_PAIRS}")
    _show_translations(test, report)
    typer.echo("\n3. Score them.\n")
    good = _show_scores(report)
    typer.echo("\n4. Look: which English words did each word attend to?\n")
    sentence = next(item.source for item in test if SHOWN_WORDS[0] <= len(item.source.split()) <= SHOWN_WORDS[1])
    _draw(translator, sentence)
    typer.echo(_next(pair, target, sentence, time.monotonic() - started))
    if not good:
        raise typer.Exit(1)


def _show_installed() -> None:
    """Translate a sentence with the best installed model of each direction, and draw the attention of one."""
    from regard.inference.box import boxed_models, own_sentences
    from regard.inference.translator import Translator

    models = [model for model in boxed_models() if model.languages is not None]
    best = {model.group: model for model in reversed(models)}  # the first of a group is its best
    if not best:
        return
    typer.echo("Installed models translate at once: `regard models` lists them.\n")
    for model in sorted(best.values(), key=lambda model: model.name):
        assert model.languages is not None
        sentence = own_sentences()[0][model.languages[0]]
        typer.echo(f"   {sentence}\n   -> {Translator.load(model.folder).translate(sentence).text}   ({model.name})")
    drawn = next((model for model in models if model.kind == "bahdanau"), models[0])
    assert drawn.languages is not None
    sentence = own_sentences()[0][drawn.languages[0]]
    typer.echo(f'\nregard look {drawn.name} "{sentence}"\n')
    _draw(Translator.load(drawn.folder), sentence)
    typer.echo("\nNow a model of your own.\n")


def _train(pair: str, out: Path, may_overwrite: bool, threads: int) -> "Translator":
    import regard

    # The default folder is the quickstart's own, so it may be run again; a folder that was named is the user's.
    trained = regard.train(
        "quickstart", train=f"toy:phrases:{pair}:{TRAIN_PAIRS[pair]}", out=out, overwrite=may_overwrite, threads=threads
    )
    assert isinstance(trained, regard.Translator)
    return trained


def _show_translations(test: "list[AlignedPair]", report: "Report") -> None:
    for item, text in list(zip(test, report.hypotheses, strict=True))[:SHOWN]:
        verdict = "" if text == item.target else f"\n   should be  {item.target}"
        typer.echo(f"   {item.source}\n   -> {text}{verdict}")


def _show_scores(report: "Report") -> bool:
    """Print the two figures; whether both are as good as they should be."""
    bleu, alignment = report.scores["bleu"], report.alignment
    assert alignment is not None
    rate = alignment.this_step
    rows = [
        (f"BLEU {bleu.value:.1f}", f"at least {LEAST_BLEU:.0f}", bleu.value >= LEAST_BLEU, bleu.signature),
        (
            f"alignment error rate {rate.aer:.3f}",
            f"at most {MOST_AER:.2f}",
            rate.aer <= MOST_AER,
            f"precision {rate.precision:.3f}, recall {rate.recall:.3f}",
        ),
    ]
    for figure, wanted, met, detail in rows:
        typer.echo(f"   {figure} ({wanted}: {'met' if met else 'MISSED'}; {detail})")
    return all(met for _, _, met, _ in rows)


def _draw(translator: "Translator", sentence: str) -> None:
    from rich.console import Console

    from regard.look.views.terminal import look_table

    console = Console()
    console.print(look_table(translator.look(sentence), width=console.width))


def serve_line(model: Path) -> str:
    """The command that opens the live page, with its address."""
    from regard.serve.settings import ServeSettings

    settings = ServeSettings()
    return f"  regard serve {model} --open    # the live page, at http://{settings.host}:{settings.port}"


def _next(pair: str, out: Path, sentence: str, seconds: float) -> str:
    return f"""
Done in {seconds / 60:.1f} minutes. The model is in {out}. What to type next (inside .venv: source .venv/bin/activate):

{serve_line(out)}
  echo "{sentence}" | regard translate {out}
  regard look {out} "{sentence}" --output attention.png
  regard evaluate {out} --toy phrases:{pair} --split long
  regard info {out}
  regard train bahdanau --train corpus.de corpus.en --valid dev.de dev.en --out models/de-en
"""
