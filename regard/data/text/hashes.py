"""64-bit hashes of sentences; imported by workers, so without torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

Fingerprint = npt.NDArray[np.uint64]


def normalise(line: str) -> str:
    """The line with white space collapsed and trimmed."""
    return " ".join(line.split())


def hash_lines(lines: Iterable[str]) -> Fingerprint:
    """The 64-bit hash of each line."""
    # Files never contain lone surrogates; strings from Python may.
    digests = (blake2b(line.encode("utf-8", "surrogatepass"), digest_size=8).digest() for line in lines)
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64, copy=False)


def fingerprint(lines: Iterable[str]) -> Fingerprint:
    """The sorted, distinct hashes of the non-blank lines."""
    return distinct([hash_lines(filter(None, map(normalise, lines)))])


def distinct(parts: Sequence[Fingerprint]) -> Fingerprint:
    """The sorted, distinct hashes of the parts of a text."""
    every = np.concatenate(parts) if parts else np.empty(0, np.uint64)
    every.sort()
    first = np.ones(len(every), np.bool_)
    np.not_equal(every[1:], every[:-1], out=first[1:])
    hashes: Fingerprint = every[first]
    return hashes
