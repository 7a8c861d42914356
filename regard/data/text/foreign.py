"""Tokenizers trained by other tools: SentencePiece models, and any `tokenizer.json` of the library `tokenizers`.

They segment text exactly as their own tools do, with three differences. Regard's four special pieces come first; a
special piece spelt out in a line is plain text; nothing is truncated. A piece missing from the vocabulary becomes
`<unk>`. Regard's `tokenizer.json` of such a tokenizer begins with the key "regard". It holds either the unchanged
SentencePiece model with the vocabulary, or the renumbered `tokenizer.json`.
"""

from __future__ import annotations

import base64
import json
import os
import re
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tokenizers

from regard.config.vocabulary import EOS, SPECIAL_PIECES, UNK
from regard.data.text.checked import check_foreign, check_pieces, guarded
from regard.data.text.pieces import (
    BYTE_PIECES,
    ESCAPE,
    added_token,
    closing_eos,
    escaping_steps,
    without_surrogates,
)
from regard.data.text.tokenizer import Tokenizer
from regard.data.text.words import Span
from regard.errors import ConfigError, DataError, ModelFolderError
from regard.storage.reading import TOKENIZER_BYTES, parse_json, read_bounded, short

Json = dict[str, Any]

_CODE = re.compile(r">>[^<>\s]+<<")


def read_tokenizer_file(path: Path | str) -> Tokenizer:
    """Read a SentencePiece model, a `tokenizer.json` of `tokenizers`, or the one of a model folder."""
    raw = read_bounded(Path(path), TOKENIZER_BYTES, DataError)
    if not raw.lstrip().startswith(b"{"):
        from regard.data.text.sentencepiece import SentencePieceTokenizer  # it imports this module

        return SentencePieceTokenizer(raw, str(path))
    try:
        content = parse_json(raw)
        if "regard" in content or _is_ours(content):
            return Tokenizer.from_json(raw.decode())
        return LibraryTokenizer(_renumbered(content))
    except ConfigError:  # a package is missing
        raise
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    except Exception as error:  # `tokenizers` raises bare Exceptions, and a foreign file may lack any key
        raise DataError(
            f"{path}: not a supported tokenizer ({type(error).__name__}: {short(error)}): give a "
            "SentencePiece model, or the tokenizer.json of the library `tokenizers`."
        ) from None


def foreign_tokenizer(tokenizer_json: str) -> ForeignTokenizer:
    """The tokenizer in the `tokenizer.json` of a model folder."""
    try:
        content: Json = parse_json(tokenizer_json.encode())
        about = content.pop("regard")
        if "sentencepiece" not in about:
            return LibraryTokenizer(content)
        from regard.data.text.sentencepiece import SentencePieceTokenizer

        model = base64.b64decode(about["sentencepiece"], validate=True)
        return SentencePieceTokenizer(model, "its SentencePiece model", check_pieces(about["vocabulary"]))
    except ConfigError:  # a package is missing
        raise
    except Exception as error:  # `tokenizers` raises bare Exceptions
        raise ModelFolderError(
            f"Not a tokenizer that Regard wrote ({short(error)}). Use the tokenizer.json of a model folder."
        ) from None


class ForeignTokenizer(Tokenizer):
    """A tokenizer trained by another tool."""

    def __init__(
        self, tokenizer_json: str, pieces: Sequence[str], surfaces: Sequence[bytes], *, says_unknown: bool
    ) -> None:
        super().__init__(tokenizer_json, pieces, surfaces, says_unknown=says_unknown)
        # Marian's target language codes are in the vocabulary but not in the SentencePiece model
        self._codes = {piece: number for number, piece in enumerate(pieces) if _CODE.fullmatch(piece)}

    @abstractmethod
    def _cut(self, lines: Sequence[str]) -> list[list[int]]:
        """The ids of many lines, without EOS."""

    @abstractmethod
    def _cut_placed(self, line: str) -> tuple[list[int], list[Span]]:
        """The ids of a line, without EOS, and their character spans."""

    def whole_word(self, id: int) -> str | None:  # noqa: A002
        """The word of a piece with a word boundary; None without one."""
        surface = self._surfaces[id].decode("utf-8", errors="replace")
        if id < len(SPECIAL_PIECES) or surface.strip(" ") == surface:
            return None
        return surface.strip(" ") or None

    # --- text to tokens -------------------------------------------------------------------------------------------

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many lines, faster than one by one; releases the GIL."""
        codes, lines = zip(*map(self._without_code, texts), strict=True) if texts else ((), ())
        return [[*code, *ids, EOS] for code, ids in zip(codes, self._cut(lines), strict=True)]

    def _placed(self, text: str) -> tuple[list[int], list[Span]]:
        code, rest = self._without_code(text)
        first = len(text) - len(rest)
        ids, spans = self._cut_placed(rest)
        moved = [(first + start, first + end) for start, end in spans]
        return [*code, *ids, EOS], [*([(0, first)] if code else []), *moved, (len(text), len(text))]

    def _without_code(self, text: str) -> tuple[list[int], str]:
        """The target language code at the start of a line, if any, and the remaining text."""
        text = without_surrogates(text)
        found = _CODE.match(text) if self._codes else None
        if found is None or found.group() not in self._codes:
            return [], text
        return [self._codes[found.group()]], text[found.end() :]

    # --- tokens to text -------------------------------------------------------------------------------------------

    def _finished(self, raw: str, spans: Sequence[Span] = ()) -> tuple[str, list[Span]]:
        text = raw.strip(" ")
        lead = len(raw) - len(raw.lstrip(" "))

        def moved(place: int) -> int:
            return min(max(0, place - lead), len(text))

        return text, [(moved(start), moved(end)) for start, end in spans]


class LibraryTokenizer(ForeignTokenizer):
    """A tokenizer of the library `tokenizers`, renumbered with Regard's special pieces."""

    def __init__(self, content: Json) -> None:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        check_foreign(content)
        self._engine = guarded(tokenizers.Tokenizer.from_str, json.dumps(content))
        self._engine.encode_special_tokens = True  # "</s>" in a line is plain text
        names = [self._engine.id_to_token(number) or "" for number in range(self._engine.get_vocab_size())]
        pieces = [name.removeprefix(ESCAPE) for name in names]
        spells_bytes = content["model"].get("byte_fallback") and set(BYTE_PIECES) <= set(names)
        super().__init__(
            json.dumps({"regard": {}, **content}, ensure_ascii=False),
            pieces,
            _surfaces(self._engine, pieces, content),
            says_unknown=not (spells_bytes or _is_byte_level(content)),
        )

    def _cut(self, lines: Sequence[str]) -> list[list[int]]:
        clean = [_unescaped(line) for line in lines]
        found = guarded(self._engine.encode_batch_fast, clean, add_special_tokens=False)
        return [encoding.ids for encoding in found]

    def _cut_placed(self, line: str) -> tuple[list[int], list[Span]]:
        encoding = guarded(self._engine.encode, _unescaped(line), add_special_tokens=False)
        return encoding.ids, encoding.offsets

    def to_tokenizers(self) -> Json:
        """A `tokenizer.json` for the library `tokenizers` itself, with the special pieces under their own names."""
        content = json.loads(self._json)
        del content["regard"]
        model = content["model"]
        vocabulary = model["vocab"]
        if isinstance(vocabulary, dict):
            model["vocab"] = {piece.removeprefix(ESCAPE): number for piece, number in vocabulary.items()}
        else:
            model["vocab"] = [[piece.removeprefix(ESCAPE), score] for piece, score in vocabulary]
        if model.get("unk_token") is not None:
            model["unk_token"] = SPECIAL_PIECES[UNK]
        special = [added_token(number, piece) for number, piece in enumerate(SPECIAL_PIECES)]
        return {**content, "added_tokens": [*special, *content["added_tokens"]], "post_processor": closing_eos()}


def _unescaped(line: str) -> str:
    """The line without the escape character, which is reserved for special pieces."""
    return line.replace(ESCAPE, "\ufdd1")


# --- tokenizer.json -----------------------------------------------------------------------------------------------


def _is_ours(content: Json) -> bool:
    """Whether Regard trained the tokenizer."""
    steps = (content.get("normalizer") or {}).get("normalizers") or []
    return escaping_steps()[0] in steps


def _renumbered(content: Json) -> Json:
    """The same tokenizer with Regard's special pieces first, escaped so that no text matches them."""
    model = dict(content["model"])
    kind, vocabulary = model.get("type"), model["vocab"]
    if kind not in ("BPE", "Unigram", "WordPiece", "WordLevel"):
        raise DataError(f"model type {kind!r} is not supported: use BPE, Unigram, WordPiece or WordLevel.")
    added = content.get("added_tokens") or []
    scores = dict(vocabulary) if kind == "Unigram" else {}
    unknown = vocabulary[model["unk_id"]][0] if scores and model["unk_id"] is not None else model.get("unk_token")
    dropped = {token["content"] for token in added if token["special"]} | {unknown, *SPECIAL_PIECES}
    pieces = list(scores) if scores else sorted(vocabulary, key=vocabulary.__getitem__)
    plain = [token for token in added if not token["special"] and token["content"] not in dropped]
    pieces += [token["content"] for token in sorted(plain, key=lambda token: int(token["id"]))]
    names = list(dict.fromkeys([*(ESCAPE + piece for piece in SPECIAL_PIECES), *pieces]))
    numbers = {name: number for number, name in enumerate(name for name in names if name not in dropped)}
    if kind == "Unigram":
        model |= {"vocab": [[name, scores.get(name, 0.0)] for name in numbers], "unk_id": UNK}
    else:
        model["vocab"] = numbers
        if unknown is not None or not _is_byte_level(content):
            model["unk_token"] = ESCAPE + SPECIAL_PIECES[UNK]
    return {
        **content,
        "model": model,
        "added_tokens": [{**token, "id": numbers[token["content"]]} for token in plain],
        "truncation": None,
        "padding": None,
        "post_processor": None,
    }


def _parts(step: Json | None) -> list[Json]:
    """The steps of a possibly nested sequence."""
    if step is None:
        return []
    inner = step.get("decoders") or step.get("pretokenizers")
    return [part for each in inner for part in _parts(each)] if inner else [step]


def _is_byte_level(content: Json) -> bool:
    return any(part["type"] == "ByteLevel" for part in _parts(content.get("pre_tokenizer")))


def _surfaces(engine: tokenizers.Tokenizer, pieces: Sequence[str], content: Json) -> list[bytes]:
    """The decoded bytes of each piece, by the tokenizer's own decoder."""
    steps = {part["type"]: part for part in _parts(content.get("decoder"))}
    if "ByteLevel" in steps:
        alphabet = _byte_alphabet()
        return [
            bytes(alphabet[character] for character in piece) if all(character in alphabet for character in piece)
            # an added token is decoded unchanged
            else piece.encode()
            for piece in pieces
        ]  # fmt: skip
    if "BPEDecoder" in steps:
        suffix = steps["BPEDecoder"]["suffix"]
        return [(piece.removesuffix(suffix) + " " * piece.endswith(suffix)).encode() for piece in pieces]
    surfaces = []
    anchor = "a"
    decoder = engine.decoder
    for piece in pieces:
        if "ByteFallback" in steps and piece in BYTE_PIECES:
            surfaces.append(bytes([BYTE_PIECES.index(piece)]))
            continue
        both = f"{anchor} {piece}" if decoder is None else guarded(decoder.decode, [anchor, piece])
        if not both.startswith(anchor):
            raise DataError(f"decoder {list(steps)} is not supported.")
        surfaces.append(both.removeprefix(anchor).encode())
    return surfaces


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's byte-level alphabet: printable bytes stand for themselves."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in seen]
    return {**{chr(byte): byte for byte in seen}, **{chr(256 + place): byte for place, byte in enumerate(hidden)}}
