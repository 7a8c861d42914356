"""How good a captioner is: BLEU, and on the embedded scenes whether its captions are true and it looks where it should.

captions          images that were captioned
valid             share of captions that are true: in the scene's set of valid ones
bleu, signature   against all captions of an image (scenes: a few of the valid ones)
pointing          see `regard.evaluation.pointing`; words of a caption that is not valid count as missed
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from regard.data.images.captions import SCENE_COUNTS, SceneSource, is_scenes, open_captions, reference_texts
from regard.data.toy.scenes import SPLITS, Language, Scene, scenes
from regard.errors import DataError, did_you_mean
from regard.evaluation.pointing import Pointing, point
from regard.evaluation.scores import corpus_scores
from regard.inference.caption import Caption
from regard.inference.captioner import Captioner
from regard.process import tune_process

REFERENCES = 5  # captions of a scene that BLEU compares with


def evaluate_captioner(
    folder: str | PathLike[str],
    *,
    data: str | PathLike[str] | None = None,
    split: str = "test",
    device: str = "cpu",
    threads: int | None = None,
) -> dict[str, Any]:
    """Caption the images of a split and score the captions; without data, scenes in the language of the training."""
    tune_process(threads)
    captioner = Captioner.load(Path(folder), device)
    if data is None:
        data = f"toy:scenes:{scene_language(captioner)}"
    if is_scenes(data):
        source = SceneSource.parse(str(data))
        if split not in SPLITS:
            raise DataError(f"split {split!r}: the scenes have no such split; {did_you_mean(split, SPLITS)}")
        return score_scenes(captioner, split, source.count or SCENE_COUNTS[split], source.language)
    return score_files(captioner, data, split)


def scene_language(captioner: Captioner) -> Language:
    """The language that a captioner learned on scenes."""
    told = captioner.metrics.get("data", {}).get("train", {}).get("data", "")
    if not str(told).startswith("embedded scenes"):
        raise DataError(
            f"{captioner.name} did not learn from the embedded scenes: name its test images with --data "
            "(a TSV of file names and captions)."
        )
    return "ko" if "Korean" in told else "en"


def score_files(captioner: Captioner, data: str | PathLike[str], split: str = "test") -> dict[str, Any]:
    """BLEU on captioned files."""
    path = Path(data)
    source = open_captions(path, "train" if path.is_file() else split, captioner.recipe.model.image_channels)
    if source is None:
        raise DataError(f"{path}: holds no {split}.tsv: name the TSV file itself.")
    examples = list(source.examples())
    captions = [caption.text for caption in captioner.caption_images(each.image for each in examples)]
    return {"data": source.description, "captions": len(captions)} | _bleu(
        captions, [list(each.captions) for each in examples]
    )


@dataclass(frozen=True)
class SceneResult:
    """What a captioner said of a scene."""

    scene: Scene
    caption: Caption
    valid: bool
    pointing: Pointing


def caption_scenes(
    captioner: Captioner, split: str, count: int, language: Language, seed: int = 0
) -> Iterator[SceneResult]:
    """Caption scenes, and check each caption and where it looked."""
    made = [each.scene for each in scenes(split, count, seed, language)]
    captions = captioner.caption_images(scene.image() for scene in made)
    for scene, caption in zip(made, captions, strict=True):
        mentions = scene.captions(language).get(caption.text)
        if mentions is None:
            # It names as many things as a true caption would, and is right about none of them.
            missed = max(len(words) for words in scene.captions(language).values())
            yield SceneResult(scene, caption, False, Pointing(words=missed))
            continue
        boxes = [(word, scene.things[thing].box) for word, thing in mentions]
        size = caption.image.shape[0], caption.image.shape[1]
        yield SceneResult(scene, caption, True, point(caption.word_attention(), boxes, size))


def score_scenes(captioner: Captioner, split: str, count: int, language: Language, seed: int = 0) -> dict[str, Any]:
    """Validity, BLEU and pointing on embedded scenes."""
    results = list(caption_scenes(captioner, split, count, language, seed))
    references = [_some(list(result.scene.captions(language))) for result in results]
    pointing = sum((result.pointing for result in results), Pointing())
    return {
        "data": f"embedded scenes, {language}, {split}",
        "captions": len(results),
        "valid": sum(result.valid for result in results) / len(results),
        **_bleu([result.caption.text for result in results], references),
        **pointing.to_dict(),
    }


def _some(captions: list[str]) -> list[str]:
    """A few of the captions, evenly spread."""
    count = min(REFERENCES, len(captions))
    return [captions[place * len(captions) // count] for place in range(count)]


def _bleu(captions: list[str], references: list[list[str]]) -> dict[str, Any]:
    score = corpus_scores(captions, reference_texts(references), metrics=("bleu",), tokenize="auto")["bleu"]
    return {"bleu": score.value, "bleu_signature": score.signature}
