"""Caption scores: BLEU, and for the embedded scenes validity and pointing.

captions          number of captioned images
valid             share of captions in the scene's set of valid captions
bleu, signature   against all captions of an image (scenes: a few of the valid ones)
pointing          see `regard.evaluation.pointing`; words of invalid captions count as misses
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from regard.data.images.captions import reference_texts
from regard.data.toy.scenes import Language, Scene
from regard.evaluation.pointing import Pointing, point
from regard.evaluation.scores import corpus_scores

REFERENCES = 5  # references of a scene for BLEU


class CaptionWithMaps(Protocol):
    """A caption with an attention map for each word."""

    @property
    def text(self) -> str:
        """The caption."""

    @property
    def image(self) -> npt.NDArray[np.uint8]:
        """(H, W, 3) or (H, W)."""

    def word_attention(self) -> npt.NDArray[np.float64]:
        """The weights (words, rows, columns)."""


class SceneResult(NamedTuple):
    """Validity and pointing of the caption of one scene."""

    valid: bool
    pointing: Pointing


def check_scene(scene: Scene, caption: CaptionWithMaps, language: Language) -> SceneResult:
    """Compare a caption with the scene's valid captions, and its attention maps with the gold boxes."""
    mentions = scene.captions(language).get(caption.text)
    if mentions is None:
        # Counted as if it named as many things as a valid caption and missed all of them.
        missed = max(len(words) for words in scene.captions(language).values())
        return SceneResult(False, Pointing(words=missed))
    boxes = [(word, scene.things[thing].box) for word, thing in mentions]
    size = caption.image.shape[0], caption.image.shape[1]
    return SceneResult(True, point(caption.word_attention(), boxes, size))


def score_scenes(scenes: Sequence[Scene], captions: Iterable[CaptionWithMaps], language: Language) -> dict[str, Any]:
    """Validity, BLEU and pointing of the captions of embedded scenes."""
    texts, results = [], []
    for scene, caption in zip(scenes, captions, strict=True):
        texts.append(caption.text)
        results.append(check_scene(scene, caption, language))
    references = [_some(list(scene.captions(language))) for scene in scenes]
    return {
        "captions": len(results),
        "valid": sum(result.valid for result in results) / len(results),
        **caption_bleu(texts, references),
        **sum((result.pointing for result in results), Pointing()).to_dict(),
    }


def caption_bleu(captions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, Any]:
    """BLEU of captions against all references of each image."""
    score = corpus_scores(list(captions), reference_texts(references), metrics=("bleu",), tokenize="auto")["bleu"]
    return {"bleu": score.value, "bleu_signature": score.signature}


def _some(captions: list[str]) -> list[str]:
    """At most REFERENCES captions, evenly spaced."""
    count = min(REFERENCES, len(captions))
    return [captions[place * len(captions) // count] for place in range(count)]
