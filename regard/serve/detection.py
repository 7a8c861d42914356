"""Which language a text is written in, by py3langid: 139 languages, offline, 5 MB; the extra `detect` installs it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Protocol

REMEDY = "install it with: pip install 'regard[detect]'"

_SAME = {"nb": "no"}  # codes that the detector calls otherwise


@dataclass(frozen=True)
class Detected:
    """A language that a text may be written in; confidence from 0 to 100."""

    language: str
    confidence: float


class Ranking(Protocol):
    """What we use of py3langid."""

    @property
    def labels(self) -> Iterable[str]:
        """The codes of all languages it knows."""

    def rank(self, text: str) -> Sequence[tuple[str, float]]:
        """All languages with their probabilities."""


def is_installed() -> bool:
    """Whether languages can be detected."""
    return find_spec("py3langid") is not None


def detect(text: str, among: Iterable[str]) -> list[Detected]:
    """The languages `among`, the likeliest first; those that the detector does not know are left out.

    The confidence is the probability among all languages that the detector knows: it is low for a text of a language
    that is not offered, and for one of a few letters.
    """
    shares = dict(_identifier().rank(text))
    found = [Detected(code, round(100 * shares[_SAME.get(code, code)], 1)) for code in among if knows(code)]
    return sorted(found, key=lambda each: -each.confidence)


def knows(code: str) -> bool:
    """Whether this language can be detected."""
    return _SAME.get(code, code) in _identifier().labels


_LOADING = threading.Lock()


def _identifier() -> Ranking:
    with _LOADING:  # once, however many ask for it
        return _load()


@cache
def _load() -> Ranking:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    found: Ranking = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    return found
