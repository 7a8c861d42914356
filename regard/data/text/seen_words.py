"""Words of the training text, so that a view can mark those that training never saw.

A model folder keeps one 64-bit hash for each distinct source word, without its punctuation and case; no text can be
recovered from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain

import numpy as np

from regard.data.text.hashes import Fingerprint, fingerprint
from regard.data.text.words import split_word

MOST_KNOWN = 1 << 18  # words remembered, so that each is hashed once
# Thai and Lao, Myanmar, Khmer, kana, Han: scripts without spaces, where a white-space word is a whole phrase
_NO_SPACES = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")


class WordCollector:
    """Hashes the words of lines that are new to it."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def new_words(self, lines: Iterable[Iterable[str]]) -> Fingerprint:
        """The sorted, distinct hashes of the words of these lines, without those of lines before."""
        new = set(chain.from_iterable(lines)) - self._known
        if len(self._known) + len(new) > MOST_KNOWN:
            self._known = set()
        self._known |= new
        return fingerprint({part.casefold() for word in new for part in split_word(word)})


def unseen(units: Iterable[str], seen: Fingerprint) -> list[bool]:
    """Which units are words that the training text does not hold; numbers and phrases without spaces are not judged."""
    return [
        any(character.isalpha() for character in unit)
        and not _NO_SPACES.search(unit)
        and not np.isin(fingerprint([unit.casefold()]), seen).all()
        for unit in units
    ]
