"""Training of each kind of tokenizer as a Hugging Face `tokenizer.json`.

The file is self-contained: normalizer, pre-tokenizer, pieces, the closing `</s>` and the decoder. Three properties are
specific to Regard. Training is deterministic: the same lines give the same file. The marker "▁", special pieces and
byte pieces in plain text round-trip, because they are escaped before segmentation. The vocabulary always begins with
`<pad> <unk> <s> </s>`.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tokenizers

from regard.config.settings import TextSettings
from regard.config.vocabulary import EOS, SPECIAL_PIECES, UNK
from regard.data.text.unigram import train_unigram
from regard.errors import ConfigError, DataError

BYTE_PIECES = tuple(f"<0x{byte:02X}>" for byte in range(256))
MARKER = "▁"  # stands for a space, as in SentencePiece

# A Unicode non-character opens an escape; the character itself is escaped too.
ESCAPE = "\ufdd0"
ESCAPES = {ESCAPE: ESCAPE + "\ufdd1", MARKER: ESCAPE + "\ufdd2", "<": ESCAPE + "\ufdd3"}
TAG = ESCAPE + "<BT>"  # the tag of back-translated sources; no text is encoded to it, because it is no escape
LOOKS_SPECIAL = r"<(?=/?s>|pad>|unk>|0x[0-9A-F]{2}>)"

# The white-space characters of str.split(), which defines words everywhere.
WHITE_SPACE = r"\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"

# No piece crosses the boundary of a word, a number or punctuation; an apostrophe stays with the letters before it.
CHUNKS = "|".join(
    (
        rf"{MARKER}?[\p{{L}}\p{{M}}]+['’]?",
        rf"{MARKER}?\p{{N}}+",
        rf"{MARKER}?[^\p{{L}}\p{{M}}\p{{N}}{MARKER}{WHITE_SPACE}]+",
        rf"[{MARKER}{WHITE_SPACE}]",
    )
)

# More lines cost time and memory for little: with 42,000 short lines instead of 166,000 (Tatoeba, German, 8,000
# pieces), unseen text had 0.6 % more pieces.
SAMPLED_LINES = 250_000

Json = dict[str, Any]


def train_pieces(lines: Iterable[str], settings: TextSettings, size: int, tagged: bool = False) -> Json:
    """Train a tokenizer with at most `size` pieces, the tag of back-translated text among them; `tokenizer.json`."""
    reserved = (*SPECIAL_PIECES, TAG) if tagged else SPECIAL_PIECES
    sample = sample_lines(lines)
    if not sample:
        raise DataError("No text to learn a vocabulary from: every line is blank. Check the training files.")
    kind = settings.tokenizer
    if kind == "word":
        model, decoder = _word_model(sample, settings, size, reserved), _joined_decoder(" ")
    elif kind == "character":
        model, decoder = _character_model(sample, settings, size, reserved), _joined_decoder("")
    elif kind == "wordpiece":
        model, decoder = _wordpiece_model(sample, settings, size, reserved), _wordpiece_decoder()
    else:
        model, decoder = _subword_model(sample, settings, size, reserved), _subword_decoder()
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [added_token(number, piece) for number, piece in enumerate(SPECIAL_PIECES)],
        "normalizer": _normalizer(kind, settings.lowercase),
        "pre_tokenizer": _splitter(kind),
        "post_processor": closing_eos(),
        "decoder": decoder,
        "model": model,
    }


def sample_lines(lines: Iterable[str], limit: int = SAMPLED_LINES) -> list[str]:
    """The non-blank lines, or a deterministic, evenly spaced sample of `limit` lines."""
    chooser = random.Random(0)
    kept: list[str] = []
    seen = 0
    for line in lines:
        if not line.strip():
            continue
        seen += 1
        if len(kept) < limit:
            kept.append(without_surrogates(line))
            continue
        place = chooser.randrange(seen)
        if place < limit:
            kept[place] = without_surrogates(line)
    return kept


def without_surrogates(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode, by U+FFFD; anything but text raises."""
    if not isinstance(text, str):
        raise DataError(f"{type(text).__name__} is not text: give a line, of type str.")
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)
    return text


# --- the models ---------------------------------------------------------------------------------------------------


def _subword_model(sample: list[str], settings: TextSettings, size: int, reserved: Sequence[str]) -> Json:
    """A BPE or unigram model; with byte fallback the byte pieces come first."""
    reserved = [*reserved, *(BYTE_PIECES if settings.byte_fallback else ())]
    room = _room(size, len(reserved), settings)
    # With byte fallback the alphabet takes at most half of the vocabulary; rarer characters are spelt in bytes.
    alphabet = _alphabet(sample, settings, max(1, room // 2 if settings.byte_fallback else room))
    if settings.tokenizer == "bpe":
        trained = _train_bpe(sample, settings, alphabet, room)
        vocabulary = [*reserved, *(piece for piece in trained["vocab"] if piece not in SPECIAL_PIECES)]
        return {
            **trained,
            "byte_fallback": settings.byte_fallback,
            "vocab": {piece: number for number, piece in enumerate(vocabulary)},
        }
    # BPE proposes three times as many candidates as needed; the unigram model prunes them
    proposed = _train_bpe(sample, settings, alphabet, 3 * room)["vocab"]
    candidates = [piece for piece in proposed if piece not in SPECIAL_PIECES]
    scored = train_unigram(_chunk_counts(sample, settings), candidates, room)
    return {
        "type": "Unigram",
        "unk_id": UNK,
        "byte_fallback": settings.byte_fallback,
        "vocab": [*([piece, 0.0] for piece in reserved), *([piece, score] for piece, score in scored)],
    }


def _wordpiece_model(sample: list[str], settings: TextSettings, size: int, reserved: Sequence[str]) -> Json:
    """A WordPiece model: word-initial pieces and `##` continuations, segmented by longest match.

    BPE learns the pieces, because the WordPiece trainer of `tokenizers` is not deterministic.
    """
    room = _room(size, len(reserved), settings)
    alphabet = _alphabet(sample, settings, max(1, room // 3))  # each character may be initial or a continuation
    pieces = [piece for piece in _train_bpe(sample, settings, alphabet, room)["vocab"] if piece not in SPECIAL_PIECES]
    names = [*(name for c in alphabet if c != MARKER for name in (c, "##" + c))]
    names += [piece[1:] if piece.startswith(MARKER) else "##" + piece for piece in pieces if piece != MARKER]
    vocabulary = [*reserved, *list(dict.fromkeys(names))[:room]]
    return {
        "type": "WordPiece",
        "unk_token": "<unk>",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": {piece: number for number, piece in enumerate(vocabulary)},
    }


def _word_model(sample: list[str], settings: TextSettings, size: int, reserved: Sequence[str]) -> Json:
    """A model of the most frequent white-space words."""
    counts: Counter[str] = Counter()
    for line in sample:
        counts.update(escape(line.lower() if settings.lowercase else line).split())
    return _word_level(counts, settings, size, reserved)


def _character_model(sample: list[str], settings: TextSettings, size: int, reserved: Sequence[str]) -> Json:
    """A model of the most frequent characters; the marker stands for a space."""
    return _word_level(_character_counts(sample, settings), settings, size, reserved)


def _word_level(counts: Mapping[str, int], settings: TextSettings, size: int, reserved: Sequence[str]) -> Json:
    room = _room(size, len(reserved), settings)
    frequent = [entry for entry in _by_frequency(counts) if counts[entry] >= settings.min_frequency]
    if not frequent:
        raise ConfigError(
            f"text.min_frequency = {settings.min_frequency}: nothing in the text is that frequent. "
            "Set text.min_frequency=1, or give more text."
        )
    vocabulary = [*reserved, *frequent[:room]]
    return {
        "type": "WordLevel",
        "unk_token": "<unk>",
        "vocab": {piece: number for number, piece in enumerate(vocabulary)},
    }


def _room(size: int, reserved: int, settings: TextSettings) -> int:
    """The number of pieces to learn besides the reserved ones."""
    if size <= reserved:
        remedy = f"Set it to {reserved + 100} or more"
        if reserved > len(SPECIAL_PIECES) + 1:
            remedy += ", or set text.byte_fallback=false"
        raise ConfigError(f"text.vocabulary_size = {size}: the special and byte pieces alone are {reserved}. {remedy}.")
    return size - reserved


# --- counting and merging -----------------------------------------------------------------------------------------


def _by_frequency(counts: Mapping[str, int]) -> list[str]:
    """The keys by descending frequency; ties are sorted by text, which is deterministic."""
    return sorted(counts, key=lambda entry: (-counts[entry], entry))


def _character_counts(sample: list[str], settings: TextSettings) -> Counter[str]:
    """The count of each character after normalisation; the marker stands for a space."""
    words: Counter[str] = Counter()
    for line in sample:
        words.update(line.split(" "))
    raw: Counter[str] = Counter({" ": sum(words.values()) - len(sample)})
    for word, count in words.items():
        for character in word:
            raw[character] += count
    counts: Counter[str] = Counter()
    for character, count in raw.items():
        if character in (MARKER, ESCAPE) or not count:
            continue  # such text is escaped
        for normal in character.lower() if settings.lowercase else character:
            counts[MARKER if normal == " " else normal] += count
    return counts


def _alphabet(sample: list[str], settings: TextSettings, limit: int) -> list[str]:
    """The marker and the most frequent characters, which become pieces."""
    counts = _character_counts(sample, settings)
    frequent = [character for character in _by_frequency(counts) if counts[character] >= settings.min_frequency]
    return [MARKER, *(character for character in frequent if character != MARKER)][:limit]


def _train_bpe(sample: list[str], settings: TextSettings, alphabet: Sequence[str], room: int) -> Json:
    """The BPE model in JSON: special pieces, alphabet, merges."""
    scratch = _scratch(settings)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=room + len(SPECIAL_PIECES),
        min_frequency=settings.min_frequency,
        show_progress=False,
        special_tokens=list(SPECIAL_PIECES),
        # the limit equals the given alphabet: the trainer would otherwise break ties by hash
        initial_alphabet=list(alphabet),
        limit_alphabet=len(alphabet),
    )
    scratch.train_from_iterator(sample, trainer)
    model: Json = json.loads(scratch.to_str())["model"]
    return model


def _chunk_counts(sample: list[str], settings: TextSettings) -> Counter[str]:
    """The count of each pre-token; no piece crosses its boundary."""
    scratch = _scratch(settings)
    counts: Counter[str] = Counter()
    normalizer, splitter = scratch.normalizer, scratch.pre_tokenizer
    assert normalizer is not None
    assert splitter is not None
    words: Counter[str] = Counter()
    for line in sample:
        words.update(line.split(" "))
    for word, count in words.items():
        for chunk, _ in splitter.pre_tokenize_str(normalizer.normalize_str(word)):
            counts[chunk] += count
    return counts


def _scratch(settings: TextSettings) -> tokenizers.Tokenizer:
    """An untrained BPE tokenizer with the normalizer and the pre-tokenizer of the trained one."""
    scratch: Json = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": _normalizer("bpe", settings.lowercase),
        "pre_tokenizer": _splitter("bpe"),
        "post_processor": None,
        "decoder": None,
        "model": {"type": "BPE", "unk_token": "<unk>", "vocab": {}, "merges": []},
    }
    return tokenizers.Tokenizer.from_str(json.dumps(scratch))


# --- the parts of tokenizer.json ----------------------------------------------------------------------------------


def added_token(number: int, piece: str) -> Json:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": number, "content": piece, **flags}


def _replace(pattern: Mapping[str, str], content: str) -> Json:
    return {"type": "Replace", "pattern": dict(pattern), "content": content}


def _normalizer(kind: str, lowercase: bool) -> Json:
    """Lowercasing, escaping, and spaces replaced by the marker."""
    steps: list[Json] = [{"type": "Lowercase"}] if lowercase else []
    steps += escaping_steps()
    if kind in ("bpe", "unigram", "character"):
        steps.append(_replace({"String": " "}, MARKER))
    if kind in ("bpe", "unigram"):
        steps.append({"type": "Prepend", "prepend": MARKER})  # the first word is segmented like any other
    return {"type": "Sequence", "normalizers": steps}


def escaping_steps() -> list[Json]:
    """The escaping normalisation steps; a text without "▁", "<" and the escape character may skip them."""
    return [
        _replace({"String": ESCAPE}, ESCAPES[ESCAPE]),
        _replace({"String": MARKER}, ESCAPES[MARKER]),
        _replace({"Regex": LOOKS_SPECIAL}, ESCAPES["<"]),
    ]


def escape(text: str) -> str:
    """Apply the escaping steps to a text."""
    text = text.replace(ESCAPE, ESCAPES[ESCAPE]).replace(MARKER, ESCAPES[MARKER])
    return re.sub(LOOKS_SPECIAL, ESCAPES["<"], text)


def _splitter(kind: str) -> Json:
    if kind in ("bpe", "unigram"):
        pattern, behavior = CHUNKS, "Isolated"
    elif kind == "character":
        pattern, behavior = r"[\s\S]", "Isolated"
    else:
        pattern, behavior = f"[{WHITE_SPACE}]+", "Removed"
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": False}


def closing_eos() -> Json:
    sequence = {"Sequence": {"id": "A", "type_id": 0}}
    eos = {"SpecialToken": {"id": "</s>", "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [sequence, eos],
        "pair": [sequence, eos, {"Sequence": {"id": "B", "type_id": 1}}, eos],
        "special_tokens": {"</s>": {"id": "</s>", "ids": [EOS], "tokens": ["</s>"]}},
    }


def normalizers() -> list[Json]:
    """Every normalizer that Regard writes."""
    return [_normalizer(kind, lowercase) for kind in ("bpe", "character", "word") for lowercase in (False, True)]


def splitters() -> list[Json]:
    """Every pre-tokenizer that Regard writes."""
    return [_splitter(kind) for kind in ("bpe", "character", "word")]


def decoders() -> list[Json]:
    """Every decoder that Regard writes."""
    return [_subword_decoder(), _joined_decoder(" "), _joined_decoder(""), _wordpiece_decoder()]


def _unescape() -> list[Json]:
    return [
        _replace({"String": ESCAPES["<"]}, "<"),
        _replace({"String": ESCAPES[MARKER]}, MARKER),
        _replace({"String": ESCAPES[ESCAPE]}, ESCAPE),
    ]


def _subword_decoder() -> Json:
    steps: list[Json] = [
        _replace({"String": MARKER}, " "),
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ]
    return {"type": "Sequence", "decoders": [*steps, *_unescape()]}


def _joined_decoder(between: str) -> Json:
    """The decoder that joins words by spaces, or characters directly."""
    if between:
        steps: list[Json] = [
            {"type": "WordPiece", "prefix": ESCAPE, "cleanup": False},  # joins by spaces; no word has this prefix
            {"type": "Fuse"},
        ]
    else:
        steps = [_replace({"String": MARKER}, " "), {"type": "Fuse"}]
    return {"type": "Sequence", "decoders": [*steps, *_unescape()]}


def _wordpiece_decoder() -> Json:
    steps: list[Json] = [{"type": "WordPiece", "prefix": "##", "cleanup": False}, {"type": "Fuse"}]
    return {"type": "Sequence", "decoders": [*steps, *_unescape()]}
