"""The exceptions of Regard.

RegardError                 one line: the value, the cause, the remedy
├── ConfigError             an invalid recipe, setting or option
├── DataError               an unusable text, alignment, vector or image file
│   └── LongLine            a line of more pieces than search.max_source
├── ModelFolderError        a model folder that is missing, damaged, of another version, or already exists
│   └── ModelChanged        a model folder that changed after it was opened
├── TrainingError           training cannot continue (non-finite loss, no training data)
├── WorkerDied              a worker process ended in the middle of its work
├── ContractError           a model that violates the contract of `regard.models.contract`
└── NoAttention             attention requested from a model without attention

The command line prints such an error as one line and exits with 2.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

LONGEST_MESSAGE = 2000  # characters; a name or value from a file may have any length

# Control characters, surrogates, line separators and bidirectional formatting characters.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """The text with control characters escaped (ESC as \\x1b), so that a terminal does not interpret them."""
    return _CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


class RegardError(Exception):
    """An error that the user can correct; its message says what, where and how."""

    def __str__(self) -> str:
        text = printable(super().__str__().replace("\n", " "))
        return text if len(text) <= LONGEST_MESSAGE else text[: LONGEST_MESSAGE - 1] + "…"


class ConfigError(RegardError):
    """A recipe, setting or option is unknown or invalid."""


class DataError(RegardError):
    """A file of text, alignments or vectors cannot be used."""


class LongLine(DataError):  # noqa: N818  (it reads as what it is)
    """A line has more pieces than `search.max_source`."""


class ModelFolderError(RegardError):
    """A model folder is missing, damaged, written by another version, or already there."""


class ModelChanged(ModelFolderError):  # noqa: N818  (it reads as what it is)
    """A model folder changed after it was opened, so its weights can no longer be read."""


class TrainingError(RegardError):
    """Training cannot continue."""


class WorkerDied(RegardError):  # noqa: N818  (it reads as what it is)
    """A worker process ended in the middle of its work."""


class ContractError(RegardError):
    """A model violates the contract of search, look and training."""


class NoAttention(RegardError):  # noqa: N818  (it reads as what it is)
    """Attention was requested from a model without attention."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A suggestion: the closest known name, or a list of all."""
    choices = sorted(known)
    near = difflib.get_close_matches(name, choices, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]!r}?"
    return "choose one of " + ", ".join(choices) + "."
