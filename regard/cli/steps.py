"""`regard steps`: the options of the five steps of attention, and how matrices are typed."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.look.steps import FiveSteps

Rows = list[list[float]]


class OutputFormat(StrEnum):
    """How the steps are printed."""

    text = "text"
    json = "json"


def steps(
    query: Annotated[str | None, typer.Option(help="One query or several [10,5,10].", show_default=False)] = None,
    keys: Annotated[
        str | None,
        typer.Option(help="One row for each position [0,1,1; 5,0,1; 1,1,0; 0,5,1].", show_default=False),
    ] = None,
    values: Annotated[str | None, typer.Option(help="One row for each key [the keys].", show_default=False)] = None,
    score: Annotated[
        str | None,
        typer.Option(
            help="dot, scaled_dot, cosine, general, additive or location [dot; with --self scaled_dot].",
            show_default=False,
        ),
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option(
            help="W of general or location; for additive give it three times: W, U, v.",
            show_default=False,
        ),
    ] = None,
    sharpness: Annotated[
        float | None, typer.Option(help="β of the cosine score β cos(q, k) [1].", show_default=False)
    ] = None,
    self_rows: Annotated[
        str | None,
        typer.Option("--self", help="Self-attention of these rows, instead of --query and --keys."),
    ] = None,
    wq: Annotated[str | None, typer.Option(help="With --self: Q = X Wq.")] = None,
    wk: Annotated[str | None, typer.Option(help="With --self: K = X Wk.")] = None,
    wv: Annotated[str | None, typer.Option(help="With --self: V = X Wv.")] = None,
    causal: Annotated[bool, typer.Option("--causal", help="With --self: causal mask.")] = False,
    output_format: Annotated[OutputFormat, typer.Option("--format", help="Text, or all numbers as JSON.")] = (
        OutputFormat.text
    ),
) -> None:
    """Print the five steps of attention for the textbook example, or for vectors and matrices of your own.

    A matrix is rows with ';' between them and ',' within: "1,0; 0,1". JSON, a .csv or a .json file will do.

    Example: regard steps --query "1,0" --keys "1,0; 0,1" --values "5; 7" --score scaled_dot
    """
    from regard.look.steps import render, render_json

    if self_rows is None:
        _refuse({"--wq": wq, "--wk": wk, "--wv": wv, "--causal": causal or None}, "it goes with --self")
        result = _cross(query, keys, values, score, weight or [], sharpness)
    else:
        _refuse({"--query": query, "--keys": keys, "--values": values}, "with --self the rows are all three")
        result = _self(self_rows, (wq, wk, wv), score, weight or [], causal, sharpness)
    typer.echo(render(result) if output_format is OutputFormat.text else render_json(result))


def _cross(
    query: str | None,
    keys: str | None,
    values: str | None,
    score: str | None,
    weight: list[str],
    sharpness: float | None,
) -> FiveSteps:
    from regard.look.steps import TEXTBOOK_KEYS, TEXTBOOK_QUERY, five_steps

    return five_steps(
        TEXTBOOK_QUERY if query is None else read_matrix(query, "--query"),
        TEXTBOOK_KEYS if keys is None else read_matrix(keys, "--keys"),
        None if values is None else read_matrix(values, "--values"),
        score or "dot",
        [read_matrix(text, "--weight") for text in weight],
        sharpness=sharpness,
    )


def _self(
    rows: str,
    projections: tuple[str | None, str | None, str | None],
    score: str | None,
    weight: list[str],
    causal: bool,
    sharpness: float | None,
) -> FiveSteps:
    from regard.look.steps import self_attention

    query_weight, key_weight, value_weight = (
        None if text is None else read_matrix(text, option)
        for text, option in zip(projections, ("--wq", "--wk", "--wv"), strict=True)
    )
    return self_attention(
        read_matrix(rows, "--self"),
        query_weight,
        key_weight,
        value_weight,
        score or "scaled_dot",
        [read_matrix(text, "--weight") for text in weight],
        causal,
        sharpness,
    )


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
