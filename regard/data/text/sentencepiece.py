"""SentencePiece models (.spm, .model) trained elsewhere: reading the file, and normalising text exactly as it says.

The file is a protocol buffer, of which only the fields below are read; the package `sentencepiece` is not needed.
Before a line is cut into pieces, rules rewrite it (the longest one that matches, from left to right), white space
is squeezed, and a space, written "▁", comes in front.
"""

from __future__ import annotations

import re
import struct
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from regard.data.text.pieces import MARKER
from regard.errors import DataError

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
KINDS = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}

REMEDY = "give a .spm or .model file that SentencePiece wrote"


@dataclass(frozen=True)
class Piece:
    """A piece, its score (unigram: log-probability; BPE: minus its rank) and its type."""

    text: str
    score: float
    type: int


@dataclass(frozen=True)
class SentencePiece:
    """What a model file holds."""

    kind: str  # unigram or bpe
    pieces: tuple[Piece, ...]
    rules: bytes  # the compiled rewriting rules
    adds_space: bool  # in front of a line
    squeezes_spaces: bool

    @classmethod
    def read(cls, content: bytes, where: str) -> SentencePiece:
        """The model in the bytes of a file."""
        try:
            fields = list(_fields(content))
            pieces = tuple(_piece(value) for number, value in fields if number == 1)
            trainer, normalizer, denormalizer = (_merged(fields, number) for number in (2, 3, 5))
        except (ValueError, IndexError, KeyError, struct.error, AssertionError):
            raise DataError(f"{where}: is no SentencePiece model, or a damaged one: {REMEDY}.") from None
        if not pieces:
            raise DataError(f"{where}: is no SentencePiece model: it holds no pieces: {REMEDY}.")
        kind = KINDS.get(trainer.get(3, 1), "?")
        if kind not in ("unigram", "bpe"):
            raise DataError(
                f"{where}: is a SentencePiece model of the type {kind!r}: Regard reads unigram and bpe alone."
            )
        if trainer.get(24) or not normalizer.get(5, 1) or denormalizer.get(2):
            raise DataError(
                f"{where}: has white space as a suffix, unescaped white space or rules for detokenising, which Regard "
                "does not read: train it without these options."
            )
        rules = normalizer.get(2, b"")
        return cls(kind, pieces, rules, bool(normalizer.get(3, 1)), bool(normalizer.get(4, 1)))

    @cached_property
    def normalizer(self) -> Normalizer:
        """What rewrites a line before it is cut."""
        symbols = [piece.text for piece in self.pieces if piece.type == USER_DEFINED]
        return Normalizer(self.rules, symbols, self.adds_space, self.squeezes_spaces)


# --- normalising --------------------------------------------------------------------------------------------------


class Normalizer:
    """Rewrites a line as SentencePiece does; never changes, so threads may share it."""

    def __init__(self, rules: bytes, symbols: Sequence[str], adds_space: bool, squeezes_spaces: bool) -> None:
        self._trie = _Trie(rules)
        longest_first = sorted(symbols, key=len, reverse=True)
        self._symbol = re.compile("|".join(map(re.escape, longest_first))) if symbols else None
        self._adds_space = adds_space
        self._squeezes = squeezes_spaces
        self._touched = self._trie.touched_ascii()

    def text(self, line: str) -> str:
        """The line as it is cut into pieces."""
        if not line.isascii() or self._touched.search(line):
            return self.placed(line)[0]
        if self._squeezes:
            line = " ".join(filter(None, line.split(" ")))
        if line and self._adds_space:
            line = " " + line
        return line.replace(" ", MARKER)

    def placed(self, line: str) -> tuple[str, list[int]]:
        """The same, and for each of its characters, and for its end, the place in the line that it came from."""
        characters: list[str] = []
        places: list[int] = []
        after_space = self._squeezes
        for piece, start in self._rewritten(line):
            if after_space:
                piece = piece.lstrip(" ")
            characters += piece
            places += [start] * len(piece)
            if piece and self._squeezes:
                after_space = piece.endswith(" ")
        end = len(line)
        while self._squeezes and characters and characters[-1] in (" ", MARKER):
            characters.pop()
            end = places.pop()
        if characters and self._adds_space:
            characters.insert(0, " ")
            places.insert(0, places[0])
        return "".join(characters).replace(" ", MARKER), [*places, end]

    def _rewritten(self, line: str) -> Iterator[tuple[str, int]]:
        """Each part of the line by the longest rule that matches there, and where it stood."""
        place = 0
        while place < len(line):
            symbol = self._symbol.match(line, place) if self._symbol else None
            if symbol:  # is copied as it is
                yield symbol.group(), place
                place = symbol.end()
                continue
            replacement, end = self._trie.longest(line, place) or (line[place], place + 1)
            yield replacement, place
            place = end


class _Trie:
    """The compiled rules: a double-array trie over UTF-8 bytes (Darts), and the replacements, each ended by a zero."""

    def __init__(self, rules: bytes) -> None:
        size = struct.unpack_from("<I", rules)[0] if rules else 0
        self._units = array("I", rules[4 : 4 + size])
        self._replacements = rules[4 + size :]
        self._root = self._offset(self._units[0]) if size else 0
        self._known: dict[tuple[int, str], tuple[int, str | None]] = {}

    def longest(self, text: str, start: int) -> tuple[str, int] | None:
        """The replacement of the longest rule that matches here, and where it ends."""
        node, found = self._root, None
        for place in range(start, len(text)):
            node, replacement = self._next(node, text[place])
            if replacement is not None:
                found = replacement, place + 1
            if node < 0:
                break
        return found

    def touched_ascii(self) -> re.Pattern[str]:
        """Finds ASCII characters, and pairs of them, that a rule may change."""
        ascii_characters = [chr(code) for code in range(128)]
        pattern = []
        for first in ascii_characters:
            node, replacement = self._next(self._root, first)
            if replacement is not None:
                pattern.append(re.escape(first))
            elif node >= 0:
                followers = [second for second in ascii_characters if self._next(node, second) != (-1, None)]
                pattern += [re.escape(first + second) for second in followers]
        return re.compile("|".join(pattern) if pattern else r"(?!)")

    def _next(self, node: int, character: str) -> tuple[int, str | None]:
        """The node after a character, -1 if no rule goes on so, and the replacement if a rule ends here."""
        key = node, character
        if key not in self._known:
            self._known[key] = self._walk(node, character.encode())
        return self._known[key]

    def _walk(self, node: int, spelling: bytes) -> tuple[int, str | None]:
        replacement = None
        for byte in spelling:
            place = node ^ byte
            unit = self._units[place] if node >= 0 and place < len(self._units) else 0
            if unit & 0x800000FF != byte or not unit:
                return -1, None
            node = place ^ self._offset(unit)
            replacement = self._replacement(self._units[node] & 0x7FFFFFFF) if unit >> 8 & 1 else None
        return node, replacement

    def _replacement(self, start: int) -> str:
        return self._replacements[start : self._replacements.index(0, start)].decode()

    @staticmethod
    def _offset(unit: int) -> int:
        return unit >> 10 << ((unit & 0x200) >> 6)


# --- the protocol buffer ------------------------------------------------------------------------------------------


def _fields(content: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """The numbers and values of a message's fields."""
    place = 0
    while place < len(content):
        key, place = _varint(content, place)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, place = _varint(content, place)
            yield number, value
        elif wire == 2:
            size, place = _varint(content, place)
            if place + size > len(content):
                raise ValueError("cut short")
            yield number, content[place : place + size]
            place += size
        else:
            form = {1: "<d", 5: "<f"}[wire]
            yield number, struct.unpack_from(form, content, place)[0]
            place += struct.calcsize(form)


def _varint(content: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7


def _piece(message: int | float | bytes) -> Piece:
    assert isinstance(message, bytes)
    fields = dict(_fields(message))
    text, score, kind = fields[1], fields.get(2, 0.0), fields.get(3, NORMAL)
    assert isinstance(text, bytes)
    assert not isinstance(score, bytes)
    assert isinstance(kind, int)
    return Piece(text.decode(), float(score), kind)


def _merged(fields: Sequence[tuple[int, int | float | bytes]], wanted: int) -> dict[int, Any]:
    """The fields of a message inside the model."""
    merged: dict[int, Any] = {}
    for number, value in fields:
        if number == wanted:
            assert isinstance(value, bytes)
            merged.update(_fields(value))
    return merged
