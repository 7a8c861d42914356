"""Language codes and names, and the language pair of a model."""

from __future__ import annotations

import re
from dataclasses import dataclass

from babel import Locale

from regard.config.languages import languages_in_name
from regard.config.settings import Recipe

UNKNOWN = "und"
"""The code of an unknown language (BCP 47: undetermined)."""

_CODE = "[a-z]{2,3}"
_PAIR = re.compile(f"({_CODE})-({_CODE})")


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


def languages_of(recipe: Recipe, name: str) -> Languages:
    """The language pair of a model: `text.languages` of its recipe, or a name such as `my-de-en`."""
    pair = recipe.text.languages or languages_in_name(name)
    return Languages(UNKNOWN, UNKNOWN) if pair is None else Languages(*pair)
