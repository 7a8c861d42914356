"""Filters of sentence pairs: writing system and duplicates."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from regard.config.scripts import LEAST_SHARE, WIDTHS, named_scripts
from regard.data.text.parallel import Chosen

Table = npt.NDArray[np.uint8]

_UNKNOWN, _NO_LETTER, _OTHER, _WANTED = range(4)
_BUCKETS = 64


def has_script(lines: Sequence[str], scripts: str) -> Chosen:
    """Whether at least LEAST_SHARE of the letters of each line belong to the scripts; True without letters."""
    text = "".join(lines)
    ends = np.cumsum(np.fromiter(map(len, lines), np.int64, len(lines)))
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    kinds = _kinds(points, _table(scripts), scripts)
    sums = [np.concatenate([[0], np.cumsum(kinds == kind)])[np.concatenate([[0], ends])] for kind in (_WANTED, _OTHER)]
    wanted, other = np.diff(sums[0]), np.diff(sums[1])
    good: Chosen = wanted >= LEAST_SHARE * (wanted + other)
    return good


def _kinds(points: npt.NDArray[np.uint32], table: Table, scripts: str) -> Table:
    kinds = table[points]
    new = np.unique(points[kinds == _UNKNOWN])
    if len(new):
        table[new] = [_kind(chr(point), scripts) for point in new.tolist()]
        kinds = table[points]
    return kinds


@cache
def _table(scripts: str) -> Table:
    """The kind of each code point; filled as characters occur."""
    return np.full(0x110000, _UNKNOWN, np.uint8)


def _kind(character: str, scripts: str) -> int:
    if not unicodedata.category(character).startswith("L"):
        return _NO_LETTER
    words = unicodedata.name(character, "").split()
    word = next((word for word in words if word not in WIDTHS), "")
    return _WANTED if word in named_scripts(scripts) else _OTHER


def repeated(hashes: npt.NDArray[np.uint64]) -> Chosen:
    """Whether each hash occurred before; works on one part of the hashes at a time, in little memory."""
    seen = np.zeros(len(hashes), np.bool_)
    bucket = (hashes >> np.uint64(58)).astype(np.uint8)  # the top 6 bits
    for number in range(_BUCKETS):
        places = np.flatnonzero(bucket == number)
        _, first = np.unique(hashes[places], return_index=True)
        seen[places] = True
        seen[places[first]] = False
    return seen
