"""Tokenizers that were trained elsewhere: SentencePiece models, and any `tokenizer.json` of the library `tokenizers`.

They cut text exactly as their own tools do, with three differences: the special pieces are Regard's four, in front; a
line in which a special piece is spelt out is plain text; and nothing is truncated. A piece that the vocabulary does not
have reads `<unk>`. The `tokenizer.json` of such a tokenizer begins with a key "regard", and holds either the
SentencePiece model as it was, with the vocabulary, or the renumbered file of `tokenizers`.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tokenizers

from regard.config.vocabulary import BOS, EOS, PAD, SPECIAL_PIECES, UNK
from regard.data.text.pieces import (
    BYTE_PIECES,
    ESCAPE,
    MARKER,
    added_token,
    closing_eos,
    escaping_steps,
    without_surrogates,
)
from regard.data.text.sentencepiece import BYTE, NORMAL, USER_DEFINED, Normalizer, SentencePiece
from regard.data.text.tokenizer import Span, Tokenizer
from regard.errors import DataError, ModelFolderError

Json = dict[str, Any]

_CODE = re.compile(r">>[^<>\s]+<<")


def read_tokenizer_file(path: Path | str) -> Tokenizer:
    """The tokenizer in a SentencePiece model, a `tokenizer.json` of `tokenizers`, or one of a model folder."""
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}): give the file of a tokenizer.") from None
    if not raw.lstrip().startswith(b"{"):
        return from_sentencepiece(raw, str(path))
    try:
        content = json.loads(raw)
        if "regard" in content or _is_ours(content):
            return Tokenizer.from_json(raw.decode())
        return ForeignTokenizer(json.dumps({"regard": {}, **_renumbered(content)}, ensure_ascii=False))
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    except Exception as error:  # `tokenizers` raises bare Exceptions, and a foreign file may lack any key
        reason = " ".join(str(error).split())[:120]
        raise DataError(
            f"{path}: is no tokenizer that Regard can read ({type(error).__name__}: {reason}): give a SentencePiece "
            "model, or the tokenizer.json of the library `tokenizers`."
        ) from None


def from_sentencepiece(model: bytes, where: str, vocabulary: Sequence[str] | None = None) -> ForeignTokenizer:
    """The tokenizer of a SentencePiece model; with a vocabulary of its own, pieces that it lacks are unknown."""
    parsed = SentencePiece.read(model, where)
    if vocabulary is None:
        vocabulary = [*SPECIAL_PIECES, *(piece for piece in _cut_pieces(parsed) if piece not in SPECIAL_PIECES)]
    about = {"vocabulary": list(vocabulary), "sentencepiece": base64.b64encode(model).decode()}
    return ForeignTokenizer(json.dumps({"regard": about}, ensure_ascii=False))


class ForeignTokenizer(Tokenizer):
    """Pieces that another tool has learnt."""

    sentencepiece: bytes | None  # the model file as it was

    def __init__(self, tokenizer_json: str) -> None:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        self._json = tokenizer_json
        self._normalizer: Normalizer | None = None
        try:
            content: Json = json.loads(tokenizer_json)
            about = content.pop("regard")
            if "sentencepiece" in about:
                self._read_sentencepiece(base64.b64decode(about["sentencepiece"]), about["vocabulary"])
            else:
                self._read_tokenizers(content)
        except Exception as error:  # `tokenizers` raises bare Exceptions
            raise ModelFolderError(
                f"Not a tokenizer that Regard wrote ({error}). Use the tokenizer.json of a model folder."
            ) from error
        # Marian's codes of the target language stand in the vocabulary alone
        self._codes = {piece: number for number, piece in enumerate(self._pieces) if _CODE.fullmatch(piece)}

    def _read_sentencepiece(self, raw: bytes, vocabulary: Sequence[str]) -> None:
        model = SentencePiece.read(raw, "its SentencePiece model")
        self.sentencepiece = raw
        self._normalizer = model.normalizer
        self._engine = _engine(_sentencepiece_content(model, vocabulary))
        self._pieces = list(vocabulary)
        has_bytes = any(piece.type == BYTE for piece in model.pieces)
        bytes_of = {piece: _byte(piece) for piece in BYTE_PIECES} if has_bytes else {}
        self._surfaces = [bytes_of.get(piece, piece.replace(MARKER, " ").encode()) for piece in vocabulary]
        self._drop_specials()
        self._leads_with_space = True
        self.says_unknown = not set(BYTE_PIECES) <= set(vocabulary)

    def _read_tokenizers(self, content: Json) -> None:
        self.sentencepiece = None
        self._engine = _engine(content)
        names = [self._engine.id_to_token(number) or "" for number in range(self._engine.get_vocab_size())]
        self._pieces = [name.removeprefix(ESCAPE) for name in names]
        self._surfaces = _surfaces(self._engine, self._pieces, content)
        self._drop_specials()
        self._leads_with_space = True
        spells_bytes = content["model"].get("byte_fallback") and set(BYTE_PIECES) <= set(names)
        self.says_unknown = not (spells_bytes or _is_byte_level(content))

    def _drop_specials(self) -> None:
        for number in (PAD, BOS, EOS):
            self._surfaces[number] = b""

    def whole_word(self, id: int) -> str | None:  # noqa: A002
        """The word that a piece spells, where it tells that the word begins or ends with it."""
        surface = self._surfaces[id].decode("utf-8", errors="replace")
        if id < len(SPECIAL_PIECES) or surface.strip(" ") == surface:
            return None
        return surface.strip(" ") or None

    # --- text to tokens -------------------------------------------------------------------------------------------

    def encode(self, text: str) -> list[int]:
        """The ids of a line; EOS ends them."""
        return self.encode_many([text])[0]

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many lines."""
        codes, lines = zip(*map(self._without_code, texts), strict=True) if texts else ((), ())
        if self._normalizer is not None:
            lines = tuple(map(self._normalizer.text, lines))
        found = self._engine.encode_batch_fast(list(lines), add_special_tokens=False)
        return [[*code, *self._known(encoding.ids), EOS] for code, encoding in zip(codes, found, strict=True)]

    def _placed(self, text: str) -> tuple[list[int], list[Span]]:
        code, rest = self._without_code(text)
        first = len(text) - len(rest)
        places: Sequence[int] = range(len(rest) + 1)
        if self._normalizer is not None:
            rest, places = self._normalizer.placed(rest)
        encoding = self._engine.encode(rest, add_special_tokens=False)
        spans = [(first + places[start], first + places[end]) for start, end in encoding.offsets]
        end = (len(text), len(text))
        return [*code, *self._known(encoding.ids), EOS], [*([(0, first)] if code else []), *spans, end]

    def _without_code(self, text: str) -> tuple[list[int], str]:
        """The code of the target language that a line may begin with, and the rest."""
        # The escape marks pieces that no text may hold.
        text = without_surrogates(text).replace(ESCAPE, "\ufdd1")
        found = _CODE.match(text) if self._codes else None
        if found is None or found.group() not in self._codes:
            return [], text
        return [self._codes[found.group()]], text[found.end() :]

    def _known(self, ids: Iterable[int]) -> list[int]:
        """Pieces beyond the vocabulary are unknown to the model."""
        size = self.size
        return [number if number < size else UNK for number in ids]

    # --- tokens to text -------------------------------------------------------------------------------------------

    def _finished(self, raw: str, spans: Sequence[Span] = ()) -> tuple[str, list[Span]]:
        text = raw.strip(" ")
        lead = len(raw) - len(raw.lstrip(" "))

        def moved(place: int) -> int:
            return min(max(0, place - lead), len(text))

        return text, [(moved(start), moved(end)) for start, end in spans]

    # --- to other tools -------------------------------------------------------------------------------------------

    def to_tokenizers(self) -> Json:
        """A `tokenizer.json` for the library `tokenizers` itself, with the special pieces under their own names."""
        content = json.loads(self._json)
        if "sentencepiece" in content.pop("regard"):
            raise ModelFolderError(
                "one language has a SentencePiece model and the other has not: no other tool holds both in one folder."
            )
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

    def __repr__(self) -> str:
        return f"<ForeignTokenizer of {self.size} pieces>"


def _engine(content: Json) -> tokenizers.Tokenizer:
    engine = tokenizers.Tokenizer.from_str(json.dumps(content))
    engine.encode_special_tokens = True  # "</s>" in a line is text, not the end of it
    return engine


def _byte(piece: str) -> bytes:
    """The byte of a piece such as <0x0A>."""
    return bytes([int(piece[3:5], 16)])


# --- SentencePiece ------------------------------------------------------------------------------------------------


def _cut_pieces(model: SentencePiece) -> dict[str, float]:
    """The pieces that text may be cut into, and their scores."""
    best = max((piece.score for piece in model.pieces if piece.type == NORMAL), default=0.0)
    scores = {}
    for piece in model.pieces:
        if piece.type == USER_DEFINED:  # SentencePiece's own formula: better than any spelling of it
            scores[piece.text] = len(piece.text.encode()) * best - 0.1
        elif piece.type in (NORMAL, BYTE):
            scores[piece.text] = piece.score
    return scores


def _sentencepiece_content(model: SentencePiece, vocabulary: Sequence[str]) -> Json:
    """A `tokenizer.json` that cuts normalised text as the model does, into the ids of the vocabulary.

    Pieces of the vocabulary that the model does not cut text into are hidden by an escape; pieces of the model that
    the vocabulary lacks follow after its end.
    """
    scores = _cut_pieces(model)
    known = set(vocabulary)
    names = [
        piece if piece in scores and number >= len(SPECIAL_PIECES) else ESCAPE + piece
        for number, piece in enumerate(vocabulary)
    ]
    names += [piece for piece in scores if piece not in known or piece in SPECIAL_PIECES]
    byte_fallback = any(piece.type == BYTE for piece in model.pieces)
    content: Json = {"version": "1.0", "added_tokens": []}
    if model.kind == "unigram":
        scored = [[name, scores.get(name, 0.0)] for name in names]
        return {
            **content,
            "model": {"type": "Unigram", "unk_id": UNK, "byte_fallback": byte_fallback, "vocab": scored},
        }
    numbers = {name: number for number, name in enumerate(names)}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    symbols = [piece.text for piece in model.pieces if piece.type == USER_DEFINED]
    return {
        **content,
        "added_tokens": [{"id": numbers[symbol], "content": symbol, **flags} for symbol in symbols],
        "model": {
            "type": "BPE",
            "unk_token": ESCAPE + SPECIAL_PIECES[UNK],
            "fuse_unk": True,
            "byte_fallback": byte_fallback,
            "vocab": numbers,
            "merges": _merges({piece.text: piece.score for piece in model.pieces if piece.type == NORMAL}),
        },
    }


def _merges(scores: dict[str, float]) -> list[list[str]]:
    """The pairs of pieces that make another one, in the order in which SentencePiece merges them."""
    merges = []
    for piece in sorted(scores, key=lambda piece: -scores[piece]):
        splits = ((piece[:cut], piece[cut:]) for cut in range(1, len(piece)))
        merges += [[left, right] for left, right in splits if left in scores and right in scores]
    return merges


# --- tokenizer.json -----------------------------------------------------------------------------------------------


def _is_ours(content: Json) -> bool:
    """Whether Regard has trained it."""
    steps = (content.get("normalizer") or {}).get("normalizers") or []
    return escaping_steps()[0] in steps


def _renumbered(content: Json) -> Json:
    """The same tokenizer with Regard's special pieces in front in place of its own, under names no text can hold."""
    model = dict(content["model"])
    kind, vocabulary = model.get("type"), model["vocab"]
    if kind not in ("BPE", "Unigram", "WordPiece", "WordLevel"):
        raise DataError(f"its model {kind!r} is none that Regard reads: BPE, Unigram, WordPiece or WordLevel.")
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
    """A step of the tokenizer, or those of a sequence."""
    if step is None:
        return []
    inner = step.get("decoders") or step.get("pretokenizers")
    return [part for each in inner for part in _parts(each)] if inner else [step]


def _is_byte_level(content: Json) -> bool:
    return any(part["type"] == "ByteLevel" for part in _parts(content.get("pre_tokenizer")))


def _surfaces(engine: tokenizers.Tokenizer, pieces: Sequence[str], content: Json) -> list[bytes]:
    """What each piece adds to a decoded line, by the tokenizer's own decoder."""
    steps = {part["type"]: part for part in _parts(content.get("decoder"))}
    if "ByteLevel" in steps:
        alphabet = _byte_alphabet()
        return [
            bytes(alphabet[character] for character in piece) if all(character in alphabet for character in piece)
            # an added token is written as it is
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
            surfaces.append(_byte(piece))
            continue
        both = f"{anchor} {piece}" if decoder is None else decoder.decode([anchor, piece])
        if not both.startswith(anchor):
            raise DataError(f"its decoder {list(steps)} is none that Regard reads.")
        surfaces.append(both.removeprefix(anchor).encode())
    return surfaces


def _byte_alphabet() -> dict[str, int]:
    """The characters that stand for bytes in byte-level tokenizers (GPT-2): themselves where they can be seen."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in seen]
    return {**{chr(byte): byte for byte in seen}, **{chr(256 + place): byte for place, byte in enumerate(hidden)}}
