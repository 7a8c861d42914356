"""Tokenizers: exact round trips, word indices, determinism, and clear refusals."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st

from regard.config.settings import TextSettings
from regard.config.vocabulary import BOS, EOS, PAD, UNK
from regard.data.text.pieces import sample_lines
from regard.data.text.tokenizer import Tokenizer
from regard.errors import ConfigError, DataError, ModelFolderError

LINES = [
    "The quick brown fox jumps over the lazy dog.",
    "The dog, quick as ever, jumps over 12 foxes and 345 dogs!",
    "L'homme qui n'est pas là n'était pas ici hier.",
    "나는 학교에 갑니다. 그는 학교에 가지 않습니다.",
    "Der schnelle braune Fuchs springt über den faulen Hund.",
] * 3
KINDS = ("bpe", "unigram", "wordpiece", "word", "character")
AWKWARD = [
    "",
    " ",
    "  two  spaces ",
    "tab\tand\u00a0no-break\u3000wide",
    "\x1cseparators\x1f\x85x",
    "literal </s> <s> <pad> <unk> <0x41> <0xZZ>",
    "▁ marker▁inside ▁▁",
    "\ufdd0 \ufdd0\ufdd1\ufdd0\ufdd2▁\ufdd3<\ufdd0",
    "emoji 🙂👩‍👩‍👧 and 한국어",
    "שלום עולם مرحبا",
    "nul\x00 bell\x07",
    "line\nbreak\r\n",
]


def make(kind: str, size: int = 420, **options: bool | int) -> Tokenizer:
    return Tokenizer.train(LINES, TextSettings.model_validate({"tokenizer": kind, "vocabulary_size": size, **options}))


TOKENIZERS = {kind: make(kind) for kind in KINDS}
EXACT = ("bpe", "unigram")


@pytest.mark.parametrize("kind", EXACT)
@pytest.mark.parametrize("line", AWKWARD)
def test_round_trip_of_awkward_lines_is_exact_also_for_plain_hugging_face(kind: str, line: str) -> None:
    tokenizer = TOKENIZERS[kind]
    ids = tokenizer.encode(line)
    assert tokenizer.decode(ids) == line
    assert UNK not in ids
    assert ids.count(EOS) == 1
    assert tokenizers.Tokenizer.from_str(tokenizer.to_json()).decode(ids) == line


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from(EXACT))
@example("<0x41>", "unigram")
def test_round_trip_is_exact_for_any_text(line: str, kind: str) -> None:
    tokenizer = TOKENIZERS[kind]
    ids = tokenizer.encode(line)
    assert tokenizer.decode(ids) == line
    assert tokenizer.encode_many([line, "x"])[0] == ids


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("ab c\t\x1c\u3000é한🙂▁<s>0x41\ufdd0\ud800")), st.sampled_from(KINDS))
def test_tokens_point_into_the_line_and_to_its_words(line: str, kind: str) -> None:
    tokenizer = TOKENIZERS[kind]
    tokens = tokenizer.tokens(line)
    assert [token.id for token in tokens] == tokenizer.encode(line)
    assert (tokens[-1].id, tokens[-1].text, tokens[-1].word) == (EOS, "</s>", None)
    words = line.split()
    for token in tokens[:-1]:
        covered = line[token.start : token.end].strip()
        if covered:
            assert token.word is not None
            assert covered in words[token.word]
    assert {token.word for token in tokens} - {None} == set(range(len(words)))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, 359), max_size=12), st.sampled_from(EXACT))
def test_decoded_tokens_agree_with_decode_for_any_ids(ids: list[int], kind: str) -> None:
    tokenizer = TOKENIZERS[kind]
    ids = [number % tokenizer.size for number in ids]
    text = tokenizer.decode(ids)
    words = text.split()
    tokens = tokenizer.decoded_tokens(ids)
    assert [token.id for token in tokens] == ids
    for token in tokens:
        assert 0 <= token.start <= token.end <= len(text)
        if token.id in (PAD, BOS, EOS):
            assert token.word is None
        elif text[token.start : token.end].strip():
            assert token.word is not None
            assert text[token.start : token.end].split()[0] in words[token.word]
    assert {token.word for token in tokens} - {None} == set(range(len(words)))


@pytest.mark.parametrize("kind", KINDS)
def test_known_text_round_trips_in_every_kind(kind: str) -> None:
    tokenizer = TOKENIZERS[kind]
    assert tuple(tokenizer.piece(number) for number in range(4)) == ("<pad>", "<unk>", "<s>", "</s>")
    for line in LINES[:5]:
        ids = tokenizer.encode(line)
        assert UNK not in ids
        assert tokenizer.decode([BOS, *ids, PAD]) == line
        assert tokenizers.Tokenizer.from_str(tokenizer.to_json()).decode(ids) == line


@pytest.mark.parametrize("kind", ["wordpiece", "word"])
def test_an_unknown_word_is_visible_and_replaceable(kind: str) -> None:
    tokenizer = TOKENIZERS[kind]
    ids = tokenizer.encode("The 猫 jumps")
    assert ids.count(UNK) == 1
    assert tokenizer.decode(ids) == "The <unk> jumps"
    assert tokenizer.decode(ids, unknown=["cat"]) == "The cat jumps"
    assert [token.word for token in tokenizer.decoded_tokens(ids, unknown=["cat"])] == [0, 1, 2, None]


def test_tokens_of_one_sentence_are_as_expected() -> None:
    tokenizer = TOKENIZERS["bpe"]
    tokens = tokenizer.tokens("The dog,  foxé 🙂")
    assert [(token.text, token.word) for token in tokens[:3]] == [("The", 0), ("dog", 1), (",", 1)]
    assert [token.word for token in tokens if token.text == "🙂"] == [3] * 4
    assert tokens[0].start == 0
    assert (tokens[1].start, tokens[1].end) == (4, 7)


def test_lone_surrogates_become_the_replacement_character() -> None:
    tokenizer = TOKENIZERS["bpe"]
    assert tokenizer.decode(tokenizer.encode("a\ud800b")) == "a\ufffdb"


def test_bytes_that_make_no_character_do_not_break_decoding() -> None:
    tokenizer = TOKENIZERS["bpe"]
    first = 4 + 0xF0
    ids = [tokenizer.encode("The")[0], first, EOS]
    assert tokenizer.decode(ids) == "The\ufffd"
    assert [token.word for token in tokenizer.decoded_tokens(ids)] == [0, 0, None]


@pytest.mark.parametrize("kind", KINDS)
def test_lowercase(kind: str) -> None:
    tokenizer = make(kind, lowercase=True)
    assert tokenizer.encode("THE DOG") == tokenizer.encode("the dog")
    assert tokenizer.decode(tokenizer.encode("The quick")) == "the quick"
    assert [token.text for token in tokenizer.tokens("The quick")][-2:] != []
    assert tokenizer.tokens("The Quick")[0].text[0] == "T"


def test_word_pieces_respect_min_frequency_and_size() -> None:
    lines = ["common common common rare", "often often"]
    tokenizer = Tokenizer.train(lines, TextSettings(tokenizer="word", min_frequency=2), size=5)
    assert [tokenizer.piece(number) for number in range(tokenizer.size)][4:] == ["common"]
    with pytest.raises(ConfigError, match="min_frequency"):
        Tokenizer.train(["a b c"], TextSettings(tokenizer="word", min_frequency=2))


@pytest.mark.parametrize("kind", KINDS)
def test_the_vocabulary_never_exceeds_the_size_and_a_large_alphabet_is_limited(kind: str) -> None:
    lines = ["".join(chr(0xAC00 + 37 * line + step) for step in range(30)) for line in range(100)] * 2
    tokenizer = Tokenizer.train(lines, TextSettings(tokenizer=kind, vocabulary_size=500))  # type: ignore[arg-type]
    assert tokenizer.size <= 500
    if kind in EXACT:
        assert tokenizer.decode(tokenizer.encode(lines[7])) == lines[7]


def test_a_vocabulary_without_room_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"vocabulary_size = 100.*byte_fallback=false"):
        make("bpe", size=100)
    assert make("bpe", size=100, byte_fallback=False).size == 100


def test_blank_text_is_refused() -> None:
    with pytest.raises(DataError, match="blank"):
        Tokenizer.train(["", "  "], TextSettings())


PROGRAM = """
import sys, hashlib
from regard.config.settings import TextSettings
from regard.data.text.tokenizer import Tokenizer
lines = [f"{a}{b} {b}{c}x {c}{a}yz" for a in "abcdefgh" for b in "ijklmnop" for c in "qrstuvwx"]
for kind in sys.argv[1:]:
    text = Tokenizer.train(lines, TextSettings(tokenizer=kind, vocabulary_size=330)).to_json()
    print(kind, hashlib.sha256(text.encode()).hexdigest())
"""


def test_training_is_the_same_in_every_process() -> None:
    # many ties on purpose: a hash table's order would show
    command = [sys.executable, "-c", PROGRAM, *KINDS]
    runs = {subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)}
    assert len(runs) == 1
    assert runs.pop().count("\n") == len(KINDS)


def test_a_sample_of_lines_is_even_and_repeatable() -> None:
    lines = [str(number) for number in range(10_000)]
    sample = sample_lines(lines, limit=1000)
    assert sample == sample_lines(iter(lines), limit=1000)
    assert len(set(sample)) == 1000
    assert 4000 < sum(map(int, sample)) / 1000 < 6000


def test_save_and_load(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    for kind in KINDS:
        tokenizer = TOKENIZERS[kind]
        tokenizer.save(path)
        assert Tokenizer.load(path) == tokenizer
        outside = tokenizers.Tokenizer.from_file(str(path))
        assert outside.encode(LINES[0]).ids == tokenizer.encode(LINES[0])


def test_damaged_tokenizers_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    with pytest.raises(ModelFolderError, match=r"tokenizer\.json"):
        Tokenizer.load(path)
    path.write_text(TOKENIZERS["bpe"].to_json()[:1000], encoding="utf-8")
    with pytest.raises(ModelFolderError, match=r"tokenizer\.json"):
        Tokenizer.load(path)
    content = json.loads(TOKENIZERS["word"].to_json())
    content["model"]["vocab"] = {"a": 0, "<unk>": 1, "b": 2, "c": 3}
    with pytest.raises(ModelFolderError, match="first pieces"):
        Tokenizer.from_json(json.dumps(content))


def test_very_long_lines_pass() -> None:
    line = "word " * 5000 + "x" * 20_000
    for kind in EXACT:
        assert TOKENIZERS[kind].decode(TOKENIZERS[kind].encode(line)) == line
