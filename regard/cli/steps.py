"""`regard steps`: attention step by step, for an example or for matrices that are typed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    import numpy.typing as npt

    from regard.look.steps import Array, FiveSteps, Local, MultiHeadSteps

Rows = list[list[float]]


class OutputFormat(StrEnum):
    """How the steps are printed."""

    text = "text"
    json = "json"


def steps(
    example: Annotated[
        Literal["small", "textbook"],
        typer.Option(help="Numbers to begin with; those of `textbook` saturate the softmax."),
    ] = "small",
    query: Annotated[str | None, typer.Option(help="One query or several [1,0.5,1].", show_default=False)] = None,
    keys: Annotated[
        str | None,
        typer.Option(help="One row for each position [0,1,1; 2,0,1; 1,1,0; 0,2,1].", show_default=False),
    ] = None,
    values: Annotated[str | None, typer.Option(help="One row for each key [the keys].", show_default=False)] = None,
    score: Annotated[
        str | None,
        typer.Option(
            help="dot, scaled_dot, cosine, general, additive, concat or location [dot; with --self or --heads "
            "scaled_dot].",
            show_default=False,
        ),
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option(
            help="W of general or location; for additive give it three times: W, U, v; for concat twice: W, v.",
            show_default=False,
        ),
    ] = None,
    sharpness: Annotated[
        float | None, typer.Option(help="β of the cosine score β cos(q, k) [1].", show_default=False)
    ] = None,
    mask: Annotated[
        str | None,
        typer.Option(help='Padding: 0 for keys that may not be attended to, such as "1,1,1,0".', show_default=False),
    ] = None,
    centre: Annotated[
        float | None, typer.Option(help="Local attention: the centre p, counted from 1.", show_default=False)
    ] = None,
    window: Annotated[
        float | None, typer.Option(help="Local attention: D positions on either side of p.", show_default=False)
    ] = None,
    gaussian: Annotated[
        bool, typer.Option("--gaussian", help="local-p: the weights times a Gaussian around p.")
    ] = False,
    wc: Annotated[
        str | None, typer.Option(help="Go on: attentional vector tanh(Wc [context; query]).", show_default=False)
    ] = None,
    wp: Annotated[
        str | None, typer.Option(help="Go on: probabilities softmax(Wp a) of the next word.", show_default=False)
    ] = None,
    self_rows: Annotated[
        str | None,
        typer.Option("--self", help="Self-attention of these rows, instead of --query and --keys."),
    ] = None,
    wq: Annotated[str | None, typer.Option(help="With --self: Q = X Wq.")] = None,
    wk: Annotated[str | None, typer.Option(help="With --self: K = X Wk.")] = None,
    wv: Annotated[str | None, typer.Option(help="With --self: V = X Wv.")] = None,
    causal: Annotated[bool, typer.Option("--causal", help="With --self: causal mask.")] = False,
    heads: Annotated[
        int | None, typer.Option(min=1, help="Split queries, keys and values into heads.", show_default=False)
    ] = None,
    wo: Annotated[
        str | None, typer.Option(help="With --heads: the concatenated contexts times Wo.", show_default=False)
    ] = None,
    output_format: Annotated[OutputFormat, typer.Option("--format", help="Text, or all numbers as JSON.")] = (
        OutputFormat.text
    ),
) -> None:
    """Print attention step by step, from scores to the next word, for an example or for numbers of your own.

    A matrix is rows with ';' between them and ',' within: "1,0; 0,1". JSON, a .csv or a .json file will do.

    \b
    regard steps
    regard steps --example textbook
    regard steps --query "1,0" --keys "1,0; 0,1" --values "5; 7" --score scaled_dot
    regard steps --mask 1,1,1,0
    regard steps --centre 2.5 --window 1 --gaussian
    regard steps --self "1,0,0,1; 0,2,1,0; 1,1,2,0" --heads 2 --causal
    """
    from regard.look.steps import EXAMPLES, causal_mask, five_steps, multi_head, next_word, without_decoder
    from regard.look.views.steps_text import render, render_json

    if self_rows is None:
        _refuse({"--wq": wq, "--wk": wk, "--wv": wv, "--causal": causal or None}, "it goes with --self")
    else:
        _refuse({"--query": query, "--keys": keys, "--values": values}, "with --self the rows are all three")
        _refuse({"--wc": wc, "--wp": wp}, "it goes with a decoder's query")
    _refuse({"--wo": wo if heads is None else None}, "it goes with --heads")
    _refuse({"--wp": wp if wc is None else None}, "it goes with --wc")
    if heads is not None:
        _refuse({"--wc": wc, "--weight": weight, "--sharpness": sharpness}, "it does not go with --heads")
    local = _local(centre, window, gaussian)
    shown = None if mask is None else read_matrix(mask, "--mask")
    matrices = [read_matrix(text, "--weight") for text in weight or []]
    result: FiveSteps | MultiHeadSteps
    q: npt.ArrayLike
    k: npt.ArrayLike
    v: npt.ArrayLike | None
    if self_rows is not None:
        q, k, v = _projected(self_rows, wq, wk, wv)
        allowed = causal_mask(shown, len(read_matrix(self_rows, "--self"))) if causal else shown
    else:
        chosen = EXAMPLES[example]
        q, k, v = _given(query, chosen.query, "--query"), _given(keys, chosen.keys, "--keys"), _read(values, "--values")
        allowed = shown
    if heads is not None:
        result = multi_head(q, k, v, heads, score or "scaled_dot", allowed, _read(wo, "--wo"), local)
    else:
        name = score or ("dot" if self_rows is None else "scaled_dot")
        result = five_steps(q, k, v, name, matrices, allowed, sharpness, local)
        if self_rows is not None:
            result = without_decoder(result)
        elif wc is not None:
            result = next_word(result, read_matrix(wc, "--wc"), _read(wp, "--wp"))
        elif chosen.combine is not None and query is None and keys is None and values is None:
            result = next_word(result, chosen.combine, chosen.project)
    typer.echo(render(result) if output_format is OutputFormat.text else render_json(result))


def _local(centre: float | None, window: float | None, gaussian: bool) -> Local | None:
    from regard.look.steps import Local

    if centre is None and window is None:
        _refuse({"--gaussian": gaussian or None}, "it goes with --centre and --window")
        return None
    if centre is None or window is None:
        raise ConfigError("local attention has a centre and a window: give both --centre and --window")
    return Local(centre, window, gaussian)


def _read(text: str | None, option: str) -> Rows | None:
    return None if text is None else read_matrix(text, option)


def _given(text: str | None, example: Sequence[Sequence[float]], option: str) -> Sequence[Sequence[float]]:
    return example if text is None else read_matrix(text, option)


def _projected(rows: str, wq: str | None, wk: str | None, wv: str | None) -> tuple[Array, Array, Array]:
    from regard.look.steps import projections

    return projections(read_matrix(rows, "--self"), _read(wq, "--wq"), _read(wk, "--wk"), _read(wv, "--wv"))


def _refuse(options: dict[str, object], reason: str) -> None:
    for option, value in options.items():
        if value is not None:
            raise ConfigError(f"{option}: {reason}: leave it out, or change the others")


def read_matrix(text: str, option: str) -> Rows:
    """The rows of "1,0; 0,1", of "[[1,0],[0,1]]", or of a .csv or .json file."""
    where = option
    if text.lower().endswith((".csv", ".json")):
        where, text = text, _read_file(Path(text), option)
    if text.lstrip().startswith("["):
        rows = _json_rows(text, where)
    else:
        lines = text.replace("\n", ";").split(";")
        rows = [_row(line, where) for line in lines if line.strip()]
    if not rows or not rows[0]:
        raise ConfigError(f'{where}: it is empty: give numbers, such as "1,0; 0,1"')
    for number, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            raise ConfigError(
                f"{where}: row {number} has {len(row)} numbers but row 1 has {len(rows[0])}: make them equal"
            )
    return rows


def _row(line: str, where: str) -> list[float]:
    words = line.split(",") if "," in line else line.split()
    return [_number(word.strip(), where) for word in words]


def _number(word: object, where: str) -> float:
    try:
        if isinstance(word, (str, int, float)) and not isinstance(word, bool):
            return float(word)
    except (ValueError, OverflowError):
        pass
    raise ConfigError(f'{where}: {word!r} is not a number: write rows such as "1,0; 0,1"')


def _json_rows(text: str, where: str) -> Rows:
    try:
        data = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        raise ConfigError(f'{where}: this is not JSON: write "[[1,0],[0,1]]" or "1,0; 0,1"') from None
    rows = data if data and isinstance(data[0], list) else [data]
    for row in rows:
        if not isinstance(row, list):
            raise ConfigError(f"{where}: {row!r} is not a row: write [[1,0],[0,1]]")
    return [[_number(number, where) for number in row] for row in rows]


def _read_file(path: Path, option: str) -> str:
    try:
        return path.read_text("utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"{option} {path}: there is no such file: check the path") from None
    except IsADirectoryError:
        raise DataError(f"{option} {path}: this is a folder: give a .csv or .json file") from None
    except UnicodeDecodeError:
        raise DataError(f"{option} {path}: this is not UTF-8 text: give a .csv or .json file") from None
