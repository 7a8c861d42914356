"""Units: punctuation apart from its word, for views alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config.settings import TextSettings
from regard.data.text.hashes import distinct
from regard.data.text.seen_words import WordCollector, unseen
from regard.data.text.tokenizer import Tokenizer
from regard.data.text.words import split_word, unit_spans


@pytest.mark.parametrize(
    ("word", "units"),
    [
        ("noir.", "noir ."),
        ("(«Bonjour»,", "(« Bonjour »,"),
        ("¿Qué?!", "¿ Qué ?!"),
        ("你好。", "你好 。"),
        ("학교에.", "학교에 ."),
        ("학교에서는", "학교에서는"),
        ("don't", "don't"),
        ("dogs'", "dogs'"),
        ("dogs'.", "dogs' ."),
        ("'hello'", "' hello '"),
        ("“l’homme”", "“ l’homme ”"),
        ("3.14", "3.14"),
        ("3.14.", "3.14 ."),
        ("-5,", "-5 ,"),
        ("e.g.", "e.g."),
        ("(U.S.),", "( U.S. ),"),
        ("Ph.D.", "Ph.D."),
        ("etc.", "etc ."),
        ("well-known", "well-known"),
        ("C++", "C++"),
        ("$5", "$5"),
        ("50%", "50 %"),
        ("...", "..."),
        ("—", "—"),
        ("नमस्ते।", "नमस्ते ।"),
        ("مرحبا؟", "مرحبا ؟"),
    ],
)
def test_only_the_ends_are_split(word: str, units: str) -> None:
    assert split_word(word) == tuple(units.split())


@given(st.text())
def test_the_units_of_a_word_are_the_word(word: str) -> None:
    for each in word.split():
        assert "".join(split_word(each)) == each
        assert all(split_word(each))


def test_a_unit_is_never_smaller_than_a_piece() -> None:
    assert unit_spans("chat noir.", [(0, 4), (5, 9), (9, 10)]) == [(0, (0, 4)), (1, (5, 9)), (1, (9, 10))]
    assert unit_spans("chat noir.", [(0, 4), (5, 10)]) == [(0, (0, 4)), (1, (5, 10))]
    assert unit_spans("chat noir.", [(0, 4), (5, 8), (8, 10)]) == [(0, (0, 4)), (1, (5, 10))]


@pytest.mark.parametrize("tokenizer", ["bpe", "unigram", "character", "word", "wordpiece"])
def test_units_of_every_tokenizer(tokenizer: str) -> None:
    """A tokenizer of whole words keeps the punctuation inside its pieces; every other one sets it apart."""
    line = "le chat noir."
    lines = [line, "« un chat, noir ! »", "le noir chat."] * 20
    size = 400 if tokenizer in ("bpe", "unigram") else 60
    made = Tokenizer.train(lines, TextSettings(tokenizer=tokenizer, vocabulary_size=size, min_frequency=1))
    spans = [(token.start, token.end) for token in made.tokens(line)]
    whole = tokenizer == "word"
    assert [line[start:end] for _, (start, end) in unit_spans(line, spans)] == (
        ["le", "chat", "noir."] if whole else ["le", "chat", "noir", "."]
    )


def test_words_in_any_case_are_seen_and_phrases_without_spaces_are_not_judged() -> None:
    seen = WordCollector().new_words([["The", "cat,", "(sleeps)."], ["e.g.", "학교에", "다리"]])
    units = ["the", "CAT", "sleeps", ".", "e.g.", "학교에", "dog", "학교", "42", "猫が寝る", "ภาษาไทย"]
    assert [unit for unit, new in zip(units, unseen(units, seen), strict=True) if new] == ["dog", "학교"]


def test_chunks_do_not_change_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"word{number} and {number % 7}".split() for number in range(100)]
    whole = WordCollector().new_words(lines)
    monkeypatch.setattr("regard.data.text.seen_words.MOST_KNOWN", 5)
    collector = WordCollector()
    assert distinct([collector.new_words([line]) for line in lines]).tolist() == whole.tolist()
    assert len(whole) == 108
