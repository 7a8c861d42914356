"""Example sentences for the page: written ones for some languages, else the model's own validation text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.data.text.sources import described_toy

MOST = 6
GOLD_WORDS = 6, 9  # words of the sentence with gold links
MOST_TRIED = 100
LONGEST_LINE = 1_000_000  # bytes of a log line that is read

# What each sentence is good for. The English ones stay within the words of the embedded phrases, but for the last.
_KINDS = ("reordering", "agreement", "negation", "question", "long", "unseen")
_SENTENCES = {
    "en": (
        "The happy children see a black cat.",
        "The old women were tired.",
        "The farmer does not sell the white horses.",
        "Why does the teacher visit the old museum?",
        "When the tired children invited a neighbour, Paul and the farmer ran, and the poor lawyer went to the museum.",
        "The zebra wears a purple spacesuit.",
    ),
    "de": (
        "Morgen wird der alte Mann das rote Auto kaufen.",
        "Die kleinen Kinder spielen im Garten.",
        "Ich habe den schwarzen Hund nicht gesehen.",
        "Warum liest die Frau das alte Buch?",
        "Als der Regen aufhörte, gingen die Kinder in den Park und spielten bis zum Abend mit ihrem kleinen Hund.",
        "Der Zwirbelfink trägt einen Raumanzug.",
    ),
    "fr": (
        "Le petit garçon voit une voiture rouge.",
        "Les vieilles femmes sont fatiguées.",
        "Je ne mange jamais de viande.",
        "Pourquoi lis-tu ce livre ?",
        "Quand la pluie a cessé, les enfants sont allés au parc et ont joué avec leur petit chien jusqu'au soir.",
        "Le zorgon porte un scaphandre violet.",
    ),
    "ko": (
        "나는 어제 빨간 차를 샀다.",
        "아이들이 정원에서 놀고 있다.",
        "그는 고기를 먹지 않는다.",
        "너는 왜 그 책을 읽니?",
        "비가 그치자 아이들은 공원에 가서 저녁까지 작은 개와 함께 놀았다.",
        "보라색 우주복을 입은 찌르르기가 웃었다.",
    ),
}


def examples_of(language: str, samples: Sequence[str] = (), trained_on: str = "") -> list[dict[str, str]]:
    """Up to six sentences, each with what it shows; without written ones, samples of the model's validation text.

    For a model of an embedded corpus, a further one is a test sentence of it, whose gold links are known.
    """
    written = _SENTENCES.get(language)
    examples = [{"kind": "sample", "text": text} for text in samples[:MOST]]
    if written is not None:
        examples = [{"kind": kind, "text": text} for kind, text in zip(_KINDS, written, strict=True)]
    corpus = described_toy(trained_on)
    if corpus is None:
        return examples
    aligned = (pair.source for pair in corpus.generate("test", MOST_TRIED))
    text = next((source for source in aligned if GOLD_WORDS[0] <= len(source.split()) <= GOLD_WORDS[1]), None)
    return examples if text is None else [*examples, {"kind": "gold", "text": text}]


def validation_samples(folder: Path) -> tuple[str, ...]:
    """The source sentences that the last validation logged; none without a log."""
    found: list[Any] = []
    try:
        with (folder / "log.jsonl").open("rb") as log:
            for line in log:
                if b'"validation"' in line and len(line) <= LONGEST_LINE:
                    found = json.loads(line).get("samples") or found
        sources = [sample["source"] for sample in found]
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        return ()  # examples are a convenience: a model without a readable log serves as well
    return tuple(source for source in sources if isinstance(source, str) and source.strip())
