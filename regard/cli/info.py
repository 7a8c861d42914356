"""`regard info`: what a model folder holds."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from regard.folder import Folder


class OutputFormat(StrEnum):
    """How the folder is described."""

    text = "text"
    json = "json"


def info(
    model: Annotated[Path, typer.Argument(help="A model folder that `regard train` wrote.", show_default=False)],
    output_format: Annotated[OutputFormat, typer.Option("--format", help="Text, or everything as JSON.")] = (
        OutputFormat.text
    ),
) -> None:
    """Say what a model folder holds: architecture, sizes, scores, settings, files.

    Example: regard info models/de-en
    """
    from regard.folder import read_folder

    folder = read_folder(model)
    about = describe(folder)
    typer.echo(json.dumps(about, ensure_ascii=False) if output_format is OutputFormat.json else _text(folder, about))


def describe(folder: Folder) -> dict[str, Any]:
    """Everything that can be said of a folder, ready for JSON."""
    weights = folder.weights()
    files = sorted(path for path in folder.path.iterdir() if path.is_file())
    return {
        "path": str(folder.path),
        "version": folder.version,
        "model": folder.model_class or folder.recipe.model.kind,
        "parameters": sum(tensor.numel() for tensor in weights.values()),
        "number_types": sorted({str(tensor.dtype).removeprefix("torch.") for tensor in weights.values()}),
        "source_vocabulary": folder.source_tokenizer.size,
        "target_vocabulary": folder.target_tokenizer.size,
        "can_resume": (folder.path / "training").is_dir(),
        "metrics": folder.metrics,
        "recipe": folder.recipe.model_dump(mode="json"),
        "files": {path.name: path.stat().st_size for path in files},
    }


def _text(folder: Folder, about: dict[str, Any]) -> str:
    recipe = folder.recipe
    pieces = f"{recipe.text.tokenizer} pieces" + (", shared" if recipe.text.joint else "")
    title = "your own class" if folder.model_class else f"{recipe.model.title} ({recipe.model.paper})"
    facts = {
        "model": about["model"],
        "that is": title,
        "recipe": recipe.description,
        "parameters": f"{about['parameters']:,} ({', '.join(about['number_types'])})",
        "source vocabulary": f"{about['source_vocabulary']:,} {pieces}",
        "target vocabulary": f"{about['target_vocabulary']:,} {pieces}",
        "written by": f"Regard {about['version']}",
    }
    if about["can_resume"]:
        facts["training state"] = f"kept: `regard train --resume {folder.path}` goes on"
    settings = {"model": about["recipe"]["model"], **_changed_settings(folder)}
    sections = {
        "measured": _flat(about["metrics"]),
        "settings of the model, and others that differ from the defaults": _flat(settings),
        "files": {name: _size(size) for name, size in about["files"].items()},
    }
    lines = [str(folder.path), *_rows({name: fact for name, fact in facts.items() if fact})]
    for heading, rows in sections.items():
        if rows:
            lines += ["", heading, *_rows(rows)]
    return "\n".join(lines)


def _changed_settings(folder: Folder) -> dict[str, Any]:
    changed = folder.recipe.model_dump(mode="json", exclude_defaults=True)
    return {table: changed[table] for table in ("text", "training", "search") if changed.get(table)}


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested tables as `table.key` and a short value."""
    flat: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        elif isinstance(value, float):
            flat[prefix + key] = f"{value:.6g}"
        elif value is not None:
            flat[prefix + key] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return flat


def _rows(rows: dict[str, str]) -> list[str]:
    width = max(len(name) for name in rows)
    return [f"  {name:<{width}}  {value}" for name, value in rows.items()]


def _size(size: int) -> str:
    if size < 1000:
        return f"{size} bytes"
    return f"{size / 1e3:.1f} kB" if size < 1e6 else f"{size / 1e6:.1f} MB"
