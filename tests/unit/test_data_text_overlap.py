"""Overlap of test and training text, by streaming and by fingerprint."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.text.hashes import distinct, fingerprint, hash_lines, normalise
from regard.data.text.overlap import (
    FINGERPRINT_FILE,
    OverlapReport,
    load_fingerprint,
    overlap_with_fingerprint,
    save_fingerprint,
)
from regard.errors import ModelFolderError

TRAIN = ["the cat sat", "a  dog\tran ", "", "the cat sat"]
TEST = ["the cat sat", " a dog ran", "a Dog ran", "", "the cat sat\n"]

lines = st.lists(st.text(alphabet="ab \t", max_size=4), max_size=12)


def overlap(test: list[str], train: list[str]) -> OverlapReport:
    """The definition, over the text itself."""
    known = {normalise(line) for line in train} - {""}
    return OverlapReport(len(test), sum(normalise(line) in known for line in test))


def test_white_space_is_normalised_case_is_not_and_blank_lines_do_not_count() -> None:
    report = overlap_with_fingerprint(TEST, fingerprint(TRAIN))
    assert report == OverlapReport(test_sentences=5, in_training=3)
    assert report.warning() == (
        "3 of 5 test sentences occur in the training text, so the scores are optimistic for new text."
    )
    assert report.to_dict() == {"test_sentences": 5, "in_training": 3}
    assert overlap_with_fingerprint(["new"], fingerprint(TRAIN)).warning() is None


@given(lines, lines)
def test_the_fingerprint_agrees_with_the_text(test: list[str], train: list[str]) -> None:
    assert overlap_with_fingerprint(test, fingerprint(train)) == overlap(test, train)


def test_fingerprint_is_sorted_distinct_and_stable() -> None:
    known = fingerprint(TRAIN)
    assert known.dtype == np.uint64
    assert len(known) == 2
    assert (np.diff(known.astype(object)) > 0).all()
    np.testing.assert_array_equal(known, fingerprint(reversed(TRAIN)))
    # A folder written today must be readable tomorrow: blake2b-64 of "a", little-endian.
    assert fingerprint(["a"]).tolist() == [int.from_bytes(bytes.fromhex("40f89e395b66422f"), "little")]


def test_parts_do_not_change_the_fingerprint() -> None:
    text = [f"line {n % 37}" for n in range(100)]
    whole = fingerprint(text)
    np.testing.assert_array_equal(distinct([hash_lines(text[start : start + 8]) for start in range(0, 100, 8)]), whole)
    assert len(whole) == 37
    assert len(distinct([])) == 0


def test_fingerprint_goes_through_a_model_folder(tmp_path: Path) -> None:
    assert load_fingerprint(tmp_path) is None
    save_fingerprint(tmp_path, fingerprint(TRAIN))
    loaded = load_fingerprint(tmp_path)
    assert loaded is not None
    assert overlap_with_fingerprint(TEST, loaded).in_training == 3


@pytest.mark.parametrize("damage", ["empty", "cut", "text", "floats", "objects"])
def test_a_damaged_fingerprint_is_refused(tmp_path: Path, damage: str) -> None:
    path = tmp_path / FINGERPRINT_FILE
    save_fingerprint(tmp_path, fingerprint(TRAIN))
    if damage == "floats":
        np.save(path, np.ones(3))
    elif damage == "objects":
        np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    else:
        path.write_bytes({"empty": b"", "cut": path.read_bytes()[:-4], "text": b"hello"}[damage])
    with pytest.raises(ModelFolderError, match=FINGERPRINT_FILE):
        load_fingerprint(tmp_path)
