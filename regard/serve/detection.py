"""Language detection with py3langid: 139 languages, offline, 5 MB; the extra `detect` installs it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Protocol

REMEDY = "install it with: pip install 'regard[detect]'"

_SAME = {"nb": "no"}  # our code to the detector's code


@dataclass(frozen=True)
class Detected:
    """A detected language; confidence from 0 to 100."""

    language: str
    confidence: float


class Ranking(Protocol):
    """The part of py3langid's interface that we use."""

    @property
    def labels(self) -> Iterable[str]:
        """Codes of all languages that it detects."""

    def rank(self, text: str) -> Sequence[tuple[str, float]]:
        """All languages with their probabilities, best first."""


def is_installed() -> bool:
    """Whether py3langid is installed."""
    return find_spec("py3langid") is not None


def detect(text: str, among: Iterable[str]) -> list[Detected]:
    """The languages `among` with their confidence, best first; languages unknown to the detector are left out.

    The confidence is the probability among all languages of the detector: it is low for a language that is not in
    `among`, and for a text of a few letters.
    """
    shares = dict(_identifier().rank(text))
    found = [Detected(code, round(100 * shares[_SAME.get(code, code)], 1)) for code in among if knows(code)]
    return sorted(found, key=lambda each: -each.confidence)


def knows(code: str) -> bool:
    """Whether the detector knows this language."""
    return _SAME.get(code, code) in _identifier().labels


_LOADING = threading.Lock()


def _identifier() -> Ranking:
    with _LOADING:  # load it once
        return _load()


@cache
def _load() -> Ranking:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    found: Ranking = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    return found
