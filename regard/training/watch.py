"""Watched sentences: their attention is recorded at each validation, to see alignment emerge."""

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
"""A sentence, optionally with a reference for forced decoding."""


def look_at_sentences(translator: Translator, sentences: Sequence[Watched]) -> list[Look]:
    """A look record of each sentence, with greedy search; the model's train/eval mode is restored."""
    greedy = SearchSettings(beam=1, replace_unknown=False)
    looks = []
    for sentence in sentences:
        text, reference = (sentence, None) if isinstance(sentence, str) else sentence
        looks.append(translator.look(text, reference=reference, search=greedy))
    return looks


def check_sentences(translator: Translator, sentences: Sequence[Watched]) -> None:
    """Refuse sentences that cannot be watched, before training starts."""
    try:
        looks = look_at_sentences(translator, sentences)
    except ConfigError as error:
        raise ConfigError(f"--watch-sentence: {error}") from None
    if any(look.alignment is None for look in looks):
        raise ConfigError(
            f"--watch-sentence: a {looks[0].model.kind} model has no attention to watch: leave the option out, or "
            "train a model that has (see `regard architectures`)."
        )


def save_sentences(sentences: Sequence[Watched], folder: Path) -> None:
    """Write the sentences into OUT/training, for resuming."""
    if sentences:
        write_bytes(folder / SENTENCES, json.dumps(list(sentences), ensure_ascii=False).encode())


def load_sentences(folder: Path) -> list[Watched]:
    """Read the sentences; none if there is no file."""
    path = folder / SENTENCES
    if not path.exists():
        return []
    try:
        given = json.loads(path.read_text("utf-8"))
        return [each if isinstance(each, str) else (str(each[0]), str(each[1])) for each in given]
    except (ValueError, TypeError, IndexError):
        raise ModelFolderError(f"{path}: is damaged: remove it to resume without watched sentences.") from None
