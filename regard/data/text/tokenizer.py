"""Sentences to token ids and back, with the white-space word that each token belongs to.

`Tokenizer` is the interface, and decodes. Three classes implement it: `TrainedTokenizer` has learnt its pieces here,
`LibraryTokenizer` and `SentencePieceTokenizer` run a tokenizer that another tool has trained.

A vocabulary begins with `<pad> <unk> <s> </s>`, ids 0 to 3, whatever its kind. With bytes as the fallback (BPE and
unigram) `decode(encode(line)) == line` for every string; the one exception is a lone surrogate, which UTF-8 cannot
spell and which becomes U+FFFD. The other kinds spell unknown text `<unk>`; word and WordPiece pieces also forget
which white space stood between two words. Words are those of `str.split()`, everywhere.

A Tokenizer never changes after it is made, so threads may share it. It runs in the calling thread: the thread pool of
`tokenizers` is switched off unless TOKENIZERS_PARALLELISM is set, because it does not survive a fork.
"""

from __future__ import annotations

import bisect
import codecs
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.config.settings import TextSettings
from regard.config.vocabulary import BOS, EOS, PAD, SPECIAL_PIECES, UNK
from regard.data.text.pieces import MARKER, without_surrogates
from regard.errors import ConfigError, ModelFolderError
from regard.storage.reading import TOKENIZER_BYTES, read_bounded

Span = tuple[int, int]
"""The first character and the one after the last."""

_FOREIGN = re.compile(r'\s*\{\s*"regard"\s*:')


@dataclass(frozen=True)
class Token:
    """One token of a line: characters `start` to `end`, in the white-space word number `word`."""

    id: int
    text: str  # as it stands in the line; the piece itself where it stands for no text
    word: int | None  # None for </s>, and for white space that leads to no word
    start: int
    end: int


class Tokenizer(ABC):
    """Pieces of one language, or of two that share them."""

    says_unknown: bool  # whether some text can only be spelt <unk>

    def __init__(
        self, tokenizer_json: str, pieces: Sequence[str], surfaces: Sequence[bytes], *, says_unknown: bool
    ) -> None:
        """`surfaces` holds the UTF-8 that each piece adds to a decoded line."""
        if tuple(pieces[:4]) != SPECIAL_PIECES:
            raise ModelFolderError(
                f"The tokenizer's first pieces are {list(pieces[:4])}, not {list(SPECIAL_PIECES)}: "
                "Regard cannot use it. Train a tokenizer with `regard train`."
            )
        self.says_unknown = says_unknown
        self._json = tokenizer_json
        self._pieces = list(pieces)
        self._surfaces = [b"" if number in (PAD, BOS, EOS) else each for number, each in enumerate(surfaces)]

    @staticmethod
    def train(lines: Iterable[str], settings: TextSettings, size: int | None = None) -> Tokenizer:
        """Learn the pieces of a text; the same lines give the same tokenizer."""
        from regard.data.text.trained import train_tokenizer  # which implements this class

        return train_tokenizer(lines, settings, size)

    @property
    def size(self) -> int:
        """The number of pieces, special ones included."""
        return len(self._pieces)

    def piece(self, id: int) -> str:  # noqa: A002 - the word everyone knows
        """The piece with this id."""
        return self._pieces[id]

    @abstractmethod
    def whole_word(self, id: int) -> str | None:  # noqa: A002
        """The word that a piece spells; None for parts of a word."""

    # --- text to tokens -------------------------------------------------------------------------------------------

    def encode(self, text: str) -> list[int]:
        """The ids of a line; EOS ends them."""
        return self.encode_many([text])[0]

    @abstractmethod
    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many lines, faster than one by one; other threads run meanwhile."""

    @abstractmethod
    def _placed(self, text: str) -> tuple[list[int], list[Span]]:
        """The ids of a line with the characters that each stands for, EOS included."""

    def encode_prefix(self, prefix: str | Sequence[int] | None) -> list[int]:
        """The ids of a forced beginning, without an end unless the end itself is forced."""
        if prefix is None:
            return []
        if isinstance(prefix, str):
            return self.encode(prefix)[:-1] if prefix.strip() else []
        for place, number in enumerate(prefix):
            last = place == len(prefix) - 1
            if not UNK <= number < self.size or number == BOS or (number == EOS and not last):
                raise ConfigError(
                    f"prefix: {number} at place {place} is no piece that a line can hold there: "
                    f"give ids of pieces, 0 to {self.size - 1}, with </s> only at the end."
                )
        return list(prefix)

    def tokens(self, text: str) -> tuple[Token, ...]:
        """The tokens of a line, one for each id of `encode`."""
        ids, offsets = self._placed(without_surrogates(text))
        if self.decode(ids) == text:
            return self.decoded_tokens(ids)  # knows the characters of each byte piece
        words = _Words(text)
        tokens = []
        for number, (start, end) in zip(ids[:-1], offsets[:-1], strict=True):
            if start == 0 and self._pieces[number] == MARKER and text[0] != " ":
                end = 0  # the marker before the first word stands for no character of the line
            tokens.append(self._token(number, text, start, end, words.of(start, end)))
        tokens.append(Token(EOS, SPECIAL_PIECES[EOS], None, len(text), len(text)))
        return tuple(tokens)

    # --- tokens to text -------------------------------------------------------------------------------------------

    def decode(self, ids: Iterable[int], unknown: Sequence[str] = ()) -> str:
        """The text of the ids; PAD, BOS and EOS are dropped, the n-th UNK reads `unknown[n]`, else `<unk>`.

        Bytes that make no character, which a model may well produce, become U+FFFD.
        """
        raw = b"".join(self._bytes(ids, unknown)).decode("utf-8", errors="replace")
        return self._finished(raw)[0]

    def decoded_tokens(self, ids: Sequence[int], unknown: Sequence[str] = ()) -> tuple[Token, ...]:
        """The tokens of `decode(ids)`, one for each id; their words are those of `decode(ids).split()`."""
        parts = list(self._bytes(ids, unknown))
        raw, spans = _decode_parts(parts)
        text, spans = self._finished(raw, spans)
        words = _Words(text)
        return tuple(
            self._token(number, text, start, end, words.of(start, end) if part else None)
            for number, part, (start, end) in zip(ids, parts, spans, strict=True)
        )

    @abstractmethod
    def _finished(self, raw: str, spans: Sequence[Span] = ()) -> tuple[str, list[Span]]:
        """The text of the joined pieces, without the spaces and escapes that are not text, and spans moved with it."""

    def _token(self, number: int, text: str, start: int, end: int, word: int | None) -> Token:
        surface = text[start:end]
        bare = surface.strip()
        if bare:
            start += surface.index(bare)
            end = start + len(bare)
        return Token(number, bare or self._pieces[number], word, start, end)

    def _bytes(self, ids: Iterable[int], unknown: Sequence[str]) -> Iterator[bytes]:
        """What each id adds to the text."""
        replacements = iter(unknown)
        for number in ids:
            if number == UNK and unknown:
                word = next(replacements, None)
                if word is not None:
                    space = b" " if self._surfaces[UNK].startswith(b" ") else b""
                    yield space + without_surrogates(word).encode()
                    continue
            yield self._surfaces[number]

    # --- to disk --------------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """The Hugging Face `tokenizer.json`."""
        return self._json

    @staticmethod
    def from_json(text: str) -> Tokenizer:
        """The tokenizer that `to_json` wrote."""
        from regard.data.text.foreign import foreign_tokenizer
        from regard.data.text.trained import TrainedTokenizer

        return foreign_tokenizer(text) if _FOREIGN.match(text) else TrainedTokenizer(text)

    def save(self, path: Path | str) -> None:
        """Write `tokenizer.json`."""
        Path(path).write_text(self._json, encoding="utf-8")

    @staticmethod
    def load(path: Path | str) -> Tokenizer:
        """Read the `tokenizer.json` of a model folder."""
        try:
            text = read_bounded(Path(path), TOKENIZER_BYTES).decode("utf-8")
        except UnicodeDecodeError:
            raise ModelFolderError(f"{path}: cannot be read (not UTF-8). Point to a whole model folder.") from None
        try:
            return Tokenizer.from_json(text)
        except ModelFolderError as error:
            raise ModelFolderError(f"{path}: {error}") from error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and other._json == self._json

    def __hash__(self) -> int:
        return hash(self._json)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.size} pieces>"


def _decode_parts(parts: Sequence[bytes]) -> tuple[str, list[Span]]:
    """The text of all parts and the characters of each; a part of a character has the whole of it."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = ""
    spans = []
    pending = False
    for part in parts:
        broken = bool(pending and part and part[0] & 0xC0 != 0x80)  # a character was begun and this part drops it
        start = len(text) + broken
        text += decoder.decode(part)
        pending = bool(decoder.getstate()[0])
        spans.append((start, len(text) + (pending and bool(part))))
    text += decoder.decode(b"", final=True)
    return text, [(min(start, len(text)), min(end, len(text))) for start, end in spans]


class _Words:
    """Where the white-space words of a line stand."""

    def __init__(self, text: str) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        place = 0
        for word in text.split():
            place = text.index(word, place)
            self._starts.append(place)
            place += len(word)
            self._ends.append(place)

    def of(self, start: int, end: int) -> int | None:
        """The first word with a character from `start` to `end`; else the word that begins at `end`."""
        number = bisect.bisect_right(self._ends, start)
        if number == len(self._starts):
            return None
        begins = self._starts[number]
        return number if begins < end or begins == end else None
