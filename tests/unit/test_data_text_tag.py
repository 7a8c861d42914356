"""The tag of back-translated sources: one reserved piece, which no text is encoded to."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.config.settings import TextSettings
from regard.data.text.build import build_corpus
from regard.data.text.pieces import TAG
from regard.data.text.sources import BackTranslated, Mix, Tokenizers, open_text
from regard.data.text.tokenizer import Tokenizer
from regard.errors import ConfigError
from regard.training.begun import check_tag

LINES = ["the cat sat", "a <BT> dog ran", "\ufdd0<BT> \ufdd0 BT>", "<BT>"] * 3


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece", "word", "character"])
def test_the_tag_is_a_piece_that_text_never_has(kind: str) -> None:
    settings = TextSettings.model_validate({"tokenizer": kind, "vocabulary_size": 330, "min_frequency": 1})
    plain, tagged = Tokenizer.train(LINES, settings), Tokenizer.train(LINES, settings, tagged=True)
    assert plain.tag is None
    assert tagged.tag is not None
    assert tagged.piece(tagged.tag) == TAG
    assert tagged.size <= 330
    for line in [*LINES, TAG, f"x{TAG} y", f" {TAG}"]:
        assert tagged.tag not in tagged.encode(line)
        assert plain.decode(plain.encode(line)) == tagged.decode(tagged.encode(line))
    assert tagged.decode([tagged.tag, *tagged.encode("the cat sat")]) == "the cat sat"
    assert tagged.whole_word(tagged.tag) is None
    assert Tokenizer.from_json(tagged.to_json()).tag == tagged.tag


def test_only_back_translated_sources_get_it(tmp_path: Path) -> None:
    tokenizer = Tokenizer.train(LINES, TextSettings(tokenizer="word", min_frequency=1), tagged=True)
    text = open_text(Mix([[("the cat", "sat")], BackTranslated([("a dog", "ran")])]), "train")
    corpus = build_corpus(text, tokenizer, tokenizer, tmp_path / "c", TextSettings(max_length=4))
    assert corpus.source.sentence(0).tolist() == tokenizer.encode("the cat")
    assert corpus.source.sentence(1).tolist() == [tokenizer.tag, *tokenizer.encode("a dog")]
    assert corpus.target.sentence(1).tolist() == tokenizer.encode("ran")


def test_a_vocabulary_without_the_tag_is_refused() -> None:
    tokenizer = Tokenizer.train(LINES, TextSettings())
    text = open_text(Mix(["a.tsv", BackTranslated(("bt.de", "mono.en"))]), "train")
    with pytest.raises(ConfigError, match=r"bt\.de, mono\.en \(back-translated\): .*no tag .*name it with --train"):
        check_tag(text, Tokenizers(tokenizer, tokenizer))
