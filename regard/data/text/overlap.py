"""Test sentences that also occur in the training text; they inflate scores.

A model folder keeps only a fingerprint of its training text: one 64-bit hash for each distinct sentence. No text can be
recovered from it. With 100 million training sentences and 10,000 test sentences, the expected number of false matches
is one in 18 million evaluations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.data.text.hashes import Fingerprint, hash_lines, normalise
from regard.errors import ModelFolderError, RegardError
from regard.storage.folder import FINGERPRINT_FILE
from regard.storage.reading import check_regular


@dataclass(frozen=True, slots=True)
class OverlapReport:
    """The number of test sentences in the training text; blank ones do not count."""

    test_sentences: int
    in_training: int

    def warning(self) -> str | None:
        """A warning for the user, or None without overlap."""
        if not self.in_training:
            return None
        return (
            f"{self.in_training:,} of {self.test_sentences:,} test sentences occur in the training text, "
            "so the scores are optimistic for new text."
        )

    def to_dict(self) -> dict[str, int]:
        """Plain values for metrics.json."""
        return {"test_sentences": self.test_sentences, "in_training": self.in_training}


def overlap_with_fingerprint(test_sources: Sequence[str], known: Fingerprint) -> OverlapReport:
    """Count the test sentences whose hash is in the fingerprint of the training text."""
    hashes = hash_lines(filter(None, map(normalise, test_sources)))
    return OverlapReport(len(test_sources), int(np.isin(hashes, known).sum()))


def save_fingerprint(folder: str | Path, known: Fingerprint, name: str = FINGERPRINT_FILE) -> None:
    """Write the fingerprint into a model folder, always little-endian."""
    np.save(Path(folder) / name, known.astype("<u8"), allow_pickle=False)


def load_fingerprint(folder: str | Path, name: str = FINGERPRINT_FILE) -> Fingerprint | None:
    """Read the fingerprint of a model folder; None if the folder has none."""
    path = Path(folder) / name
    if not path.exists():
        return None
    try:
        check_regular(path)
        known = np.load(path, mmap_mode="r", allow_pickle=False)  # mapping checks the size in the header
    except RegardError:
        raise
    except Exception:  # the parser of the header may raise any exception
        raise ModelFolderError(f"{path}: cannot be read: delete it, the model works without it.") from None
    if not isinstance(known, np.ndarray) or known.ndim != 1 or known.dtype != np.dtype("<u8"):
        raise ModelFolderError(f"{path}: is not a list of hashes: delete it, the model works without it.")
    return known.astype(np.uint64)
