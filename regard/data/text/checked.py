"""Validation of a `tokenizer.json` before the library `tokenizers` loads it.

The library trusts its files: a step may pad to any length, double a line sixty times, or run a regular expression
with exponential backtracking. A tokenizer trained by Regard must therefore consist of parts that Regard writes
(`check_own`), and a foreign one of parts with bounded cost (`check_foreign`). Panics of the library are caught and
raised as Regard's errors (`guarded`).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from regard.config.vocabulary import SPECIAL_PIECES
from regard.data.text.expressions import is_tame
from regard.data.text.pieces import added_token, closing_eos, decoders, normalizers, splitters
from regard.errors import ModelFolderError
from regard.storage.reading import short

Json = dict[str, Any]
Result = TypeVar("Result")

LONGEST_PIECE = 1024  # characters
MOST_STEPS = 64
MOST_GROWTH = 1000  # maximum expansion of one character by normalisation or decoding
LONGEST_PATTERN = 2000
LONGEST_REPLACEMENT = 256  # in SentencePiece's normalisation rules; the longest of NFKC has 18 characters
MOST_WORD = 10_000  # max_input_chars_per_word; WordPiece takes quadratic time


def guarded(function: Callable[..., Result], *arguments: Any, **named: Any) -> Result:
    """Call `tokenizers` and raise its bare Exceptions and its panics (BaseExceptions) as ModelFolderError."""
    try:
        return function(*arguments, **named)
    except BaseException as error:
        if type(error) is not Exception and type(error).__name__ != "PanicException":
            raise
        raise ModelFolderError(f"the tokenizer fails ({short(error)}): its file is damaged; copy it again.") from None


# --- tokenizers that Regard has trained ---------------------------------------------------------------------------


def check_own(content: Any) -> None:
    """Raise ValueError unless Regard writes every part but the vocabulary."""
    _need(isinstance(content, dict), "no JSON object")
    _need(content.get("truncation") is None and content.get("padding") is None, "truncation or padding")
    special = [added_token(number, piece) for number, piece in enumerate(SPECIAL_PIECES)]
    _need(content.get("added_tokens") == special, "added tokens of its own")
    _need(content.get("post_processor") == closing_eos(), "a post-processor of its own")
    for part, known in (("normalizer", normalizers()), ("pre_tokenizer", splitters()), ("decoder", decoders())):
        _need(content.get(part) in known, f"a {part} of its own")
    model = content.get("model")
    _check_model(model)
    _need(model.get("unk_token", "<unk>") == "<unk>" and model.get("unk_id", 1) == 1, "an unknown piece of its own")
    _need(model.get("continuing_subword_prefix") in (None, "##"), "a prefix of its own")
    _need(not model.get("end_of_word_suffix"), "a suffix of its own")


# --- tokenizers from elsewhere ------------------------------------------------------------------------------------


def check_foreign(content: Any) -> None:
    """Raise ValueError unless every part has bounded cost."""
    _need(isinstance(content, dict), "no JSON object")
    for part in ("truncation", "padding", "post_processor"):
        _need(content.get(part) is None, part)
    added = content.get("added_tokens") or []
    _need(isinstance(added, list), "added_tokens that are no list")
    for token in added:
        _need(isinstance(token, dict), "an added token that is no object")
        _text(token.get("content"), LONGEST_PIECE, "an added token")
    growth = 1
    for step in _steps(content.get("normalizer"), "normalizers"):
        growth *= _growth(step)
        _need(growth <= MOST_GROWTH, f"a normalizer that expands one character to more than {MOST_GROWTH}")
    for step in _steps(content.get("pre_tokenizer"), "pretokenizers"):
        _check_splitter(step)
    growth = 1
    for step in _steps(content.get("decoder"), "decoders"):
        growth *= _check_decoder(step)
        _need(growth <= MOST_GROWTH, f"a decoder that expands one character to more than {MOST_GROWTH}")
    _check_model(content.get("model"))


def check_pieces(vocabulary: Any) -> list[str]:
    """Raise ValueError unless the pieces are distinct, of bounded length, and the special ones come first."""
    _need(isinstance(vocabulary, list), "a vocabulary that is no list")
    for piece in vocabulary:
        _text(piece, LONGEST_PIECE, "a piece")
    _need(len(set(vocabulary)) == len(vocabulary), "a duplicate piece")
    _need(tuple(vocabulary[:4]) == SPECIAL_PIECES, "other special pieces")
    return list(vocabulary)


def check_piece(piece: str, score: float) -> None:
    """Raise ValueError unless the piece has bounded length and a finite score."""
    _text(piece, LONGEST_PIECE, "a piece")
    _need(_is_number(score), "a piece without a score")


def _check_model(model: Any) -> None:
    """Raise ValueError unless ids run from 0 without a gap and merges are pairs of known pieces."""
    _need(isinstance(model, dict), "no model")
    kind, vocabulary = model.get("type"), model.get("vocab")
    if kind == "Unigram":
        _need(isinstance(vocabulary, list), "a vocabulary that is no list")
        for entry in vocabulary:
            _need(isinstance(entry, list) and len(entry) == 2 and _is_number(entry[1]), "a piece without a score")
        pieces = [entry[0] for entry in vocabulary]
        unknown = model.get("unk_id")
        _need(unknown is None or (_is_whole(unknown) and 0 <= unknown < len(pieces)), "an unk_id that is no piece")
    else:
        _need(kind in ("BPE", "WordPiece", "WordLevel"), f"a model of the type {short(Exception(kind))!r}")
        _need(isinstance(vocabulary, dict), "a vocabulary that is no object")
        pieces, numbers = list(vocabulary), list(vocabulary.values())
        _need(all(map(_is_whole, numbers)), "a piece without a number")
        _need(sorted(numbers) == list(range(len(numbers))), "a vocabulary with gaps")
    for piece in pieces:
        _text(piece, LONGEST_PIECE, "a piece")
    _need(len(set(pieces)) == len(pieces) > 0, "a duplicate piece, or no pieces")
    _need(model.get("dropout") is None, "dropout")
    for name in ("unk_token", "continuing_subword_prefix", "end_of_word_suffix"):
        value = model.get(name)
        _need(value is None or (isinstance(value, str) and len(value) <= LONGEST_PIECE), f"{name} that is no text")
    longest = model.get("max_input_chars_per_word", 100)
    _need(_is_whole(longest) and 0 <= longest <= MOST_WORD, "words of any length")


# --- parts --------------------------------------------------------------------------------------------------------


def _growth(step: Json) -> int:
    """The maximum expansion of one character by a normalisation step."""
    kind = step["type"]
    if kind == "Replace":
        return _replaced(step)
    if kind in ("Prepend", "Append"):
        _text(step.get("prepend", step.get("append")), LONGEST_PIECE, kind)
        return 1
    if kind == "Precompiled":
        return _charsmap_growth(step.get("precompiled_charsmap"))
    known = {"NFC": 3, "NFD": 4, "NFKC": 18, "NFKD": 18, "Lowercase": 3, "BertNormalizer": 4, "ByteLevel": 4}
    known |= {"Strip": 1, "StripAccents": 1, "Nmt": 1}
    _need(kind in known, f"a normalizer {kind!r}")
    return known[kind]


def _check_splitter(step: Json) -> None:
    kind = step["type"]
    known = "BertPreTokenizer ByteLevel CharDelimiterSplit Digits Metaspace Punctuation Split UnicodeScripts Whitespace"
    _need(kind in (*known.split(), "WhitespaceSplit"), f"a pre-tokenizer {kind!r}")
    if kind == "Split":
        _pattern(step.get("pattern"))


def _check_decoder(step: Json) -> int:
    kind = step["type"]
    if kind == "Replace":
        return _replaced(step)
    known = ("ByteLevel", "WordPiece", "Metaspace", "BPEDecoder", "CTC", "Fuse", "Strip", "ByteFallback")
    _need(kind in known, f"a decoder {kind!r}")
    for name in ("prefix", "suffix", "content", "pad_token", "word_delimiter_token"):
        _need(len(str(step.get(name, ""))) <= LONGEST_PIECE, f"a decoder's {name} of any length")
    return 1


def _replaced(step: Json) -> int:
    """The maximum expansion of one character by a replacement."""
    content: Any = step.get("content")
    _need(isinstance(content, str) and len(content) <= LONGEST_PIECE, "a replacement that is no short text")
    literal = _pattern(step.get("pattern"))
    # an expression may match the empty string, between any two characters
    return max(1, -(-len(content) // literal)) if literal else 1 + len(content)


def _pattern(pattern: Any) -> int:
    """The length of a literal pattern; 0 for a regular expression, whose backtracking must be bounded."""
    _need(isinstance(pattern, dict) and len(pattern) == 1, "a pattern that is neither text nor expression")
    if "String" in pattern:
        _text(pattern["String"], LONGEST_PATTERN, "a pattern")
        return len(pattern["String"])
    expression = pattern.get("Regex")
    _text(expression, LONGEST_PATTERN, "a pattern")
    _need(is_tame(expression), f"the regular expression {expression[:60]!r}, which may backtrack without bound")
    return 0


def _charsmap_growth(encoded: Any) -> int:
    """The longest replacement in SentencePiece's compiled normalisation rules."""
    _need(isinstance(encoded, str), "rules that are no text")
    try:
        rules = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise ValueError("rules that are no base64") from None
    return check_rules(rules)


def check_rules(rules: bytes) -> int:
    """The length of the longest replacement; ValueError if SentencePiece's compiled rules are inconsistent."""
    if not rules:
        return 1
    size = int.from_bytes(rules[:4], "little")
    _need(len(rules) > 4 and size % 1024 == 0 and 0 < size <= len(rules) - 4, "truncated rules")
    units, texts = np.frombuffer(rules, "<u4", size // 4, 4), rules[4 + size :]
    leaf = units >> 31 == 1
    _need(bool(np.all((units & 0x7FFFFFFF)[leaf] < len(texts))), "rules that point beyond their end")
    # double-array trie (Darts): a lookup reads any of 256 units around a node's offset
    places = np.arange(len(units), dtype=np.uint32) ^ (units >> 10 << ((units & 0x200) >> 6))
    _need(bool(np.all((places[~leaf] | 0xFF) < len(units))), "rules that point beyond their end")
    longest = max(map(len, texts.decode("utf-8").split("\0")))
    _need(longest <= LONGEST_REPLACEMENT, f"rules that replace a character by {longest:,}")
    return max(1, longest)


def _steps(step: Any, inner: str, depth: int = 0) -> Sequence[Json]:
    """The steps of a possibly nested sequence, in order."""
    if step is None:
        return []
    _need(isinstance(step, dict) and isinstance(step.get("type"), str), "a step without a type")
    if step["type"] != "Sequence":
        return [step]
    parts = step.get(inner)
    _need(isinstance(parts, list) and depth < 8, "a sequence without steps")
    found = [each for part in parts for each in _steps(part, inner, depth + 1)]
    _need(len(found) <= MOST_STEPS, f"more than {MOST_STEPS} steps")
    return found


def _text(value: Any, most: int, what: str) -> None:
    _need(isinstance(value, str) and 0 < len(value) <= most, f"{what} that is no text of 1 to {most:,} characters")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e30


def _need(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"it has {what}, which Regard does not read")
