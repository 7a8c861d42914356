"""Blocks of lines to token ids and hashes, quickly.

A tokenizer that encodes the words between spaces independently (`Tokenizer.encodes_words`) runs once for each distinct
word: a line is then the joined bytes of its words' ids. The library `tokenizers` takes many times as long for the
same ids. Languages written without spaces, and tokenizers of other tools, are encoded by the library.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields

import numpy as np
import numpy.typing as npt

from regard.config.settings import TextSettings
from regard.config.vocabulary import EOS
from regard.data.text.filters import has_script
from regard.data.text.hashes import Fingerprint, hash_lines, normalise
from regard.data.text.parallel import Chosen
from regard.data.text.seen_words import WordCollector
from regard.data.text.tokenizer import Tokenizer
from regard.errors import DataError

MOST_WORDS = 2**18  # in the cache of one language: about 50 MB
LONGEST_WORD = 100  # characters; longer ones are not kept


@dataclass(frozen=True)
class Skipped:
    """The number of pairs dropped, by cause, and kept."""

    empty: int = 0
    too_long: int = 0
    kept: int = 0
    identical: int = 0
    duplicate: int = 0
    length_ratio: int = 0
    script: int = 0

    def __add__(self, other: Skipped) -> Skipped:
        return Skipped(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    @property
    def dropped(self) -> dict[str, int]:
        """The number of dropped pairs by cause."""
        return {name: count for name, count in asdict(self).items() if name != "kept"}


def causes(settings: TextSettings) -> list[str]:
    """The causes for which the settings drop pairs."""
    scripts = settings.source_script or settings.target_script
    filters = {
        "identical": settings.drop_identical,
        "duplicate": settings.drop_duplicates,
        "length_ratio": settings.max_length_ratio is not None,
        "script": scripts is not None,
    }
    return ["empty", "too_long", *(name for name, used in filters.items() if used)]


@dataclass(frozen=True)
class Encoded:
    """The kept pairs of a block: the ids of each side as bytes, and the lengths of its sentences, EOS included."""

    ids: tuple[bytes, bytes]
    lengths: tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]
    skipped: Skipped


def id_type(tokenizer: Tokenizer) -> np.dtype[np.integer]:
    """The smallest type of the tokenizer's ids on disk."""
    return np.dtype(np.uint16 if tokenizer.size <= 2**16 else np.int32)


class LineEncoder:
    """Lines to the bytes of their ids, EOS included."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.type = id_type(tokenizer)
        self._tokenizer = tokenizer
        self._words = _Words(tokenizer) if tokenizer.encodes_words else None
        self._end = np.array([EOS], self.type).tobytes()

    def encode(self, lines: Sequence[str], tag: int | None = None) -> list[bytes]:
        """The ids of each line; `tag` is an id before the others."""
        first = b"" if tag is None else np.array([tag], self.type).tobytes()
        if self._words is None:
            whole = (np.array(ids, self.type).tobytes() for ids in self._tokenizer.encode_many(lines))
            return [first + ids for ids in whole]
        word, end = self._words.__getitem__, self._end
        # an empty line has no word; one space is between two
        return [first + (b"".join(map(word, line.split(" "))) if line else b"") + end for line in lines]


class _Words(dict[str, bytes]):
    """The ids of each word between spaces; emptied when it is full, because the words of a text change."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        self._tokenizer = tokenizer
        self._type = id_type(tokenizer)

    def __missing__(self, word: str) -> bytes:
        ids = np.array(self._tokenizer.word_ids(word), self._type).tobytes()
        if len(word) <= LONGEST_WORD:
            if len(self) >= MOST_WORDS:
                self.clear()
            self[word] = ids
        return ids


class BlockEncoder:
    """Pairs to ids: drops those that the settings exclude."""

    def __init__(self, source: Tokenizer, target: Tokenizer, settings: TextSettings) -> None:
        self.settings = settings
        self._tag = source.tag
        encoder = LineEncoder(source)
        self._encoders = encoder, encoder if target is source else LineEncoder(target)

    def encode(self, sides: tuple[list[str], list[str]], *, tagged: bool, duplicate: Chosen | None = None) -> Encoded:
        """The kept pairs; `duplicate` (pairs,) marks those that occurred before."""
        settings = self.settings
        dropped: dict[str, int] = {}

        def drop(name: str, bad: Chosen) -> None:
            nonlocal sides, duplicate
            dropped[name] = dropped.get(name, 0) + int(np.count_nonzero(bad))
            if bad.any():
                sides = list(itertools.compress(sides[0], ~bad)), list(itertools.compress(sides[1], ~bad))
                duplicate = None if duplicate is None else duplicate[~bad]

        drop("empty", _blank(sides[0]) | _blank(sides[1]))
        if settings.drop_identical:
            drop("identical", _where(a.strip() == b.strip() for a, b in zip(*sides, strict=True)))
        for side, script in enumerate((settings.source_script, settings.target_script)):
            if script is not None:
                drop("script", ~has_script(sides[side], script))
        if duplicate is not None:
            drop("duplicate", duplicate)
        return self._encode(sides, tagged, dropped)

    def _encode(self, sides: tuple[list[str], list[str]], tagged: bool, dropped: dict[str, int]) -> Encoded:
        settings = self.settings
        tags = (self._tag if tagged else None, None)
        lines = [encoder.encode(side, tag) for encoder, side, tag in zip(self._encoders, sides, tags, strict=True)]
        lengths = [
            np.fromiter(map(len, side), np.int32, len(side)) // encoder.type.itemsize
            for side, encoder in zip(lines, self._encoders, strict=True)
        ]
        longer, shorter = np.maximum(*lengths), np.minimum(*lengths)
        good = longer <= settings.max_length
        dropped["too_long"] = int(np.count_nonzero(~good))
        if settings.max_length_ratio is not None:
            even = longer - 1 <= settings.max_length_ratio * np.maximum(shorter - 1, 1)  # without EOS
            dropped["length_ratio"] = int(np.count_nonzero(good & ~even))
            good &= even
        kept = int(np.count_nonzero(good))
        joined = [b"".join(side if kept == len(good) else itertools.compress(side, good)) for side in lines]
        return Encoded((joined[0], joined[1]), (lengths[0][good], lengths[1][good]), Skipped(kept=kept, **dropped))


def _where(answers: Iterable[bool]) -> Chosen:
    return np.fromiter(answers, np.bool_)


def _blank(lines: Sequence[str]) -> Chosen:
    return _where(not line or line.isspace() for line in lines)


def check_not_empty(skipped: Skipped, max_length: int) -> None:
    """Raise if no pair is kept."""
    if skipped.kept:
        return
    others = {name: count for name, count in skipped.dropped.items() if count and name not in ("empty", "too_long")}
    if others:
        causes = ", ".join(f"{count} by {name.replace('_', ' ')}" for name, count in others.items())
        raise DataError(
            f"No pair is left to use: filters of [text] drop {causes}; {skipped.too_long} are too long and "
            f"{skipped.empty} have a blank side. Relax the filters."
        )
    if skipped.too_long:
        raise DataError(
            f"No pair is left to use: {skipped.too_long} have more than text.max_length = {max_length} tokens "
            f"on a side and {skipped.empty} have a blank side. Raise text.max_length."
        )
    if skipped.empty:
        raise DataError(
            f"No pair is left to use: all {skipped.empty} have a blank side. Check that the files are the right ones."
        )
    raise DataError("No pairs at all. Give at least one sentence pair.")


# --- hashes -------------------------------------------------------------------------------------------------------


def hash_block(
    sides: tuple[list[str], list[str]], collector: WordCollector, *, pairs: bool
) -> tuple[Fingerprint, Fingerprint, Fingerprint]:
    """The hashes of the non-blank sources, of each pair if wanted, and of the source words new to the collector."""
    words = [line.split() for line in sides[0]]
    sources = list(map(" ".join, words))
    both: Iterable[str] = ()
    if pairs:
        both = (f"{source}\n{normalise(target)}" for source, target in zip(sources, sides[1], strict=True))
    return hash_lines(filter(None, sources)), hash_lines(both), collector.new_words(words)
