"""Evaluates one finished model; the results are plain values for results.json."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.config.classification import ResNetSettings
from regard.decoding.search_settings import overridden_settings
from regard.errors import ConfigError
from regard.evaluation.test_set import TestSet
from regard.inference.captioner import Captioner
from regard.inference.captioner_evaluation import evaluate_captioner
from regard.inference.classifier import Classifier
from regard.inference.translator import Translator
from regard.models.image_classifier import multiply_adds

LOG = "log.jsonl"
POINTS = 200  # of a loss curve, at most


@dataclass(frozen=True)
class Test:
    """What every entrant is measured on: a test set of text, or image data with a test split."""

    text: TestSet | None = None
    images: str | Path | None = None
    beam: int | None = None
    sentences: tuple[str, ...] = field(default=())  # whose attention is drawn


def measure(task: str, folder: Path, test: Test, device: str, search: Sequence[str] = ()) -> dict[str, Any]:
    """The results of the model in a folder; `search` changes its search settings, search.key=value."""
    if task == "translation":
        found = _translation(folder, test, device, search)
    else:
        found = {"captioning": _captions, "classification": _classes}[task](folder, test, device)
    return found | _curves(folder, found)


def _translation(folder: Path, test: Test, device: str, changes: Sequence[str]) -> dict[str, Any]:
    assert test.text is not None  # the queue opens it
    translator = Translator.load(folder, device)
    of_beam = [] if test.beam is None else [f"search.beam={test.beam}"]
    search = overridden_settings(translator.recipe, [*of_beam, *changes])
    list(translator.translate_lines(test.text.sources[:2], search=search))  # the first call makes the engine's weights
    report = translator.evaluate(
        test.text.sources, test.text.references, gold_alignments=test.text.gold, search=search, perplexity=False
    )
    told = report.to_dict()
    return _common(translator) | {
        "bleu": told["bleu"]["value"],
        "bleu_signature": told["bleu"]["signature"],
        "chrf": told["chrf"]["value"],
        "by_length": told["by_length"],
        "aer": None if report.alignment is None else report.alignment.this_step.aer,
        "sentences_per_second": None if report.speed is None else report.speed.sentences_per_second,
        "translations": list(report.hypotheses),
    }


def _captions(folder: Path, test: Test, device: str) -> dict[str, Any]:
    captioner = Captioner.load(folder, device)
    found = evaluate_captioner(captioner, test.images)
    scores = {name: value for name, value in found.items() if isinstance(value, int | float)}
    return _common(captioner) | {"scores": scores}


def _classes(folder: Path, test: Test, device: str) -> dict[str, Any]:
    if test.images is None:
        raise ConfigError("--test: image classifiers need test images: name their data with --train or --test.")
    classifier = Classifier.load(folder, device)
    found = classifier.evaluate(classifier.labelled_images(test.images, "test"))
    settings = classifier.recipe.model
    return _common(classifier) | {
        "accuracy": found.accuracy,
        "loss": found.loss,
        "multiply_adds": multiply_adds(classifier.network.cpu(), classifier.shape),
        "object_mass": None if found.object_mass is None else found.object_mass.to_dict(),
        "receptive_field": settings.receptive_field if isinstance(settings, ResNetSettings) else None,
    }


def _common(model: Translator | Captioner | Classifier) -> dict[str, Any]:
    names = ("parameters", "seconds", "epochs", "updates", "machine")
    return {name: model.metrics.get(name) for name in names} | {"precision": model.recipe.training.precision}


def _curves(folder: Path, found: dict[str, Any]) -> dict[str, Any]:
    """Training speed, and loss and validation by time, from the log of the training if it is there.

    `curve` has update, seconds and training loss; `validations` have epochs, seconds, loss and BLEU or accuracy.
    """
    path = folder / LOG
    if not path.exists():
        return {"curve": [], "validations": [], "tokens_per_second": None}
    events = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.endswith("}")]
    updates = [event for event in events if event["event"] == "update"]
    speeds = [event["tokens_per_second"] for event in updates if "tokens_per_second" in event]
    step = max(1, -(-len(updates) // POINTS))
    epochs_per_update = (found.get("epochs") or 0) / (found.get("updates") or 1)
    return {
        "curve": [[event["update"], event["seconds"], event["loss"]] for event in updates[::step]],
        "validations": [
            {
                "epochs": event["update"] * epochs_per_update,
                "seconds": event["seconds"],
                "loss": event["loss"],
                "score": event.get("bleu", event.get("accuracy")),
            }
            for event in events
            if event["event"] == "validation" and "seconds" in event
        ],
        "tokens_per_second": statistics.median(speeds) if speeds else None,
    }
