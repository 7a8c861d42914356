"""Language codes and names, and the language pair of a model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from babel import Locale

UNKNOWN = "und"
"""The code of an unknown language (BCP 47: undetermined)."""

_CODE = "[a-z]{2,3}"
_PAIR = re.compile(f"({_CODE})-({_CODE})")
_FILE = re.compile(rf"\.({_CODE})(?:\.gz)?$")
_EMBEDDED = re.compile(rf"^embedded corpus \S+ ({_CODE})-({_CODE}),")


@dataclass(frozen=True)
class Languages:
    """Source and target language of a model."""

    source: str
    target: str

    @property
    def known(self) -> bool:
        """Whether both are known."""
        return UNKNOWN not in (self.source, self.target)


def name_of(code: str, locale: str = "en") -> str:
    """The name of a language in the language `locale`; its code if it has no name there."""
    return str(Locale.parse(locale).languages.get(code, code))


def parse_pair(text: str) -> Languages | None:
    """The languages of "de-en"; None for anything else."""
    found = _PAIR.fullmatch(text)
    return None if found is None else Languages(found[1], found[2])


def languages_of(metrics: Mapping[str, Any], folder_name: str) -> Languages:
    """The language pair of a model, from the names of its training files or of its folder.

    `corpus.de, corpus.en`, an embedded corpus, or a folder with `de-en` as a word of its name.
    """
    text = str(metrics.get("data", {}).get("train", {}).get("text", ""))
    if found := _EMBEDDED.match(text):
        return Languages(found[1], found[2])
    files = [_FILE.search(name) for name in text.split(", ")]
    if len(files) == 2 and files[0] and files[1] and files[0][1] != files[1][1]:
        return Languages(files[0][1], files[1][1])
    # two letters each: nearly every three-letter word is a language code, as in "my-run"
    for found in re.finditer(r"(?<![a-z])([a-z]{2})-([a-z]{2})(?![a-z])", folder_name):
        if name_of(found[1]) != found[1] and name_of(found[2]) != found[2]:
            return Languages(found[1], found[2])
    return Languages(UNKNOWN, UNKNOWN)
