"""Image classifiers with and without attention, trained side by side with the same budget.

OUT/results.json      the arguments, and the results of finished trainings
OUT/NAME-SEED/        the model folders
OUT/comparison.md, OUT/comparison.png

It can be resumed: trainings in results.json are skipped, an interrupted training is resumed.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.config.classification import ClassifierRecipe
from regard.config.recipes import load_recipe_as, with_overrides
from regard.errors import ConfigError, ModelFolderError, did_you_mean
from regard.evaluation.comparison import NAMES, Comparison, comparison_of
from regard.inference.classifier import Classifier
from regard.look.views.comparison_plot import save_plot
from regard.models.image_classifier import multiply_adds
from regard.storage.files import write_bytes, write_json
from regard.storage.folder import holds_finished_model
from regard.storage.reading import read_json
from regard.storage.run import holds_run
from regard.training import train
from regard.training.start import FilePath

RESULTS = "results.json"


def compare(
    out: FilePath,
    *,
    data: str | Path = "toy:two-ears",
    models: Sequence[str] | None = None,
    seeds: int = 3,
    budget: str = "6m",
    overrides: Sequence[str] = (),
    device: str = "cpu",
    threads: int | None = None,
    progress: bool = True,
) -> Comparison:
    """Train each network with each seed, skip finished ones, and write table and plot after each training."""
    out, names = Path(out), list(NAMES if models is None else models)
    for name in names:
        if name not in NAMES:
            raise ConfigError(f"models: there is no network {name!r}: {did_you_mean(name, NAMES)}")
    recipes = {name: _recipe(name, str(data), budget, overrides) for name in names}
    record = _open(out, {"data": str(data), "budget": budget, "overrides": list(overrides)})
    # Seeds outside, so that an interrupted comparison has results for every network.
    for seed in range(1, seeds + 1):
        for name in names:
            if f"{name}-{seed}" in record["runs"]:
                continue
            if progress:
                print(f"{NAMES[name]}, seed {seed} of {seeds}")
            recipe = with_overrides(recipes[name], [f"training.seed={seed}"])
            record["runs"][f"{name}-{seed}"] = _run(out / f"{name}-{seed}", recipe, data, device, threads, progress)
            write_json(out / RESULTS, record)
            _write(out, comparison_of(record))
    comparison = comparison_of(record)
    _write(out, comparison)
    return comparison


def _recipe(name: str, data: str, budget: str, overrides: Sequence[str]) -> ClassifierRecipe:
    """The recipe of a network; on two ears, all but ViT use a network with a small receptive field."""
    shared = [f"training.budget={budget}", *overrides]
    if name == "vit":
        return load_recipe_as(ClassifierRecipe, "vit", shared)
    base = "two-ears" if data.startswith("toy:two-ears") else "resnet"
    return load_recipe_as(ClassifierRecipe, base, [f"model.attention={name}", *shared])


def _open(out: Path, asked: dict[str, Any]) -> dict[str, Any]:
    """The results so far; results with other arguments raise."""
    path = out / RESULTS
    if not path.exists():
        out.mkdir(parents=True, exist_ok=True)
        return {"asked": asked, "runs": {}}
    record = read_json(path)
    for key, value in asked.items():
        before = record.get("asked", {}).get(key)
        if before != value:
            raise ModelFolderError(
                f"{out}: holds a comparison with {key} {before!r}, not {value!r}: choose another folder."
            )
    return record


def _run(
    folder: Path, recipe: ClassifierRecipe, data: str | Path, device: str, threads: int | None, progress: bool
) -> dict[str, Any]:
    """Train one network, or resume, and evaluate it on the test images."""
    if not holds_finished_model(folder):
        resume = holds_run(folder / "training")
        given, images = (None, None) if resume else (recipe, data)
        train(given, train=images, out=folder, resume=resume, device=device, threads=threads, progress=progress)
    classifier = Classifier.load(folder, device)
    measured = classifier.evaluate(classifier.labelled_images(data, "test"))
    shutil.rmtree(folder / "training", ignore_errors=True)  # else one copy of the images per run
    metrics = classifier.metrics
    return {
        "accuracy": measured.accuracy,
        "loss": measured.loss,
        "parameters": metrics["parameters"],
        "multiply_adds": multiply_adds(classifier.network.cpu(), classifier.shape),
        "seconds": metrics["seconds"],
        "epochs": metrics["epochs"],
        "machine": metrics["machine"],
    }


def _write(out: Path, comparison: Comparison) -> None:
    write_bytes(out / "comparison.md", (comparison.text() + "\n").encode())
    save_plot(comparison, out / "comparison.png")
