"""Sentences that are looked at whenever the training validates, to see their alignment come about."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from regard.config.settings import SearchSettings
from regard.errors import ConfigError, ModelFolderError
from regard.inference.translator import Translator
from regard.look.record import Look
from regard.storage.files import write_bytes

SENTENCES = "watch.json"  # in OUT/training
Watched = str | tuple[str, str]
"""A sentence, or a sentence with the translation that is looked at instead of the model's own."""


def look_at_sentences(translator: Translator, sentences: Sequence[Watched]) -> list[Look]:
    """A look at each, greedily; the model is left in the mode it was in, given to the translator or not."""
    greedy = SearchSettings(beam=1, replace_unknown=False)
    looks = []
    for sentence in sentences:
        text, reference = (sentence, None) if isinstance(sentence, str) else sentence
        looks.append(translator.look(text, reference=reference, search=greedy))
    return looks


def check_sentences(translator: Translator, sentences: Sequence[Watched]) -> None:
    """Refuse sentences that cannot be watched, before anything is learned."""
    try:
        looks = look_at_sentences(translator, sentences)
    except ConfigError as error:
        raise ConfigError(f"--watch-sentence: {error}") from None
    if any(look.alignment is None for look in looks):
        raise ConfigError(
            f"--watch-sentence: a {looks[0].model.kind} model has no attention to watch: leave the option out, or "
            "train a model that has (see `regard models`)."
        )


def save_sentences(sentences: Sequence[Watched], folder: Path) -> None:
    """Write them into OUT/training, for a resumed training."""
    if sentences:
        write_bytes(folder / SENTENCES, json.dumps(list(sentences), ensure_ascii=False).encode())


def load_sentences(folder: Path) -> list[Watched]:
    """Read them again; none were given where there is no file."""
    path = folder / SENTENCES
    if not path.exists():
        return []
    try:
        given = json.loads(path.read_text("utf-8"))
        return [each if isinstance(each, str) else (str(each[0]), str(each[1])) for each in given]
    except (ValueError, TypeError, IndexError):
        raise ModelFolderError(f"{path}: is damaged: remove it to go on without watching.") from None
