"""The text of `--train`, `--valid` and `--back-translated`: one or two words each, and `--mix`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from regard.cli.columns import with_columns
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.data.text.parallel import TabbedFile
    from regard.data.text.sources import Mix

Words = tuple[str, ...]
BETWEEN = "\0"  # between the two words of one option; no argument of a process has it


def word_groups(values: Sequence[str] | None) -> list[Words]:
    """The one or two words of each occurrence of an option."""
    return [tuple(value.split(BETWEEN)) for value in values or ()]


def flat_words(values: Sequence[str] | None) -> list[str]:
    """All words of an option."""
    return [word for group in word_groups(values) for word in group]


def one_or_two(option: str, values: Sequence[str] | None) -> str | tuple[str, str] | None:
    """One file, folder or embedded corpus, or two files: after one option, or after two."""
    words = flat_words(values)
    if len(words) > 2:
        raise ConfigError(f"{option} {' '.join(words)}: at most two files: the source and the target.")
    if not words:
        return None
    return (words[0], words[1]) if len(words) == 2 else words[0]


def one_text(
    option: str, values: Sequence[str] | None, columns: tuple[int, int] | None
) -> str | tuple[str, str] | TabbedFile | None:
    """The text of an option, with the columns to take from one file."""
    text = one_or_two(option, values)
    return _file(text, columns) if isinstance(text, str) else text


def training_text(
    train: Sequence[str] | None,
    back_translated: Sequence[str] | None,
    mix: str | None,
    columns: tuple[int, int] | None,
) -> str | tuple[str, str] | TabbedFile | Mix | None:
    """The text to train on. `--train a --train b` are two sides of one corpus; with --mix each is a corpus."""
    groups, tagged = word_groups(train), word_groups(back_translated)
    if not groups:
        if tagged or mix:
            raise ConfigError(f"{'--back-translated' if tagged else '--mix'}: goes with --train: name the text.")
        return None
    single = all(len(group) == 1 for group in groups)
    if mix is None and single and len(groups) > 1:
        files = [word for (word,) in groups]
        if len(files) > 2 or any(file.startswith("toy:") for file in files):
            raise ConfigError(
                f"{' '.join(f'--train {file}' for file in files)}: two sides or {len(files)} corpora? Give both files "
                f"of a corpus to one --train, or --mix {','.join('1' * len(files))} if each is a corpus with tabs."
            )
        groups = [(files[0], files[1])]
    weights = None if mix is None else _weights(mix, len(groups) + len(tagged))
    if len(groups) == 1 and not tagged and weights is None:
        return _corpus(groups[0], columns)
    from regard.data.text.sources import BackTranslated, Mix

    texts = [_corpus(group, columns) for group in groups]
    return Mix([*texts, *(BackTranslated(_corpus(group, columns)) for group in tagged)], weights)


def has_one_file(text: object) -> bool:
    """Whether a corpus of the text is one file, which may have tabs."""
    from regard.data.text.sources import BackTranslated, Mix

    if isinstance(text, Mix):
        return any(map(has_one_file, text.texts))
    if isinstance(text, BackTranslated):
        return has_one_file(text.text)
    return text is not None and not isinstance(text, tuple)


def _corpus(words: Words, columns: tuple[int, int] | None) -> str | tuple[str, str] | TabbedFile:
    return (words[0], words[1]) if len(words) == 2 else _file(words[0], columns)


def _file(word: str, columns: tuple[int, int] | None) -> str | TabbedFile:
    return word if word == "none" else with_columns(word, columns)


def _weights(text: str, corpora: int) -> list[float]:
    try:
        weights = [float(part) for part in text.split(",")]
    except ValueError:
        weights = []
    if not weights or not all(0 < weight < math.inf for weight in weights):
        raise ConfigError(f"--mix {text}: give a weight above 0 for each corpus, such as 3,1.")
    if len(weights) != corpora:
        raise ConfigError(
            f"--mix {text}: {len(weights)} weights for {corpora} corpora: give one for each --train and "
            "--back-translated, in this order."
        )
    return weights
