"""What a user may name as text."""

from pathlib import Path

import pytest

from regard.data.text.hashes import Fingerprint
from regard.data.text.parallel import Pair
from regard.data.text.sources import load_pairs, open_text, overlap_warning, read_valid, save_pairs, scan_text, spread
from regard.data.text.texts import Text
from regard.data.text.workers import Workers
from regard.errors import DataError


def hashes_of(text: Text) -> Fingerprint:
    return scan_text(text, Workers(0), duplicates=False).hashes


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
    with pytest.raises(DataError, match="'x' is not a number of pairs: write it as toy:NAME"):
        open_text("toy:reverse:syllables:x", "train")
    with pytest.raises(DataError, match="did you mean 'reverse'"):
        open_text("toy:revers", "train")


def test_what_is_no_pair_is_shown() -> None:
    for wrong in ("abc", ("a",), ("a", 1), ("a", "b", "c")):
        with pytest.raises(DataError, match=r"is not a sentence pair: give \(source, target\) tuples"):
            list(open_text([wrong], "train").pairs())  # type: ignore[list-item]  # that is the point


def test_what_is_no_text_is_shown() -> None:
    for wrong in (5, None, 2.5):
        with pytest.raises(DataError, match=rf"^{wrong} is no text to train on: give two files"):
            open_text(wrong, "train")  # type: ignore[arg-type]  # that is the point


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
