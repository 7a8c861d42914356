"""Tokenizers trained by Regard and run by the library `tokenizers`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

import tokenizers

from regard.config.settings import TextSettings
from regard.config.vocabulary import SPECIAL_PIECES, UNK
from regard.data.text.checked import check_own, guarded
from regard.data.text.pieces import ESCAPE, ESCAPES, MARKER, TAG, escaping_steps, train_pieces, without_surrogates
from regard.data.text.tokenizer import Tokenizer
from regard.data.text.words import Span
from regard.errors import ModelFolderError
from regard.storage.reading import parse_json, short

_BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")
_NEEDS_ESCAPING = re.compile(f"[{MARKER}{ESCAPE}<]")
_ESCAPED = re.compile("|".join(map(re.escape, ESCAPES.values())))
_UNESCAPED = {escaped: plain for plain, escaped in ESCAPES.items()}


def train_tokenizer(lines: Iterable[str], settings: TextSettings, size: int | None, tagged: bool) -> TrainedTokenizer:
    """Train a tokenizer with at most `size` pieces (default: `settings.vocabulary_size`)."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    content = train_pieces(lines, settings, settings.vocabulary_size if size is None else size, tagged)
    return TrainedTokenizer(json.dumps(content, ensure_ascii=False))


class TrainedTokenizer(Tokenizer):
    """A tokenizer trained by Regard."""

    def __init__(self, tokenizer_json: str) -> None:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        try:
            content: dict[str, Any] = parse_json(tokenizer_json.encode())
            check_own(content)
            self._full = _engine(content)
            # most lines need no escaping; skipping those steps halves the time
            self._plain = _engine(_without_escapes(content))
            pieces = [self._full.id_to_token(number) or "" for number in range(self._full.get_vocab_size())]
            surfaces = _surfaces(pieces, content)
            if TAG in pieces:
                self.tag = pieces.index(TAG)
                surfaces[self.tag] = b""
            # the decoder drops the marker or space before the first word
            self._leads_with_space = content["model"]["type"] != "WordLevel" or b" " in surfaces[UNK]
            says_unknown = not content["model"].get("byte_fallback", False)
            # No piece crosses a space; but the characters' pieces stand for spaces between words, not before them.
            steps = {step["type"] for step in content["normalizer"]["normalizers"]}
            self.encodes_words = "Prepend" in steps or content["pre_tokenizer"]["behavior"] == "Removed"
        except Exception as error:  # `tokenizers` raises bare Exceptions
            raise ModelFolderError(
                f"Not a tokenizer that Regard wrote ({short(error)}). Use the tokenizer.json of a model folder."
            ) from None
        super().__init__(self._full.to_str(pretty=False), pieces, surfaces, says_unknown=says_unknown)

    def whole_word(self, id: int) -> str | None:  # noqa: A002
        """The word of a word-initial piece; None for a continuation."""
        surface = self._surfaces[id]
        if id < len(SPECIAL_PIECES) or (self._leads_with_space and not surface.startswith(b" ")):
            return None
        word = surface.decode("utf-8", errors="replace")
        return _unescape(word.removeprefix(" ") if self._leads_with_space else word) or None

    def encode(self, text: str) -> list[int]:
        """The ids of a line, EOS included."""
        text = without_surrogates(text)
        ids: list[int] = guarded(self._engine_for(text).encode, text).ids
        return ids

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many lines, faster than one by one; releases the GIL."""
        if len(texts) == 1:
            return [self.encode(texts[0])]  # without waking the tokenizers' threads
        clean = [without_surrogates(text) for text in texts]
        engine = self._full if any(map(_NEEDS_ESCAPING.search, clean)) else self._plain
        return [encoding.ids for encoding in guarded(engine.encode_batch_fast, clean)]

    def _placed(self, text: str) -> tuple[list[int], list[Span]]:
        """The ids of a line and their character spans, EOS included."""
        encoding = guarded(self._engine_for(text).encode, text)
        return encoding.ids, encoding.offsets

    def _engine_for(self, text: str) -> tokenizers.Tokenizer:
        return self._full if _NEEDS_ESCAPING.search(text) else self._plain

    def _finished(self, raw: str, spans: Sequence[Span] = ()) -> tuple[str, list[Span]]:
        """The text of the joined pieces, without the leading space and escapes, and the shifted spans."""
        if self._leads_with_space and raw.startswith(" "):
            raw, spans = raw[1:], [(max(0, start - 1), max(0, end - 1)) for start, end in spans]
        if ESCAPE in raw:
            spans = _unescape_spans(raw, spans)
        return _unescape(raw), list(spans)


def _engine(content: dict[str, Any]) -> tokenizers.Tokenizer:
    engine = guarded(tokenizers.Tokenizer.from_str, json.dumps(content))
    engine.encode_special_tokens = True  # "</s>" in a line is plain text
    return engine


def _without_escapes(content: dict[str, Any]) -> dict[str, Any]:
    steps = [step for step in content["normalizer"]["normalizers"] if step not in escaping_steps()]
    return {**content, "normalizer": {"type": "Sequence", "normalizers": steps}}


def _surfaces(pieces: Sequence[str], content: dict[str, Any]) -> list[bytes]:
    """The decoded bytes of each piece; a word-initial piece begins with a space."""
    model = content["model"]
    words = content["pre_tokenizer"]["behavior"] == "Removed"
    prefix = model["continuing_subword_prefix"] if model["type"] == "WordPiece" else None
    surfaces = []
    for piece in pieces:
        found = _BYTE_PIECE.fullmatch(piece) if model.get("byte_fallback") else None
        if found:
            surface = bytes([int(found.group(1), 16)])
        elif prefix and piece.startswith(prefix):
            surface = piece.removeprefix(prefix).encode()
        elif words:
            surface = b" " + piece.encode()
        else:
            surface = piece.replace(MARKER, " ").encode()
        surfaces.append(surface)
    return surfaces


def _unescape(raw: str) -> str:
    return _ESCAPED.sub(lambda found: _UNESCAPED[found.group()], raw) if ESCAPE in raw else raw


def _unescape_spans(raw: str, spans: Sequence[Span]) -> list[Span]:
    """Convert spans in the escaped text to spans in the text; part of an escape gets the whole character."""
    starts = {found.start() for found in _ESCAPED.finditer(raw)}
    place, removed = [], 0
    for index in range(len(raw) + 1):
        removed += index - 1 in starts
        place.append(index - removed)
    return [(place[start], place[end - 1] + 1 if end > start else place[end]) for start, end in spans]
