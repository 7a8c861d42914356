"""The model card: README.md of a model folder, for every task."""

from __future__ import annotations

from typing import Any

from regard import __version__
from regard.config.captioning import CaptionRecipe
from regard.config.classification import ClassifierRecipe
from regard.config.settings import AnyRecipe, Recipe
from regard.errors import printable

SKIPPED = {"too_long": "too long", "length_ratio": "of unequal length", "script": "in another script"}


def translator_card(recipe: Recipe, metrics: dict[str, Any], name: str, model_class: str | None) -> str:
    """The card of a translation model; `model_class` is the class of a user's own model."""
    kind = f"{recipe.text.tokenizer}{', joint' if recipe.text.joint else ''}"
    return _card(
        recipe,
        metrics,
        name,
        tag="translation",
        languages=recipe.text.languages,
        model_class=model_class,
        data=[
            f"{split}: {part['text']}; {part['pairs']:,} sentence pairs, {part['target_tokens']:,} target tokens "
            f"(skipped: {skipped_text(part)})"
            for split, part in metrics["data"].items()
        ],
        sizes=[
            f"{metrics['source_vocabulary']:,} source and {metrics['target_vocabulary']:,} target subwords ({kind})",
            *_int8_line(metrics.get("int8")),
        ],
        use=f'regard.load("."{"" if model_class is None else ", model=YOUR_MODEL"}).translate("…")',
        command="`regard translate FOLDER < in.txt > out.txt` does the same for a file.",
    )


def _int8_line(measured: dict[str, Any] | None) -> list[str]:
    if measured is None:
        return []
    return [
        f"{measured['int8_bleu']:.2f} BLEU in int8 and {measured['float32_bleu']:.2f} in float32 on "
        f"{measured['sentences']:,} validation sentences, greedy, with {measured['engine']}"
    ]


def skipped_text(part: dict[str, Any]) -> str:
    """How many pairs of a text were skipped, by cause."""
    counts = {name.removeprefix("skipped_"): count for name, count in part.items() if name.startswith("skipped_")}
    return ", ".join(f"{count:,} {SKIPPED.get(name, name)}" for name, count in counts.items())


def captioner_card(recipe: CaptionRecipe, metrics: dict[str, Any], name: str) -> str:
    """The card of a captioner."""
    settings = recipe.model
    return _card(
        recipe,
        metrics,
        name,
        tag="image-to-text",
        data=[
            f"{split}: {part['data']}; {part['captions']:,} captions (skipped: {part['skipped_blank']:,} blank)"
            for split, part in metrics.get("data", {}).items()
        ],
        sizes=[
            f"{settings.grid} x {settings.grid} cells of {settings.image_size} x {settings.image_size} pixels, "
            f"vocabulary of {metrics.get('target_vocabulary', 0):,}"
        ],
        use='regard.load(".").caption("image.png")',
        command="`regard look FOLDER image.png -o look.png` draws its attention.",
    )


def classifier_card(
    recipe: ClassifierRecipe, metrics: dict[str, Any], name: str, shape: tuple[int, int, int], classes: tuple[str, ...]
) -> str:
    """The card of a classifier that reads images of a shape (C, H, W)."""
    channels, height, width = shape
    return _card(
        recipe,
        metrics,
        name,
        tag="image-classification",
        data=[
            *(f"{split}: {part['data']}; {part['images']:,} images" for split, part in metrics.get("data", {}).items()),
            f"{height} x {width} pixels, {'grey' if channels == 1 else 'colour'}; {len(classes)} classes: "
            + ", ".join(classes),
        ],
        sizes=[],
        use='regard.load(".").classify("image.png")',
        command="`regard look FOLDER image.png -o look.png` draws its attention.",
    )


def _card(
    recipe: AnyRecipe,
    metrics: dict[str, Any],
    name: str,
    *,
    tag: str,
    data: list[str],
    sizes: list[str],
    use: str,
    command: str,
    model_class: str | None = None,
    languages: tuple[str, str] | None = None,
) -> str:
    """The sections of a model card: model, data, training, validation, use."""
    settings = recipe.model
    title = model_class or f"{settings.kind}: {settings.title} ({settings.paper})"
    tokens = f"{metrics['tokens']:,} target tokens, " if "tokens" in metrics else ""
    lines = [
        "---",
        "library_name: regard",
        f"pipeline_tag: {tag}",
        *([] if languages is None else ["language:", *(f"- {code}" for code in languages)]),
        "---",
        "",
        f"# {name}",
        "",
        f"{title}, trained by Regard {__version__}.",
        *([f"Recipe: {recipe.description}"] if recipe.description else []),
        "",
        "## Data",
        "",
        *(f"- {line}" for line in data),
        "",
        "## Size and training",
        "",
        f"- {metrics.get('parameters', 0):,} parameters",
        *(f"- {line}" for line in sizes),
        f"- {metrics.get('updates', 0):,} updates, {metrics.get('epochs', 0.0):.1f} epochs, {tokens}"
        f"{metrics.get('seconds', 0.0) / 60:.1f} minutes",
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
        f"print({use})",
        "```",
        "",
        f"{command} The subfolder `training/` only serves `regard train --resume`; it may be deleted.",
        "",
    ]
    return "\n".join(map(printable, lines))


def _validation(valid: dict[str, Any] | None) -> list[str]:
    if not valid:
        return ["There was no validation set."]
    if "accuracy" in valid:
        return [f"- accuracy {valid['accuracy']:.2%}, loss {valid['loss']:.4f}"]
    lines = [f"- loss {valid['loss']:.4f} per token"]
    if "perplexity" in valid:
        lines[0] += f", perplexity {valid['perplexity']:.2f}"
    if "bleu" in valid:
        lines.append(f"- BLEU {valid['bleu']:.1f} (greedy), signature `{valid['bleu_signature']}`")
    return lines
