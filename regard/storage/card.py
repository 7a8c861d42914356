"""The model card: README.md of a model folder."""

from __future__ import annotations

from typing import Any

from regard import __version__
from regard.config.models import MODEL_SETTINGS
from regard.config.settings import Recipe


def model_card(recipe: Recipe, metrics: dict[str, Any], name: str, model_class: str | None) -> str:
    """What the model is, what it learned from, how good it is, and how to load it."""
    settings = MODEL_SETTINGS[recipe.model.kind]
    title = model_class or f"{recipe.model.kind}: {settings.title} ({settings.paper})"
    load = "regard.load(PATH)" if model_class is None else "regard.load(PATH, model=YOUR_MODEL)"
    lines = [
        "---",
        "library_name: regard",
        "pipeline_tag: translation",
        "---",
        "",
        f"# {name}",
        "",
        f"{title}, trained by Regard {__version__}.",
        *([f"Recipe: {recipe.description}"] if recipe.description else []),
        "",
        "## Data",
        "",
        *_data(metrics["data"]),
        "",
        "## Size and training",
        "",
        f"- {metrics['parameters']:,} parameters",
        f"- {metrics['source_vocabulary']:,} source pieces, {metrics['target_vocabulary']:,} target pieces "
        f"({recipe.text.tokenizer}{', joint' if recipe.text.joint else ''})",
        f"- {metrics['updates']:,} updates, {metrics['epochs']:.1f} epochs, {metrics['tokens']:,} target tokens, "
        f"{metrics['seconds'] / 60:.1f} minutes",
        *(["- unfinished: the best model so far"] if metrics.get("unfinished") else []),
        "",
        "## Validation",
        "",
        *_validation(metrics.get("valid")),
        "",
        "## Use",
        "",
        "```python",
        "import regard",
        "",
        f'print({load}.translate("…"))'.replace("PATH", '"."'),
        "```",
        "",
        "`regard translate FOLDER < in.txt > out.txt` does the same for a file. The subfolder `training/` only serves "
        "`regard train --resume`; it may be deleted.",
        "",
    ]
    return "\n".join(lines)


def _data(data: dict[str, Any]) -> list[str]:
    return [
        f"- {split}: {part['text']}; {part['pairs']:,} sentence pairs, {part['target_tokens']:,} target tokens "
        f"(skipped: {part['skipped_empty']:,} empty, {part['skipped_too_long']:,} too long)"
        for split, part in data.items()
    ]


def _validation(valid: dict[str, Any] | None) -> list[str]:
    if not valid:
        return ["There was no validation set."]
    lines = [f"- loss {valid['loss']:.4f} per token"]
    if "perplexity" in valid:
        lines[0] += f", perplexity {valid['perplexity']:.2f}"
    if "bleu" in valid:
        lines.append(f"- BLEU {valid['bleu']:.1f} (greedy), signature `{valid['bleu_signature']}`")
    return lines
