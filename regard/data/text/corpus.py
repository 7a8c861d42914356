"""Parallel text as token ids in memory-mapped arrays; `regard.data.text.build` writes them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.data.text.encoding import Skipped
from regard.errors import DataError
from regard.storage.reading import CONFIG_BYTES, parse_json, read_bounded

FORMAT = 2

Ids = npt.NDArray[np.integer[Any]]


class EncodedCorpus:
    """Sentence pairs as memory-mapped token ids.

    The folder holds `source.ids`, `target.ids` (all sentences concatenated, each with EOS), `source.offsets`,
    `target.offsets` (pairs + 1 start positions) and `corpus.json`.
    """

    def __init__(
        self,
        folder: Path,
        source: EncodedSide,
        target: EncodedSide,
        skipped: Skipped,
        fingerprint: str,
        parts: tuple[int, ...],
        weights: tuple[float, ...] | None,
    ) -> None:
        self.folder = folder
        self.source = source
        self.target = target
        self.skipped = skipped
        self.fingerprint = fingerprint
        self.parts = parts  # the number of pairs of each corpus of the text, in order
        self.weights = weights  # of each corpus in an epoch; None: every pair once

    @classmethod
    def open(cls, folder: Path) -> EncodedCorpus:
        """Memory-map the corpus that `build_corpus` wrote."""
        try:
            about = parse_json(read_bounded(folder / "corpus.json", CONFIG_BYTES, DataError))
            if about["format"] != FORMAT:
                raise ValueError(f"format {about['format']}, not {FORMAT}")
            skipped = Skipped(**about["skipped"])
            parts = tuple(about["parts"])
            counts = (*asdict(skipped).values(), *parts, about["source"]["tokens"], about["target"]["tokens"])
            if not all(type(count) is int and count >= 0 for count in counts) or sum(parts) != skipped.kept:
                raise ValueError("invalid counts")
            weights = None if about["weights"] is None else tuple(float(weight) for weight in about["weights"])
            if weights is not None and (len(weights) != len(parts) or not all(0 < each < 1e9 for each in weights)):
                raise ValueError("invalid weights")
            sides = [
                EncodedSide.open(folder, name, about[name]["type"], about[name]["tokens"], skipped.kept)
                for name in ("source", "target")
            ]
            return cls(folder, sides[0], sides[1], skipped, str(about["fingerprint"]), parts, weights)
        except (OSError, ValueError, KeyError, TypeError, OverflowError, DataError) as error:
            raise DataError(
                f"{folder}: the encoded corpus is missing or damaged ({error}). Remove the folder and train again."
            ) from error

    def __len__(self) -> int:
        return self.skipped.kept

    @property
    def source_lengths(self) -> npt.NDArray[np.int32]:
        """(pairs,) tokens of each source, EOS included."""
        return self.source.lengths

    @property
    def target_lengths(self) -> npt.NDArray[np.int32]:
        """(pairs,) tokens of each target, EOS included."""
        return self.target.lengths


@dataclass(frozen=True)
class EncodedSide:
    """One language of an encoded corpus."""

    ids: Ids  # (tokens,)
    offsets: npt.NDArray[np.int64]  # (pairs + 1,)

    @classmethod
    def open(cls, folder: Path, name: str, type_name: str, tokens: int, pairs: int) -> EncodedSide:
        """Memory-map the files of one side and check their sizes."""
        if type_name not in ("uint16", "int32"):
            raise ValueError(f"{type_name} ids")
        for suffix, size in (("ids", tokens * np.dtype(type_name).itemsize), ("offsets", (pairs + 1) * 8)):
            found = (folder / f"{name}.{suffix}").stat().st_size
            if found != size:
                raise ValueError(f"{name}.{suffix} has {found} bytes, not {size}")
        ids = np.memmap(folder / f"{name}.ids", dtype=type_name, mode="r")
        offsets = np.memmap(folder / f"{name}.offsets", dtype=np.int64, mode="r")
        if offsets[0] != 0 or offsets[-1] != tokens or (np.diff(offsets) < 0).any():
            raise ValueError(f"{name}.offsets do not match {tokens} tokens")
        return cls(ids, offsets)

    @classmethod
    def of(cls, sentences: Sequence[Sequence[int]]) -> EncodedSide:
        """A side in memory; each sentence ends with EOS."""
        offsets = np.cumsum([0, *map(len, sentences)], dtype=np.int64)
        return cls(np.fromiter(itertools.chain.from_iterable(sentences), np.int64), offsets)

    @cached_property
    def lengths(self) -> npt.NDArray[np.int32]:
        """(pairs,) tokens of each sentence, EOS included."""
        return np.diff(self.offsets).astype(np.int32)

    def sentence(self, index: int) -> Ids:
        """The tokens of sentence `index`, EOS included."""
        if not 0 <= index < len(self.offsets) - 1:
            raise IndexError(f"pair {index} of {len(self.offsets) - 1}")
        return self.ids[self.offsets[index] : self.offsets[index + 1]]
