"""Caption test images and score the captions."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from regard.data.images.captions import SCENE_COUNTS, SceneSource, is_scenes, open_captions
from regard.data.toy.scenes import SPLITS, scenes
from regard.errors import DataError, did_you_mean
from regard.evaluation.captions import caption_bleu, score_scenes
from regard.inference.captioner import Captioner


def evaluate_captioner(
    captioner: Captioner, data: str | PathLike[str] | None = None, split: str = "test", *, seed: int = 0
) -> dict[str, Any]:
    """Caption the images of a split and score the captions; without data, scenes in the language of the training."""
    data = learned_scenes(captioner.metrics) if data is None else data
    if data is None:
        raise DataError(
            f"{captioner.name} did not learn from the embedded scenes: name its test images with --data "
            "(a TSV of file names and captions)."
        )
    if not is_scenes(data):
        return _score_files(captioner, Path(data), split)
    source = SceneSource.parse(str(data))
    if split not in SPLITS:
        raise DataError(f"split {split!r}: the scenes have no such split; {did_you_mean(split, SPLITS)}")
    made = [each.scene for each in scenes(split, source.count or SCENE_COUNTS[split], seed, source.language)]
    captions = captioner.caption_images(scene.image() for scene in made)
    return {
        "data": f"embedded scenes, {source.language}, {split}",
        **score_scenes(made, captions, source.language),
    }


def learned_scenes(metrics: Mapping[str, Any]) -> str | None:
    """The embedded scenes in the language that a captioner learned, as a user names them; None for other images."""
    told = str(metrics.get("data", {}).get("train", {}).get("data", ""))
    if not told.startswith("embedded scenes"):
        return None
    return "toy:scenes:ko" if "Korean" in told else "toy:scenes:en"


def _score_files(captioner: Captioner, path: Path, split: str) -> dict[str, Any]:
    """BLEU on captioned files."""
    source = open_captions(path, "train" if path.is_file() else split, captioner.recipe.model.image_channels)
    if source is None:
        raise DataError(f"{path}: holds no {split}.tsv: name the TSV file itself.")
    examples = list(source.examples())
    captions = [caption.text for caption in captioner.caption_images(each.image for each in examples)]
    references = [each.captions for each in examples]
    return {"data": source.description, "captions": len(captions), **caption_bleu(captions, references)}
