"""What a user may name as text, and which file belongs to which option."""

from pathlib import Path

import pytest

from regard.cli.train import assign
from regard.data.text.corpus import Pair
from regard.data.text.sources import load_pairs, open_text, overlap_warning, read_valid, save_pairs, spread
from regard.data.text.sources import training_fingerprint as hashes_of
from regard.errors import ConfigError, DataError

FILES = ["corpus.de", "corpus.en", "dev.de", "dev.en"]


@pytest.mark.parametrize(
    ("words", "train", "valid", "expected"),
    [
        (
            ["bahdanau", "corpus.en", "dev.en"],
            ["corpus.de"],
            ["dev.de"],
            ("bahdanau", ["corpus.de", "corpus.en"], ["dev.de", "dev.en"]),
        ),
        (["luong"], ["c.tsv"], ["d.tsv"], ("luong", ["c.tsv"], ["d.tsv"])),
        (["luong", "dev.en"], ["c.tsv"], ["dev.de"], ("luong", ["c.tsv"], ["dev.de", "dev.en"])),
        (["luong", "c.en"], ["c.de"], ["d.tsv.gz"], ("luong", ["c.de", "c.en"], ["d.tsv.gz"])),
        (["luong", "c.en"], ["c.de"], ["toy:reverse"], ("luong", ["c.de", "c.en"], ["toy:reverse"])),
        (["c.en", "my.toml"], ["c.de"], [], ("my.toml", ["c.de", "c.en"], [])),
        (["luong"], ["c.txt"], [], ("luong", ["c.txt"], [])),
        (["luong"], ["c.de", "c.en"], ["d.de", "d.en"], ("luong", ["c.de", "c.en"], ["d.de", "d.en"])),
        (["misspelt", "c.en"], ["c.de"], [], ("misspelt", ["c.de", "c.en"], [])),
        ([], [], [], (None, [], [])),
    ],
)
def test_each_file_finds_its_option(
    words: list[str], train: list[str], valid: list[str], expected: tuple[str | None, list[str], list[str]]
) -> None:
    assert assign(words, train, valid, needs_recipe=True) == expected


def test_fine_tuning_needs_no_recipe() -> None:
    assert assign(["c.en"], ["c.de"], [], needs_recipe=False) == (None, ["c.de", "c.en"], [])
    assert assign(["luong", "c.en"], ["c.de"], [], needs_recipe=False) == ("luong", ["c.de", "c.en"], [])


@pytest.mark.parametrize(
    ("words", "train", "valid"),
    [
        (["luong", "x"], ["c"], ["d"]),
        (["luong", "x", "y", "z"], ["c"], ["d"]),
        (["luong", "x"], ["c.tsv"], []),
        (["luong", "x"], [], []),
    ],
)
def test_what_is_not_clear_is_asked_about(words: list[str], train: list[str], valid: list[str]) -> None:
    with pytest.raises(ConfigError, match="not clear which of --train and --valid this belongs to"):
        assign(words, train, valid, needs_recipe=True)


def test_three_files_are_too_many() -> None:
    with pytest.raises(ConfigError, match="--train a b c: at most two files"):
        assign(["luong"], ["a", "b", "c"], [], needs_recipe=True)


def test_texts_can_be_read_again_and_again(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\ny\n")
    (tmp_path / "b").write_text("1\n2\n")
    (tmp_path / "c.tsv").write_text("x\t1\ny\t2\n")
    expected = [Pair("x", "1"), Pair("y", "2")]
    for given in (
        (tmp_path / "a", str(tmp_path / "b")),
        tmp_path / "c.tsv",
        [("x", "1"), ("y", "2")],
        iter([("x", "1"), ["y", "2"]]),
        (pair for pair in expected),
    ):
        text = open_text(given, "train")
        assert [list(text.pairs()), list(text.pairs())] == [expected, expected]


def test_embedded_corpora_by_name() -> None:
    text = open_text("toy:reverse:syllables:7", "train")
    assert len(list(text.pairs())) == 7
    assert list(text.pairs()) == list(open_text("toy:reverse:7", "train").pairs())
    assert list(text.pairs()) != list(open_text("toy:reverse:7", "valid").pairs())
    with pytest.raises(DataError, match="'x' is no number of pairs: write it as toy:NAME"):
        open_text("toy:reverse:syllables:x", "train")
    with pytest.raises(DataError, match="did you mean 'reverse'"):
        open_text("toy:revers", "train")


def test_what_is_no_pair_is_shown() -> None:
    for wrong in ("abc", ("a",), ("a", 1), ("a", "b", "c")):
        with pytest.raises(DataError, match=r"is no sentence pair: give \(source, target\) tuples"):
            list(open_text([wrong], "train").pairs())  # type: ignore[list-item]  # that is the point


def test_blank_texts_are_refused() -> None:
    with pytest.raises(DataError, match="holds no sentences to train on"):
        hashes_of(open_text([(" ", "x")], "train"))
    with pytest.raises(DataError, match="holds no validation pairs"):
        read_valid(open_text([("x", " ")], "valid"))


def test_validation_sentences_that_were_trained_on_are_counted() -> None:
    known = hashes_of(open_text([("a b", "x"), ("c", "y")], "train"))
    warning = overlap_warning([Pair("a  b", "x"), Pair("d", "z")], known)
    assert warning is not None
    assert warning.startswith("1 of 2 validation sentences occur in the training text")
    assert overlap_warning([Pair("d", "z")], known) is None


def test_any_sentence_survives_the_disk(tmp_path: Path) -> None:
    odd = [Pair("a\tb", "c\u2028d"), Pair("🙂\x00", "\ud800"), Pair("\r", "\n")]
    save_pairs(tmp_path / "pairs.jsonl", odd)
    assert load_pairs(tmp_path / "pairs.jsonl") == odd


def test_spread_takes_from_everywhere() -> None:
    pairs = [Pair(str(number), "") for number in range(10)]
    assert [pair.source for pair in spread(pairs, 4)] == ["0", "2", "5", "7"]
    assert spread(pairs, 10) == pairs
