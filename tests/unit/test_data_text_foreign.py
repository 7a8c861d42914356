"""Tokenizers trained elsewhere cut and join text exactly as their own tools do."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from regard.config.vocabulary import EOS, UNK
from regard.data.text.foreign import read_tokenizer_file
from regard.data.text.sentencepiece import SentencePieceTokenizer
from regard.data.text.tokenizer import Tokenizer
from regard.data.text.vectors import read_vectors, write_vectors
from regard.data.toy import toy_corpus
from regard.errors import ConfigError, DataError

LINES = [line for pair in toy_corpus("phrases", "en-de").generate("train", 300) for line in (pair.source, pair.target)]
LINES.append("ﬁne ½ e\u0301 日本語 カ゛ ①")

SENTENCEPIECE: dict[str, dict[str, Any]] = {
    "unigram": {"vocab_size": 250},
    "bpe": {"vocab_size": 200, "model_type": "bpe", "user_defined_symbols": ["<2de>", "ab c"]},
    "bytes": {"vocab_size": 500, "byte_fallback": True},
    "folded, with symbols": {
        "vocab_size": 250,
        "normalization_rule_name": "nmt_nfkc_cf",
        "user_defined_symbols": ["<2de>", "ab c"],
    },
    "characters": {"vocab_size": 100, "model_type": "char", "hard_vocab_limit": False},
    "words": {"vocab_size": 100, "model_type": "word"},
    "space after": {"vocab_size": 250, "treat_whitespace_as_suffix": True},
    "as it is": {
        "vocab_size": 250,
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "add_dummy_prefix": False,
    },
}
# letters of the text, and what normalisation changes: ligatures, combining marks, jamo, odd spaces, markers
ODD = "aeH kgs  .,éüßÄ①½ﬁ가각e\u0301\u0308\u093f日カ゛ｶﾞ▁\t\u3000\u00a0\u200b\U0001f600\u1100\u1161\u11a8Å<s>"
odd_lines = st.one_of(
    st.text(ODD, max_size=20), st.sampled_from(LINES), st.text(max_size=8), st.just("ab c <2de> ab <2de>x")
)


def train_sentencepiece(**options: Any) -> bytes:
    sentencepiece = pytest.importorskip("sentencepiece", reason="needs the extra dev")
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=written, minloglevel=2, num_threads=1, **options
    )
    return written.getvalue()


@pytest.fixture(scope="module", params=SENTENCEPIECE)
def both(request: pytest.FixtureRequest) -> tuple[Any, SentencePieceTokenizer]:
    """SentencePiece's own processor, and ours of the same model."""
    model = train_sentencepiece(**SENTENCEPIECE[request.param])
    import sentencepiece

    return sentencepiece.SentencePieceProcessor(model_proto=model), SentencePieceTokenizer(model, "test")


@given(line=odd_lines)
@settings(max_examples=100)
def test_sentencepiece_is_exact(both: tuple[Any, SentencePieceTokenizer], line: str) -> None:
    theirs, ours = both
    known = {ours.piece(number): number for number in range(4, ours.size)}
    ids = ours.encode(line)
    assert ids == [*(known.get(piece, UNK) for piece in theirs.encode(line, out_type=str)), EOS]
    if UNK not in ids:
        assert ours.decode(ids) == theirs.decode(theirs.encode(line)).strip(" ")
    tokens = ours.tokens(line)
    assert [token.id for token in tokens] == ids
    assert all(token.word is None or token.word < len(line.split()) for token in tokens)
    assert [token.id for token in ours.decoded_tokens(ids)] == ids


def test_pieces_belong_to_the_words_of_the_line_as_given() -> None:
    tokenizer = SentencePieceTokenizer(train_sentencepiece(vocab_size=250), "test")
    words: dict[int, str] = {}
    for token in tokenizer.tokens("  Das  ﬁne\u3000Haus"):
        if token.word is not None:
            words[token.word] = words.get(token.word, "") + "+"
    assert set(words) == {0, 1, 2}


def test_a_vocabulary_of_its_own_makes_other_pieces_unknown_and_survives_the_disk(tmp_path: Path) -> None:
    model = train_sentencepiece(vocab_size=250)
    plain = SentencePieceTokenizer(model, "test")
    first = plain.encode("Das Haus")[0]
    pieces = [plain.piece(number) for number in range(plain.size) if number != first]
    ours = SentencePieceTokenizer(model, "test", [*pieces, ">>de<<", "▁strange"])
    assert ours.encode("Das Haus")[0] == UNK
    assert len(ours.encode("Das Haus")) == len(plain.encode("Das Haus"))
    assert ours.piece(ours.encode(">>de<< Das")[0]) == ">>de<<"
    assert ours.decode(ours.encode(">>xx<< Das")).startswith(">>") or UNK in ours.encode(">>xx<< Das")
    assert "▁strange" not in [ours.piece(number) for number in ours.encode("strange")]  # not cut so by the model
    ours.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json") == ours
    assert isinstance(Tokenizer.load(tmp_path / "tokenizer.json"), SentencePieceTokenizer)


def test_each_byte_piece_has_its_own_character() -> None:
    tokenizer = SentencePieceTokenizer(train_sentencepiece(**SENTENCEPIECE["bytes"]), "test")
    tokens = tokenizer.tokens("ﬁne >Ж\U0001f600")  # not its own decoding, because ﬁ is normalised
    assert [token.text for token in tokens][-8:] == [">", "Ж", "Ж", *["\U0001f600"] * 4, "</s>"]


def test_a_missing_package_is_one_line_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = SentencePieceTokenizer(train_sentencepiece(vocab_size=250), "test")
    tokenizer.save(tmp_path / "tokenizer.json")
    (tmp_path / "a.model").write_bytes(tokenizer.model)
    for module, package in (("sentencepiece", "sentencepiece"), ("sentencepiece.sentencepiece_model_pb2", "protobuf")):
        with monkeypatch.context() as patch:
            if package == "protobuf":
                patch.delitem(sys.modules, module)
                patch.delattr("sentencepiece.sentencepiece_model_pb2")
                patch.setitem(sys.modules, "google.protobuf", None)
            else:
                patch.setitem(sys.modules, module, None)
            for read in (Tokenizer.load, read_tokenizer_file):
                for name in ("tokenizer.json", "a.model") if read is read_tokenizer_file else ("tokenizer.json",):
                    with pytest.raises(ConfigError, match=rf"{package}: pip install 'regard\[interop\]'"):
                        read(tmp_path / name)


# --- tokenizers ---------------------------------------------------------------------------------------------------


def byte_level() -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=True), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        LINES, trainers.BpeTrainer(vocab_size=400, special_tokens=["<end>"], initial_alphabet=alphabet)
    )
    return made


def wordpiece() -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(lowercase=False), pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    made.train_from_iterator(LINES, trainers.WordPieceTrainer(vocab_size=300, special_tokens=special))
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    made.enable_truncation(5)
    made.enable_padding()
    return made


def unigram() -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(models.Unigram())
    made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    made.train_from_iterator(
        LINES, trainers.UnigramTrainer(vocab_size=300, special_tokens=special, unk_token="<unk>", show_progress=False)
    )
    return made


def words() -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(models.WordLevel(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.train_from_iterator(LINES, trainers.WordLevelTrainer(vocab_size=100, special_tokens=["<unk>", "<s>"]))
    return made


def suffixed() -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    made.pre_tokenizer, made.decoder = pre_tokenizers.Whitespace(), decoders.BPEDecoder()
    made.train_from_iterator(
        LINES, trainers.BpeTrainer(vocab_size=300, special_tokens=["<unk>"], end_of_word_suffix="</w>")
    )
    made.add_tokens(["<2de>"])
    return made


@pytest.mark.parametrize("make", [byte_level, wordpiece, unigram, words, suffixed])
def test_a_tokenizer_json_is_cut_and_joined_as_by_its_library(make: Any, tmp_path: Path) -> None:
    theirs = make()
    theirs.save(str(tmp_path / "theirs.json"))
    ours = read_tokenizer_file(tmp_path / "theirs.json")
    theirs.no_truncation()
    theirs.no_padding()
    for line in [*LINES[:60], " leading", "two  spaces", "Hello <2de> 日本 ü!"]:
        encoding = theirs.encode(line, add_special_tokens=False)
        pieces = [ours.piece(number) for number in ours.encode(line)]
        assert pieces[-1] == "</s>"
        expected = ["<unk>" if piece in ("[UNK]", "<unk>") else piece for piece in encoding.tokens]
        if "<unk>" not in pieces:
            assert pieces[:-1] == expected
        text = theirs.decode(encoding.ids, skip_special_tokens=False).strip(" ").replace("[UNK]", "<unk>")
        if pieces[:-1] == expected:  # a Unigram model of theirs names an unknown piece by its text
            assert ours.decode(ours.encode(line)) == text
        assert len(ours.tokens(line)) == len(pieces)
    assert ours.says_unknown == (make is not byte_level)
    again = Tokenizer.from_json(ours.to_json())
    assert again == ours
    exported = tokenizers.Tokenizer.from_str(json.dumps(ours.to_tokenizers()))
    assert exported.encode(LINES[0]).ids == ours.encode(LINES[0])
    text = exported.decode(ours.encode(LINES[0])[:-1], skip_special_tokens=False)
    assert text.strip() == ours.decode(ours.encode(LINES[0]))


def test_special_pieces_in_a_line_are_text(tmp_path: Path) -> None:
    words().save(str(tmp_path / "words.json"))
    tokenizer = read_tokenizer_file(tmp_path / "words.json")
    assert tokenizer.encode("<s> </s> <pad>") == [UNK, UNK, UNK, EOS]


def test_word_vectors_find_the_pieces_that_are_words(tmp_path: Path) -> None:
    tokenizer = SentencePieceTokenizer(train_sentencepiece(vocab_size=250), "test")
    import numpy as np

    matrix = np.arange(tokenizer.size * 2, dtype=np.float32).reshape(-1, 2)
    count = write_vectors(tmp_path / "vectors.txt", tokenizer, matrix)
    rows, found = read_vectors(tmp_path / "vectors.txt", tokenizer, 2)
    assert count == found > 10
    assert all((matrix[piece] == vector).all() for piece, vector in rows.items())


# --- bad input ----------------------------------------------------------------------------------------------------


def test_what_is_no_tokenizer_is_one_line(tmp_path: Path) -> None:
    model = train_sentencepiece(vocab_size=250)
    from sentencepiece.sentencepiece_model_pb2 import ModelProto

    denormalised = ModelProto.FromString(model)
    denormalised.denormalizer_spec.precompiled_charsmap = denormalised.normalizer_spec.precompiled_charsmap
    files = {
        "denormalised.model": (denormalised.SerializeToString(), "has denormalisation rules"),
        "bytes.model": (model.replace("▁".encode(), b"\xff\xff\xff"), "not a SentencePiece model, or damaged"),
        "cut.model": (model[: len(model) // 2], "not a SentencePiece model, or damaged"),
        "text.model": (b"The quick brown fox\n" * 10, "not a SentencePiece model"),
        "empty.model": (b"", "it has no pieces"),
        "broken.json": (b'{"model": ', "not a supported tokenizer"),
        "other.json": (b'{"a": 1}', "not a supported tokenizer"),
    }
    for name, (content, reason) in files.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=reason) as caught:
            read_tokenizer_file(tmp_path / name)
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match="cannot be read"):
        read_tokenizer_file(tmp_path / "nothing.model")


def test_the_model_file_is_kept_byte_by_byte() -> None:
    model = train_sentencepiece(vocab_size=250)
    tokenizer = SentencePieceTokenizer(model, "test")
    assert tokenizer.model == model
    assert tokenizer.kind == "unigram"
    again = Tokenizer.from_json(tokenizer.to_json())
    assert isinstance(again, SentencePieceTokenizer)
    assert again.model == model
