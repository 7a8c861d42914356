"""Every error that Regard raises on purpose.

RegardError                 one line: the value, the cause, the remedy
├── ConfigError             a recipe or an option that cannot be right
├── DataError               a text, alignment or vector file that cannot be used
│   └── LongLine            a line of more pieces than search.max_source
├── ModelFolderError        a model folder that is missing, damaged, of another version, or in the way
├── TrainingError           training cannot go on (a loss that is not finite, nothing to train on)
├── ContractError           a model that breaks the contract of `regard.models.contract`
└── NoAttention             attention was asked of a model that has none

The command line prints such an error as one line and exits with 2.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

LONGEST_MESSAGE = 2000  # characters; a file may hold a name or value of any length

# Controls, surrogates, line separators, and the marks that turn the direction of writing.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """The text with control characters escaped (ESC as \\x1b), so that a terminal shows them and obeys none."""
    return _CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


class RegardError(Exception):
    """A mistake that the user can mend; its text says what, where and how."""

    def __str__(self) -> str:
        text = printable(super().__str__().replace("\n", " "))
        return text if len(text) <= LONGEST_MESSAGE else text[: LONGEST_MESSAGE - 1] + "…"


class ConfigError(RegardError):
    """A recipe, setting or option is unknown, mistyped or impossible."""


class DataError(RegardError):
    """A file of text, alignments or vectors cannot be used."""


class LongLine(DataError):  # noqa: N818  (it reads as what it is)
    """A line has more pieces than `search.max_source`."""


class ModelFolderError(RegardError):
    """A model folder is missing, damaged, written by another version, or already there."""


class TrainingError(RegardError):
    """Training cannot go on."""


class ContractError(RegardError):
    """A model does not keep the contract that search, looking and training rely on."""


class NoAttention(RegardError):  # noqa: N818  (it reads as what it is)
    """Attention was asked of a model that has none."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence that names the nearest known name, or lists the known ones."""
    choices = sorted(known)
    near = difflib.get_close_matches(name, choices, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]!r}?"
    return "choose one of " + ", ".join(choices) + "."
