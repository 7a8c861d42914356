"""The folder of a captioner: a model folder whose tokenizer.json splits the captions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from regard import __version__
from regard.config.captioning import CaptionRecipe
from regard.inference.captioner import Captioner
from regard.models.show_attend_tell import ShowAttendTell
from regard.storage.folder import (
    JOINT,
    METRICS,
    WEIGHTS,
    load_tensors,
    model_tensors,
    read_config,
    read_json,
    read_tensors,
    read_tokenizer,
    write_model,
)


def read_captioner(path: Path, device: torch.device) -> Captioner:
    """Read and check the folder."""
    recipe, _ = read_config(path, CaptionRecipe)
    metrics = read_json(path / METRICS) if (path / METRICS).exists() else {}
    tokenizer = read_tokenizer(path / JOINT)
    model = ShowAttendTell(recipe.model, tokenizer.size)
    load_tensors(model, read_tensors(path / WEIGHTS), path / WEIGHTS)
    return Captioner(model, recipe, tokenizer, metrics=metrics, device=device, name=path.resolve().name)


def write_captioner(path: Path, captioner: Captioner) -> None:
    """Write the folder."""
    write_model(
        path,
        recipe=captioner.recipe,
        weights=model_tensors(captioner.model),
        metrics=captioner.metrics,
        card=_card(captioner),
        files={JOINT: captioner.tokenizer.to_json().encode()},
        about={},
    )


def _card(captioner: Captioner) -> str:
    """What the model is, what it learned from, how good it is, and how to load it."""
    recipe, metrics = captioner.recipe, captioner.metrics
    settings = recipe.model
    lines = [
        "---",
        "library_name: regard",
        "pipeline_tag: image-to-text",
        "---",
        "",
        f"# {captioner.name}",
        "",
        f"{settings.kind}: {settings.title} ({settings.paper}), trained by Regard {__version__}.",
        *([f"Recipe: {recipe.description}"] if recipe.description else []),
        "",
        "## Data",
        "",
        *(f"- {split}: {_told(part)}" for split, part in metrics["data"].items()),
        "",
        "## Size and training",
        "",
        f"- {metrics['parameters']:,} parameters, {settings.grid} x {settings.grid} cells of images of "
        f"{settings.image_size} x {settings.image_size} pixels, {metrics['target_vocabulary']:,} pieces",
        f"- {metrics['updates']:,} updates, {metrics['epochs']:.1f} epochs, {metrics['seconds'] / 60:.1f} minutes",
        "",
        "## Validation",
        "",
        _validation(metrics.get("valid")),
        "",
        "## Use",
        "",
        "```python",
        "import regard",
        "",
        'print(regard.load(".").caption("image.png"))',
        "```",
        "",
        "`regard vision look FOLDER image.png -o look.png` draws where it looks. The subfolder `training/` only serves "
        "`regard vision train --resume`; it may be deleted.",
        "",
    ]
    return "\n".join(lines)


def _told(part: dict[str, Any]) -> str:
    return f"{part['data']}; {part['captions']:,} captions (skipped: {part['skipped_blank']:,} blank)"


def _validation(valid: dict[str, Any] | None) -> str:
    if not valid:
        return "There was no validation set."
    bleu = f"; BLEU {valid['bleu']:.1f} (greedy), signature `{valid['bleu_signature']}`" if "bleu" in valid else ""
    return f"loss {valid['loss']:.4f} per token{bleu}"
