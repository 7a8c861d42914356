"""Scores of a boxed model: on the test set of its data, and on sentences or images that everybody has."""

from __future__ import annotations

from pathlib import Path

import regard
from regard.evaluation.scores import corpus_scores
from regard.inference.box import SENTENCES, Figure, own_sentences
from regard.inference.captioner_evaluation import evaluate_captioner

PACKAGE = Path(__file__).with_name("regard_models")
IMAGES = 100  # generated images for the floor of an image model
Trained = regard.Translator | regard.Captioner | regard.Classifier


def held_out_score(model: Trained, data: str, text: Path | None, languages: tuple[str, str] | None) -> Figure:
    """The score on the held-out test set: BLEU of a translator, valid captions or accuracy in per cent."""
    if isinstance(model, regard.Translator):
        assert text is not None
        assert languages is not None
        source, target = (str(text / f"test.{code}.gz") for code in languages)
        report = model.evaluate(source, target)
        bleu = report.scores["bleu"]
        said = f"{data}, {report.scores.sentences:,} sentences"
        return Figure(metric="BLEU", value=round(bleu.value, 2), data=said, signature=bleu.signature)
    return _image_score(model, data, "")


def floor_score(model: Trained, data: str, languages: tuple[str, str] | None) -> Figure:
    """The same on twenty sentences of our own, or on a hundred generated images."""
    if isinstance(model, regard.Translator):
        assert languages is not None
        source, target = ([row[code] for row in own_sentences(PACKAGE)] for code in languages)
        made = [each.text for each in model.translate(source)]
        bleu = corpus_scores(made, [target], metrics=("bleu",))["bleu"]
        return Figure(metric="BLEU", value=round(bleu.value, 2), data=f"{len(source)} sentences of {SENTENCES}")
    return _image_score(model, data, f":{IMAGES}")


def _image_score(model: regard.Captioner | regard.Classifier, data: str, count: str) -> Figure:
    if isinstance(model, regard.Captioner):
        found = evaluate_captioner(model, f"{data}:en{count}")
        valid = round(100 * found["valid"], 2)
        return Figure(metric="% valid captions", value=valid, data=f"{found['captions']} scenes")
    accuracy = model.evaluate(model.labelled_images(data + count))
    return Figure(metric="% accuracy", value=round(100 * accuracy.accuracy, 2), data=f"{accuracy.images} images")
