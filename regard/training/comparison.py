"""Networks with and without attention, trained side by side with the same budget.

OUT/results.json      what was asked, and what each finished training came to
OUT/NAME-SEED/        the model folders
OUT/comparison.md, OUT/comparison.png

A queue that resumes: what results.json has is done, a training that was broken off goes on where it was.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.config.classification import ClassifierRecipe, load_vision_recipe
from regard.config.recipes import with_overrides
from regard.errors import ConfigError, ModelFolderError, did_you_mean
from regard.evaluation.accuracy import labelled_images
from regard.inference.classifier import Classifier
from regard.models.image_classifier import multiply_adds
from regard.storage.files import write_bytes, write_json
from regard.storage.folder import holds_finished_model, read_json
from regard.training.prepare import RUN
from regard.training.start import FilePath
from regard.training.tasks.classification import train

RESULTS = "results.json"
# name -> how it is called in tables
NAMES = {
    "none": "no attention",
    "se": "squeeze-and-excitation",
    "cbam": "CBAM",
    "bam": "BAM",
    "self_attention": "self-attention",
    "vit": "ViT",
}


@dataclass(frozen=True)
class Entry:
    """One network over all its seeds."""

    name: str
    accuracies: tuple[float, ...]  # on the test images
    parameters: int
    multiply_adds: int
    seconds: float  # of a training, on average
    epochs: float

    @property
    def mean(self) -> float:
        """Of the accuracies."""
        return statistics.fmean(self.accuracies)

    @property
    def spread(self) -> float:
        """Their standard deviation (of a sample), 0 for one seed."""
        return statistics.stdev(self.accuracies) if len(self.accuracies) > 1 else 0.0


@dataclass(frozen=True)
class Comparison:
    """What there is to compare so far."""

    entries: tuple[Entry, ...]
    data: str
    budget: str

    def text(self) -> str:
        """A Markdown table."""
        bases = [entry for entry in self.entries if entry.name == "none"]
        lines = [
            f"Test accuracy on {self.data}, {self.budget} of training each, mean ± standard deviation over the seeds:",
            "",
            "| network | accuracy | seeds | parameters | multiply-adds | epochs | minutes |",
            "|---|---|---|---|---|---|---|",
        ]
        for entry in self.entries:
            lines.append(
                f"| {NAMES[entry.name]} | {entry.mean:.2%} ± {100 * entry.spread:.2f} | {len(entry.accuracies)} "
                f"| {_against(entry.parameters, [base.parameters for base in bases])} "
                f"| {_against(entry.multiply_adds, [base.multiply_adds for base in bases])} "
                f"| {entry.epochs:.1f} | {entry.seconds / 60:.1f} |"
            )
        return "\n".join(lines)


def _against(value: int, base: Sequence[int]) -> str:
    """A number, and how much more or less it is than that of the network without attention, where there is one."""
    return f"{value:,}" + "".join(f" ({value / other - 1:+.2%})" for other in base if other != value)


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
    """Train each network with each seed, unless that is done, and write the table and the plot after each one."""
    out, names = Path(out), list(NAMES if models is None else models)
    for name in names:
        if name not in NAMES:
            raise ConfigError(f"models: there is no network {name!r}: {did_you_mean(name, NAMES)}")
    recipes = {name: _recipe(name, str(data), budget, overrides) for name in names}
    record = _open(out, {"data": str(data), "budget": budget, "overrides": list(overrides)})
    # Seed by seed, so that a comparison that is broken off has something of every network.
    for seed in range(1, seeds + 1):
        for name in names:
            if f"{name}-{seed}" in record["runs"]:
                continue
            if progress:
                print(f"{NAMES[name]}, seed {seed} of {seeds}")
            recipe = with_overrides(recipes[name], [f"training.seed={seed}"])
            record["runs"][f"{name}-{seed}"] = _run(out / f"{name}-{seed}", recipe, data, device, threads, progress)
            write_json(out / RESULTS, record)
            _write(out, _comparison(record))
    comparison = _comparison(record)
    _write(out, comparison)
    return comparison


def _recipe(name: str, data: str, budget: str, overrides: Sequence[str]) -> ClassifierRecipe:
    """The recipe of a network; on two ears the others stand on a network that sees little at a time."""
    shared = [f"training.budget={budget}", *overrides]
    if name == "vit":
        chosen = load_vision_recipe("vit", shared)
    else:
        base = "two-ears" if data.startswith("toy:two-ears") else "resnet"
        chosen = load_vision_recipe(base, [f"model.attention={name}", *shared])
    assert isinstance(chosen, ClassifierRecipe)
    return chosen


def _open(out: Path, asked: dict[str, Any]) -> dict[str, Any]:
    """The results so far; those of another question are not mixed with these."""
    path = out / RESULTS
    if not path.exists():
        out.mkdir(parents=True, exist_ok=True)
        return {"asked": asked, "runs": {}}
    record = read_json(path)
    for key, value in asked.items():
        before = record.get("asked", {}).get(key)
        if before != value:
            raise ModelFolderError(
                f"{out}: holds a comparison with {key} {before!r}, and {value!r} was asked: choose another folder."
            )
    return record


def _run(
    folder: Path, recipe: ClassifierRecipe, data: str | Path, device: str, threads: int | None, progress: bool
) -> dict[str, Any]:
    """Train one network, or go on, and measure it on the test images."""
    if holds_finished_model(folder):
        classifier = Classifier.load(folder, device)
    elif (folder / "training" / RUN).exists():
        classifier = train(out=folder, resume=True, device=device, threads=threads, progress=progress)
    else:
        classifier = train(recipe, data=data, out=folder, device=device, threads=threads, progress=progress)
    measured = classifier.evaluate(labelled_images(classifier, data, "test"))
    shutil.rmtree(folder / "training", ignore_errors=True)  # the images, once for each run
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


def _comparison(record: dict[str, Any]) -> Comparison:
    runs: dict[str, list[dict[str, Any]]] = {}
    for key, run in sorted(record["runs"].items()):
        runs.setdefault(key.rpartition("-")[0], []).append(run)
    entries = tuple(
        Entry(
            name=name,
            accuracies=tuple(run["accuracy"] for run in runs[name]),
            parameters=runs[name][0]["parameters"],
            multiply_adds=runs[name][0]["multiply_adds"],
            seconds=statistics.fmean(run["seconds"] for run in runs[name]),
            epochs=statistics.fmean(run["epochs"] for run in runs[name]),
        )
        for name in NAMES
        if name in runs
    )
    return Comparison(entries, Path(record["asked"]["data"]).name, record["asked"]["budget"])


def _write(out: Path, comparison: Comparison) -> None:
    from regard.look.views.comparison_plot import save_plot

    write_bytes(out / "comparison.md", (comparison.text() + "\n").encode())
    save_plot(comparison, out / "comparison.png")
