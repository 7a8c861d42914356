"""The model card of a classifier."""

from __future__ import annotations

from typing import Any

from regard import __version__
from regard.config.classification import ClassifierRecipe


def classifier_card(
    recipe: ClassifierRecipe, metrics: dict[str, Any], name: str, shape: tuple[int, int, int], classes: tuple[str, ...]
) -> str:
    """What the model is, what it learned from, how good it is, and how to load it."""
    channels, height, width = shape
    settings = recipe.model
    valid = metrics.get("valid")
    quality = (
        "There was no validation." if not valid else f"- accuracy {valid['accuracy']:.2%}, loss {valid['loss']:.4f}"
    )
    lines = [
        "---",
        "library_name: regard",
        "pipeline_tag: image-classification",
        "---",
        "",
        f"# {name}",
        "",
        f"{settings.kind}: {settings.title} ({settings.paper}), trained by Regard {__version__}.",
        *([f"Recipe: {recipe.description}"] if recipe.description else []),
        "",
        "## Data",
        "",
        *(f"- {split}: {part['data']}; {part['images']:,} images" for split, part in metrics.get("data", {}).items()),
        f"- {height} x {width} pixels, {'grey' if channels == 1 else 'colour'}; {len(classes)} classes: "
        + ", ".join(classes),
        "",
        "## Size and training",
        "",
        f"- {metrics.get('parameters', 0):,} parameters",
        f"- {metrics.get('updates', 0):,} updates, {metrics.get('epochs', 0.0):.1f} epochs, "
        f"{metrics.get('seconds', 0.0) / 60:.1f} minutes",
        "",
        "## Validation",
        "",
        quality,
        "",
        "## Use",
        "",
        "```python",
        "import regard",
        "",
        'print(regard.load(".").classify("image.png"))',
        "```",
        "",
        "`regard vision look FOLDER image.png -o look.png` draws its attention. The subfolder `training/` only serves "
        "`regard vision train --resume`; it may be deleted.",
        "",
    ]
    return "\n".join(lines)
