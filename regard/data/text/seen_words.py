"""Words of the training text, so that a view can mark those that training never saw.

A model folder keeps one 64-bit hash for each distinct source word, without its punctuation and case; no text can be
recovered from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from regard.data.text.overlap import Fingerprint, fingerprint
from regard.data.text.words import split_word

_CHUNK = 1 << 18  # distinct words collected before they are hashed
# Thai and Lao, Myanmar, Khmer, kana, Han: scripts without spaces, where a white-space word is a whole phrase
_NO_SPACES = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")


@dataclass
class WordCollector:
    """Collects the words of lines that pass through it."""

    words: set[str] = field(default_factory=set)
    hashes: Fingerprint = field(default_factory=lambda: np.empty(0, dtype=np.uint64))

    def reading(self, lines: Iterable[str]) -> Iterator[str]:
        """The lines, unchanged."""
        for line in lines:
            self.words.update(line.split())
            if len(self.words) >= _CHUNK:
                self._hash()
            yield line
        self._hash()

    def _hash(self) -> None:
        parts = {part.casefold() for word in self.words for part in split_word(word)}
        self.hashes = np.union1d(self.hashes, fingerprint(parts))
        self.words = set()


def unseen(units: Iterable[str], seen: Fingerprint) -> list[bool]:
    """Which units are words that the training text does not hold; numbers and phrases without spaces are not judged."""
    return [
        any(character.isalpha() for character in unit)
        and not _NO_SPACES.search(unit)
        and not np.isin(fingerprint([unit.casefold()]), seen).all()
        for unit in units
    ]
