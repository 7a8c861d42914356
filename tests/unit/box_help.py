"""A tiny package of installed models, for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from test_cli_translate import write_model

RECORD: dict[str, Any] = {
    "licence": "CC BY 2.0",
    "attribution": "somebody",
    "test": {"metric": "BLEU", "value": 40.0, "data": "a test set"},
    "floor": {"metric": "BLEU", "value": 0.0, "data": "sentences"},
    "weights": "0" * 64,
}


def write_box(root: Path, models: dict[str, float]) -> Path:
    """The package `regard_models` under root, with untrained models GROUP/ARCHITECTURE and their test scores."""
    package = root / "regard_models"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "sentences.tsv").write_text("de\ten\nein Hund\ta dog\n", "utf-8")
    (package / "comparison.tsv").write_text("de\ten\nein Hund\ta dog\ndie Katze\tthe cat\n", "utf-8")
    for number, (name, bleu) in enumerate(models.items()):
        group, architecture = name.split("/")
        folder = write_model(package / name, architecture, seed=number)
        config = json.loads((folder / "config.json").read_text("utf-8"))
        config["text"]["languages"] = group.split("-")
        (folder / "config.json").write_text(json.dumps(config), "utf-8")
        record = RECORD | {"test": RECORD["test"] | {"value": bleu}}
        (folder / "metrics.json").write_text(json.dumps({"box": record}), "utf-8")
    return package
