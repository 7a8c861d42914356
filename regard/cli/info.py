"""`regard info`: a description of a model folder or of the machine."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import MODEL_HELP, reads_images
from regard.errors import ConfigError, printable
from regard.inference.box import model_folder

if TYPE_CHECKING:
    from torch import Tensor

    from regard.config.settings import AnyRecipe
    from regard.inference.folder import Folder
    from regard.models.contract import Model


class OutputFormat(StrEnum):
    """How the folder is described."""

    text = "text"
    json = "json"


# figures of metrics.json that the facts above them say already
SAID = ("data", "parameters", "source_vocabulary", "target_vocabulary", "unfinished")
INTERNAL = ("floor", "weights")  # what an installed model keeps for its tests
FASTER = " is faster"
UNITS = {"word": "words", "character": "characters"}  # of a vocabulary; of any other tokenizer: subwords


def info(
    model: Annotated[
        Path | None,
        typer.Argument(help=MODEL_HELP, show_default=False),
    ] = None,
    machine: Annotated[bool, typer.Option("--machine", help="Describe the machine instead: for bug reports.")] = False,
    output_format: Annotated[OutputFormat, typer.Option("--format", help="Text, or everything as JSON.")] = (
        OutputFormat.text
    ),
) -> None:
    """Describe a model folder: architecture, parameters, vocabularies or classes, data, scores, settings, files.

    All files of the model are read and checked: for a damaged folder, one line names the file.

    With --machine: processor, instruction sets as advertised and as tried in a child process, threads, float32 GEMM
    rate, versions.

    \b
    regard info models/de-en
    """
    if machine == (model is not None):
        raise ConfigError("name a model folder, or --machine" + (", not both." if machine else "."))
    if model is None:
        from regard.machine.report import describe_machine, machine_text

        found = describe_machine()
        typer.echo(json.dumps(found) if output_format is OutputFormat.json else machine_text(found))
        return
    model = model_folder(model)
    recipe, about = _images(model) if reads_images(model) else _translation(model)
    typer.echo(json.dumps(about, ensure_ascii=False) if output_format is OutputFormat.json else _text(recipe, about))


def _translation(path: Path) -> tuple[AnyRecipe, dict[str, Any]]:
    """Description of a translator's folder, ready for JSON."""
    from regard.data.text.overlap import load_fingerprint
    from regard.inference.folder import read_folder

    folder = read_folder(path)
    weights = folder.weights()
    model = _checked_model(folder, weights)
    paths = None if model is None else model.paths()
    fingerprint = load_fingerprint(path)
    about = _about(path, folder.recipe, folder.version, weights, folder.metrics) | {
        "paths": None if paths is None else paths._asdict(),
        "languages": folder.recipe.text.languages,
        "tokenizer": folder.recipe.text.tokenizer,
        "joint": folder.source_tokenizer is folder.target_tokenizer,
        "source_vocabulary": folder.source_tokenizer.size,
        "target_vocabulary": folder.target_tokenizer.size,
        "training_sentences_known": None if fingerprint is None else len(fingerprint),
        "compiled": [{**copy._asdict(), "path": str(copy.path)} for copy in folder.compiled.listed()],
    }
    if folder.model_class is None:
        about["engines"] = _engines(folder)
    if folder.model_class:
        about |= {"model": folder.model_class, "title": None, "paper": None}
    return folder.recipe, about


def _engines(folder: Folder) -> dict[str, str | None]:
    """Why each engine, fastest first, would not translate with the folder's settings; None for the first that would."""
    from regard.decoding.engines.choice import ENGINES, Engines

    engines, wanted = Engines(folder.text_model("cpu")), folder.recipe.search
    if wanted.engine != "auto":
        return {wanted.engine: engines.why_not(wanted.engine, wanted)}
    reasons = {name: engines.why_not(name, wanted) for name in ENGINES}
    used = engines.name(wanted)
    label = engines.described(wanted)
    return {
        label if name == used else name: why or (None if name == used else f"{used}{FASTER}")
        for name, why in reasons.items()
    }


def _images(path: Path) -> tuple[AnyRecipe, dict[str, Any]]:
    """Description of an image model's folder."""
    from regard.inference.captioner import Captioner
    from regard.inference.classifier import Classifier
    from regard.inference.load import load
    from regard.storage.folder import WEIGHTS, read_table
    from regard.storage.weights import read_tensors

    version = str(read_table(path)[1].get("version", "?"))
    model = load(path)
    about: dict[str, Any]
    if isinstance(model, Captioner):
        settings = model.recipe.model
        about = {
            "input": [settings.image_channels, settings.image_size, settings.image_size],
            "tokenizer": model.recipe.text.tokenizer,
            "target_vocabulary": model.tokenizer.size,
        }
    else:
        assert isinstance(model, Classifier)
        about = {"input": list(model.shape), "classes": list(model.classes)}
    return model.recipe, _about(path, model.recipe, version, read_tensors(path / WEIGHTS), model.metrics) | about


def _about(
    path: Path, recipe: AnyRecipe, version: str, weights: dict[str, Tensor], metrics: dict[str, Any]
) -> dict[str, Any]:
    """Description of any model folder."""
    files = sorted(file for file in path.iterdir() if file.is_file())
    training = [file for file in (path / "training").rglob("*") if file.is_file()]
    return {
        "path": str(path),
        "version": version,
        "model": recipe.model.kind,
        "title": recipe.model.title,
        "paper": recipe.model.paper,
        "parameters": sum(tensor.numel() for tensor in weights.values()),
        "parameters_by_part": _by_part(weights),
        "number_types": sorted({str(tensor.dtype).removeprefix("torch.") for tensor in weights.values()}),
        "can_resume": (path / "training").is_dir(),
        "metrics": metrics,
        "recipe": recipe.model_dump(mode="json"),
        "files": {file.name: file.stat().st_size for file in files},
        "bytes": sum(file.stat().st_size for file in files),
        "training_bytes": sum(file.stat().st_size for file in training),
    }


def _checked_model(folder: Folder, weights: dict[str, Tensor]) -> Model | None:
    """The model that config.json names, without its numbers; weights of another one are refused."""
    if folder.model_class is not None:
        return None  # only its own code knows what it needs
    from regard.models import build_model
    from regard.storage.folder import WEIGHTS
    from regard.storage.weights import load_tensors, shapes_alone

    sizes = folder.source_tokenizer.size, folder.target_tokenizer.size
    model = shapes_alone(lambda: build_model(folder.recipe.model, *sizes))
    load_tensors(model, weights, folder.path / WEIGHTS)
    return model


def _by_part(weights: dict[str, Tensor]) -> dict[str, int]:
    """Parameters by the first name of each tensor; embeddings, the largest, by the second as well."""
    parts: dict[str, int] = {}
    for name, tensor in weights.items():
        names = name.split(".")
        part = ".".join(names[:2]) if names[0] == "embeddings" else names[0]
        parts[part] = parts.get(part, 0) + tensor.numel()
    return parts


def _text(recipe: AnyRecipe, about: dict[str, Any]) -> str:
    metrics = about["metrics"]
    settings = {"model": about["recipe"]["model"], **_changed_settings(recipe)}
    sections = {
        "parameters by part": {part: f"{number:,}" for part, number in about["parameters_by_part"].items()},
        "data": _data(metrics.get("data")),
        "training and validation": _flat(_measured(metrics)),
        "settings of the model, and others that differ from the defaults": _flat(settings),
        "files": {name: _size(size) for name, size in about["files"].items()},
        "compiled copies, which may be deleted": {
            copy["name"]: f"{_size(copy['bytes'])}{'' if copy['fresh'] else ', outdated'}, in {copy['path']}"
            for copy in about.get("compiled", ())
        },
    }
    lines = [printable(about["path"]), *_rows(_facts(about))]
    for heading, rows in sections.items():
        if rows:
            lines += ["", heading, *_rows(rows)]
    return "\n".join(lines)


def _engine(engines: dict[str, str | None]) -> dict[str, str]:
    """The engine that translates, and those that cannot, with the reason."""
    used = [name for name, why in engines.items() if why is None]
    slower = any(why is not None and why.endswith(FASTER) for why in engines.values())
    cannot = [f"{name}: {why}" for name, why in engines.items() if why is not None and not why.endswith(FASTER)]
    remarks = "; ".join([*(["fastest"] if slower else []), *cannot])
    said = ", ".join(used) or "none"
    return {"decoding backend": f"{said} ({remarks})" if remarks else said} if engines else {}


def _measured(metrics: dict[str, Any]) -> dict[str, Any]:
    """What training measured, in the units of a reader: epochs to a tenth, minutes instead of seconds."""
    shown: dict[str, Any] = {}
    for name, value in metrics.items():
        if name == "epochs" and isinstance(value, float):
            shown[name] = f"{value:.1f}"
        elif name == "seconds" and isinstance(value, float):
            shown["minutes"] = f"{value / 60:.1f}"
        elif name == "box" and isinstance(value, dict):
            shown[name] = {key: each for key, each in value.items() if key not in INTERNAL}
        elif name not in SAID:
            shown[name] = value
    return shown


def _unfinished(about: dict[str, Any]) -> dict[str, str]:
    """Facts about an unfinished training."""
    if not about["metrics"].get("unfinished"):
        return {}
    best = about["metrics"].get("best_update", "?")
    return {
        "training": f"unfinished: the best model so far, of update {best} (`regard train --resume {about['path']}`)"
    }


def _facts(about: dict[str, Any]) -> dict[str, str]:
    """The facts at the top."""
    facts = {
        "model": about["model"],
        "architecture": about["title"] or "your own class",
        "paper": about["paper"],
        "recipe": about["recipe"]["description"],
        **_unfinished(about),
        **_paths(about.get("paths")),
        **_engine(about.get("engines", {})),
        "parameters": f"{about['parameters']:,} ({', '.join(about['number_types'])})",
        **_input_and_output(about),
        "written by": f"Regard {about['version']}",
        "on disk": _size(about["bytes"]),
    }
    if about["can_resume"]:
        size = _size(about["training_bytes"])
        facts["training state"] = f"{size} more: resume with `regard train --resume {about['path']}`"
    return {name: fact for name, fact in facts.items() if fact}


def _input_and_output(about: dict[str, Any]) -> dict[str, str]:
    """Vocabularies, image sizes, classes."""
    facts: dict[str, str] = {}
    if about.get("languages"):
        facts["languages"] = "→".join(about["languages"])
    if "input" in about:
        channels, height, width = about["input"]
        facts["images"] = f"{height} x {width} pixels, {'grey' if channels == 1 else 'colour'}"
    for side in ("source", "target"):
        if f"{side}_vocabulary" in about:
            units = UNITS.get(about["tokenizer"], f"{about['tokenizer']} subwords")
            shared = ", shared" if about.get("joint") else ""
            facts[f"{side} vocabulary"] = f"{about[f'{side}_vocabulary']:,} {units}{shared}"
    if "classes" in about:
        facts["classes"] = f"{len(about['classes'])}: {', '.join(about['classes'])}"
    if "training_sentences_known" in about:
        facts["overlap check"] = _overlap(about["training_sentences_known"])
    return facts


def _paths(paths: dict[str, str] | None) -> dict[str, str]:
    """How training and translating go; looking always takes the readable path."""
    if paths is None:
        return {}
    return {
        "training, encoder": paths["encoder"],
        "training, decoder": paths["decoder"],
        "translating": f"encoder as above; decoder {paths['translating']}",
    }


def _overlap(known: int | None) -> str:
    return "none" if known is None else f"against {known:,} distinct training sentences, in `regard evaluate`"


def _data(data: object) -> dict[str, str]:
    """The data that training noted in metrics.json, a line for each split."""
    if not isinstance(data, dict):
        return {}
    lines = {}
    for split, part in data.items():
        noted = part if isinstance(part, dict) else {}
        name = noted.get("text") or noted.get("data")
        counts = {key.replace("_", " "): value for key, value in noted.items() if isinstance(value, int)}
        facts = ", ".join(f"{key} {value:,}" for key, value in counts.items())
        lines[split] = f"{name}: {facts}" if name else facts
    return lines


def _changed_settings(recipe: AnyRecipe) -> dict[str, Any]:
    changed = recipe.model_dump(mode="json", exclude_defaults=True)
    return {table: changed[table] for table in ("text", "images", "training", "search") if changed.get(table)}


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
    return [printable(f"  {name:<{width}}  {value}") for name, value in rows.items()]


def _size(size: int) -> str:
    if size < 1000:
        return f"{size} bytes"
    return f"{size / 1e3:.1f} kB" if size < 1e6 else f"{size / 1e6:.1f} MB"
