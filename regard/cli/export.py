"""`regard export`: a model in the format of another tool."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import MODEL_HELP
from regard.errors import ConfigError, did_you_mean
from regard.inference.box import model_folder

FORMATS = ("huggingface", "ctranslate2", "onnx", "compact", "word2vec")


def export(
    model: Annotated[Path, typer.Argument(help=MODEL_HELP, show_default=False)],
    to: Annotated[
        str,
        typer.Option(metavar="TOOL", help="huggingface, ctranslate2, onnx, compact or word2vec.", show_default=False),
    ],
    out: Annotated[
        Path, typer.Option(metavar="PATH", help="The folder (word2vec: the file) to write.", show_default=False)
    ],
    side: Annotated[str, typer.Option(help="word2vec: source or target words.")] = "source",
) -> None:
    """Export a model to the format of another tool, or with compact weights.

    \b
    regard export models/de-en --to huggingface --out marian-de-en
    regard export models/de-en --to word2vec --side target --out vectors.txt

    huggingface: a Marian model (a Transformer with model.norm = "post").
    ctranslate2: any Transformer.
    onnx: any translation model, as graphs of the encoder, of one decoder step and of the output layer.
    compact: a model folder with int8 weights, a quarter of the size, of any model.
    word2vec: the vectors of whole words, of any model.
    """
    if to not in FORMATS:
        raise ConfigError(f"--to {to}: Regard does not export to that: {did_you_mean(to, FORMATS)}")
    if side not in ("source", "target"):
        raise ConfigError(f"--side {side}: choose source or target.")
    model = model_folder(model)
    if to == "huggingface":
        from regard.interop.huggingface import export_huggingface

        export_huggingface(model, out)
    elif to == "ctranslate2":
        from regard.interop.ctranslate2_export import export_ctranslate2

        export_ctranslate2(model, out)
    elif to == "onnx":
        from regard.interop.onnx import export_onnx

        export_onnx(model, out)
    elif to == "compact":
        from regard.interop.compact import export_compact

        before, after = export_compact(model, out)
        typer.echo(f"wrote {out}: weights of {after / 1e6:.1f} MB instead of {before / 1e6:.1f} MB")
        return
    else:
        from regard.interop.word2vec import export_word2vec

        count = export_word2vec(model, out, "target" if side == "target" else "source")
        typer.echo(f"wrote {out}: vectors of {count:,} {side} words")
        return
    typer.echo(f"wrote {out}: its README.md says how to use it")
