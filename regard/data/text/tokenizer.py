"""Sentences to token ids and back; every token knows its white-space word.

`Tokenizer` is the interface and decodes. Three classes implement it: `TrainedTokenizer` is trained by Regard,
`LibraryTokenizer` and `SentencePieceTokenizer` run tokenizers trained by other tools.

Every vocabulary begins with `<pad> <unk> <s> </s>`, ids 0 to 3. With byte fallback (BPE and unigram),
`decode(encode(line)) == line` for every string, except that a lone surrogate becomes U+FFFD. The other kinds encode
unknown text as `<unk>`; word and WordPiece vocabularies also normalise white space. Words are always those of
`str.split()`.

A Tokenizer is immutable, so threads may share it. It runs in the calling thread: the thread pool of `tokenizers` is
switched off unless TOKENIZERS_PARALLELISM is set, because it does not survive a fork.
"""

from __future__ import annotations

import codecs
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.config.settings import TextSettings
from regard.config.vocabulary import BOS, EOS, PAD, SPECIAL_PIECES, UNK
from regard.data.text.pieces import MARKER, without_surrogates
from regard.data.text.words import Span, WordSpans
from regard.errors import ConfigError, ModelFolderError
from regard.storage.reading import TOKENIZER_BYTES, read_bounded

_FOREIGN = re.compile(r'\s*\{\s*"regard"\s*:')


@dataclass(frozen=True)
class Token:
    """A token of a line: characters `start` to `end`, in white-space word number `word`."""

    id: int
    text: str  # the text in the line; the piece itself if it has no text
    word: int | None  # None for </s> and for trailing white space
    start: int
    end: int


class Tokenizer(ABC):
    """The tokenizer of one language, or of two with a joint vocabulary."""

    says_unknown: bool  # whether some text can only be encoded as <unk>
    encodes_words = False  # whether the words between spaces are encoded independently: see `word_ids`
    tag: int | None = None  # the id of the tag of back-translated sources

    def __init__(
        self, tokenizer_json: str, pieces: Sequence[str], surfaces: Sequence[bytes], *, says_unknown: bool
    ) -> None:
        """`surfaces` holds the decoded UTF-8 bytes of each piece."""
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
    def train(
        lines: Iterable[str], settings: TextSettings, size: int | None = None, *, tagged: bool = False
    ) -> Tokenizer:
        """Train a tokenizer; training is deterministic. `tagged` reserves a piece for back-translated sources."""
        from regard.data.text.trained import train_tokenizer  # it imports this module

        return train_tokenizer(lines, settings, size, tagged)

    @property
    def size(self) -> int:
        """The number of pieces, special ones included."""
        return len(self._pieces)

    def piece(self, id: int) -> str:  # noqa: A002 - the word everyone knows
        """The piece with this id."""
        return self._pieces[id]

    @abstractmethod
    def whole_word(self, id: int) -> str | None:  # noqa: A002
        """The word of a word-initial or whole-word piece; None inside a word."""

    # --- text to tokens -------------------------------------------------------------------------------------------

    def encode(self, text: str) -> list[int]:
        """The ids of a line, EOS included."""
        return self.encode_many([text])[0]

    @abstractmethod
    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many lines, faster than one by one; releases the GIL."""

    def word_ids(self, word: str) -> list[int]:
        """The ids of a word: a line is the concatenation of the words between its spaces, and EOS."""
        assert self.encodes_words
        if word:
            return self.encode(word)[:-1]
        two = self.encode(" ")[:-1]  # two empty words
        return two[: len(two) // 2]

    @abstractmethod
    def _placed(self, text: str) -> tuple[list[int], list[Span]]:
        """The ids of a line and their character spans, EOS included."""

    def encode_prefix(self, prefix: str | Sequence[int] | None) -> list[int]:
        """The ids of a target prefix, without EOS unless the prefix contains it."""
        if prefix is None:
            return []
        if isinstance(prefix, str):
            return self.encode(prefix)[:-1] if prefix.strip() else []
        for place, number in enumerate(prefix):
            last = place == len(prefix) - 1
            if not UNK <= number < self.size or number == BOS or (number == EOS and not last):
                raise ConfigError(
                    f"prefix: id {number} at position {place} is not allowed there: "
                    f"give piece ids from {UNK} to {self.size - 1}, without <s>, and </s> only at the end."
                )
        return list(prefix)

    def tokens(self, text: str) -> tuple[Token, ...]:
        """The tokens of a line, one for each id of `encode`."""
        ids, offsets = self._placed(without_surrogates(text))
        if self.decode(ids) == text:
            return self.decoded_tokens(ids)  # it assigns the characters of byte pieces
        words = WordSpans(text)
        tokens = []
        for number, (start, end) in zip(ids[:-1], offsets[:-1], strict=True):
            if start == 0 and self._pieces[number] == MARKER and text[0] != " ":
                end = 0  # the marker before the first word has no character in the line
            tokens.append(self._token(number, text, start, end, words.of(start, end)))
        tokens.append(Token(EOS, SPECIAL_PIECES[EOS], None, len(text), len(text)))
        return tuple(tokens)

    # --- tokens to text -------------------------------------------------------------------------------------------

    def decode(self, ids: Iterable[int], unknown: Sequence[str] = ()) -> str:
        """The text of the ids; PAD, BOS and EOS are dropped, the n-th UNK becomes `unknown[n]`, or `<unk>`.

        Invalid UTF-8, which a model may generate from byte pieces, becomes U+FFFD.
        """
        raw = b"".join(self._bytes(ids, unknown)).decode("utf-8", errors="replace")
        return self._finished(raw)[0]

    def decoded_tokens(self, ids: Sequence[int], unknown: Sequence[str] = ()) -> tuple[Token, ...]:
        """The tokens of `decode(ids)`, one for each id; `word` indexes `decode(ids).split()`."""
        parts = list(self._bytes(ids, unknown))
        raw, spans = _decode_parts(parts)
        text, spans = self._finished(raw, spans)
        words = WordSpans(text)
        return tuple(
            self._token(number, text, start, end, words.of(start, end) if part else None)
            for number, part, (start, end) in zip(ids, parts, spans, strict=True)
        )

    @abstractmethod
    def _finished(self, raw: str, spans: Sequence[Span] = ()) -> tuple[str, list[Span]]:
        """The text of the joined pieces, without outer spaces and escapes, and the shifted spans."""

    def _token(self, number: int, text: str, start: int, end: int, word: int | None) -> Token:
        surface = text[start:end]
        bare = surface.strip()
        if bare:
            start += surface.index(bare)
            end = start + len(bare)
        return Token(number, bare or self._pieces[number], word, start, end)

    def _bytes(self, ids: Iterable[int], unknown: Sequence[str]) -> Iterator[bytes]:
        """The decoded bytes of each id."""
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
    """The text of all parts and the character span of each; a partial character gets the span of the whole."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = ""
    spans = []
    pending = False
    for part in parts:
        broken = bool(pending and part and part[0] & 0xC0 != 0x80)  # an incomplete character is followed by a new one
        start = len(text) + broken
        text += decoder.decode(part)
        pending = bool(decoder.getstate()[0])
        spans.append((start, len(text) + (pending and bool(part))))
    text += decoder.decode(b"", final=True)
    return text, [(min(start, len(text)), min(end, len(text))) for start, end in spans]
