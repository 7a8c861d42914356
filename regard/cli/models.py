"""`regard models`: the installed models."""

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from regard.inference.box import BoxedModel


class OutputFormat(StrEnum):
    """How the models are listed."""

    text = "text"
    json = "json"


def models(
    pattern: Annotated[
        str, typer.Argument(help="Only these, by a shell pattern: 'de-en/*'.", show_default=False)
    ] = "*",
    output_format: Annotated[OutputFormat, typer.Option("--format", help="A table, or JSON.")] = OutputFormat.text,
) -> None:
    """List the installed models: languages, size, score on the held-out test set, licence of the training text.

    \b
    regard models
    echo "Der Hund schläft unter dem Tisch." | regard translate de-en
    regard look de-en/bahdanau "Der Hund schläft unter dem Tisch."

    They come with the package regard-models and need no network. `de-en` is the best model of that direction. Every
    command that reads a model folder takes these names too; a model folder of your own with such a name comes first.
    `regard architectures` lists the architectures.
    """
    from regard.errors import ConfigError
    from regard.inference.box import INSTALL, boxed_models, boxed_names

    found = boxed_models(pattern if "/" in pattern or "*" in pattern else f"{pattern}/*")
    if output_format is OutputFormat.json:
        typer.echo(json.dumps([_entry(model) for model in found], ensure_ascii=False))
        return
    if not found:
        if names := boxed_names():
            raise ConfigError(f"{pattern}: no installed model has that name. Installed: {', '.join(names)}.")
        typer.echo(f"no models are installed: {INSTALL}")
        return
    typer.echo("\n".join(_table(found)))


def _entry(model: "BoxedModel") -> dict[str, Any]:
    return {
        "name": model.name,
        "kind": model.kind,
        "languages": model.languages,
        "bytes": model.bytes,
        "folder": str(model.folder),
        **model.record.model_dump(),
    }


def _table(found: "list[BoxedModel]") -> list[str]:
    """Aligned columns, then their size and what the name of a group means."""
    from regard.inference.box import boxed_models

    rows = [("name", "languages", "size", "test", "licence of the data")]
    for model in found:
        languages = "images" if model.languages is None else "→".join(model.languages)
        test = model.record.test
        size = f"{model.bytes / 1e6:.1f} MB" if model.bytes >= 1e5 else f"{model.bytes / 1e3:.0f} kB"
        rows.append((model.name, languages, size, f"{test.value:.1f} {test.metric}", model.record.licence))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    total = f"{sum(model.bytes for model in found) / 1e6:.1f} MB"
    group = found[0].group
    best = boxed_models(f"{group}/*")[0]
    short = f"`{group}` is short for {best.name}, the best model of its group."
    return [*lines, "", f"{total} in all.", short]
