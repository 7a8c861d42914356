"""Word links: the figures by hand, reading files, attention to links, and merging directions."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import ConfigError, DataError
from regard.evaluation.alignment import (
    AlignmentScore,
    GoldLinks,
    Links,
    aer,
    alignment_readings,
    check_bounds,
    format_links,
    links,
    parse_links,
    read_links,
    symmetrise,
    word_attention,
)

link_sets = st.frozensets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12)


def of(text: str) -> Links:
    return parse_links(text).possible


def test_aer_of_a_corpus_worked_by_hand() -> None:
    # Sentence 1: A = 3 links, 1 sure, 1 possible only, 1 wrong; S = 2.  Sentence 2: A = 1 sure of S = 2.
    hypothesis = [of("0-0 1-1 2-0"), of("0-1")]
    sure = [of("0-0 2-2"), of("0-1 1-0")]
    possible = [of("0-0 1-1 2-2"), of("0-1 1-0")]
    score = aer(hypothesis, sure, possible)
    assert score.aer == pytest.approx(1 - (2 + 3) / (4 + 4))
    assert score.precision == pytest.approx(3 / 4)
    assert score.recall == pytest.approx(2 / 4)
    assert score.links == 4
    assert score.to_dict()["links"] == 4


def test_aer_is_over_the_corpus_not_a_mean_of_sentences() -> None:
    hypothesis, sure = [of("0-0"), of("0-1 1-1 2-2")], [of("0-0"), of("0-0 1-0 2-0")]
    assert aer(hypothesis, sure, sure).aer == pytest.approx(1 - 2 / 8)


@given(st.lists(st.tuples(link_sets, link_sets, link_sets), min_size=1, max_size=4))
def test_aer_stays_within_bounds_and_ignores_whether_possible_repeats_sure(
    corpus: list[tuple[Links, Links, Links]],
) -> None:
    hypothesis, sure, possible = (list(column) for column in zip(*corpus, strict=True))
    score = aer(hypothesis, sure, possible)
    assert 0 <= score.aer <= 1
    assert score == aer(hypothesis, sure, [s | p for s, p in zip(sure, possible, strict=True)])
    assert aer(sure, sure, possible).aer == 0


def test_aer_without_links() -> None:
    nothing: Links = frozenset()
    assert aer([nothing], [nothing], [nothing]) == AlignmentScore(0.0, 1.0, 1.0, 0)
    assert aer([nothing], [of("0-0")], [of("0-0")]) == AlignmentScore(1.0, 0.0, 0.0, 0)


def test_aer_of_unequal_or_no_sentences() -> None:
    with pytest.raises(DataError, match="2 sentences against 1 sure and 1 possible"):
        aer([of("0-0"), of("")], [of("0-0")], [of("0-0")])
    with pytest.raises(DataError, match="no sentences"):
        aer([], [], [])


def test_talp_and_pharaoh_lines() -> None:
    gold = parse_links("0-0 1p2  3-1")
    assert gold == GoldLinks(frozenset({(0, 0), (3, 1)}), frozenset({(0, 0), (1, 2), (3, 1)}))
    assert parse_links("1-1 2p3", one_based=True) == parse_links("0-0 1p2")
    assert parse_links("") == GoldLinks(frozenset(), frozenset())


@given(link_sets)
def test_format_and_parse_are_inverse(some: Links) -> None:
    assert parse_links(format_links(some)).sure == some


@pytest.mark.parametrize("zipped", [False, True])
def test_reading_a_file(tmp_path: Path, zipped: bool) -> None:
    text = b"0-0 1-1\n\n0p1\r\n"
    path = tmp_path / ("gold.talp.gz" if zipped else "gold.talp")
    path.write_bytes(gzip.compress(text) if zipped else text)
    read = read_links(path)
    assert [format_links(gold.possible) for gold in read] == ["0-0 1-1", "", "0-1"]
    assert read[2].sure == frozenset()


@pytest.mark.parametrize("token", ["1", "1-", "a-b", "1-2-3", "1:2", "-1-2", "1P2", "١-٢"])
def test_a_bad_token_is_named_with_its_file_and_line(tmp_path: Path, token: str) -> None:
    path = tmp_path / "gold.talp"
    path.write_text(f"0-0\n0-0 {token}\n", encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_links(path)
    assert str(caught.value).startswith(f"{path}, line 2: {token!r}")
    assert "i-j" in str(caught.value)


def test_a_file_that_counts_from_0_is_not_read_as_counting_from_1() -> None:
    with pytest.raises(DataError, match="'3-0' in a file declared to count from 1"):
        parse_links("1-1 3-0", one_based=True)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"0-0\n\xe9\n")
    (tmp_path / "plain.gz").write_bytes(b"0-0\n")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"0-0 1-1\n" * 99)[:-12])
    cases = {
        "latin": ":2: byte .* is not UTF-8",
        "plain.gz": "gzip",
        "cut.gz": "gzip",
        "none": "no such file",
        "": "is a directory",
    }
    for name, words in cases.items():
        with pytest.raises(DataError, match=words):
            read_links(tmp_path / name)


def test_links_outside_their_sentences() -> None:
    check_bounds([parse_links("0-0 1-2")], ["a b"], ["x y z"])
    with pytest.raises(DataError, match=r"gold, line 2: link 1-2 .* 2 and 2 words"):
        check_bounds([parse_links("0-0"), parse_links("0-0 1p2")], ["a", "a b"], ["x", "x y"], where="gold")
    with pytest.raises(DataError, match="1 lines of links for 2 source and 2 target"):
        check_bounds([parse_links("0-0")], ["a", "b"], ["x", "y"])


def test_word_attention_sums_source_pieces_and_averages_target_pieces() -> None:
    # source: word 0 in two pieces, word 1, EOS; target: word 0, word 1 in two pieces, EOS
    weights = np.array(
        [
            [0.3, 0.4, 0.2, 0.1],
            [0.1, 0.1, 0.6, 0.2],
            [0.5, 0.1, 0.4, 0.0],
            [0.0, 0.0, 0.1, 0.9],
        ],
        dtype=np.float32,
    )
    words = word_attention(weights, [0, 0, 1, None], [0, 1, 1, None])
    np.testing.assert_allclose(words, [[0.7, 0.2], [0.4, 0.5]], rtol=1e-6)
    assert words.dtype == np.float64


def test_word_attention_when_each_piece_is_a_word_changes_nothing() -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(4), size=3)
    np.testing.assert_array_equal(word_attention(weights, range(4), range(3)), weights)


def test_word_attention_of_words_without_a_piece_is_zero() -> None:
    words = word_attention(np.ones((1, 1)), [1], [0], source_length=3, target_length=2)
    np.testing.assert_array_equal(words, [[0, 1, 0], [0, 0, 0]])


def test_word_attention_of_a_wrong_shape() -> None:
    with pytest.raises(DataError, match=r"\(2, 3\) does not fit 3 target and 2 source"):
        word_attention(np.ones((2, 3)), [0, 1], [0, 1, 2])
    with pytest.raises(DataError, match="word 4, but the sentence has only 2"):
        word_attention(np.ones((1, 1)), [4], [0], source_length=2)


def test_link_methods_on_one_matrix() -> None:
    weights = np.array([[0.6, 0.4, 0.0], [0.8, 0.1, 0.1], [0.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
    assert format_links(links(weights)) == "0-0 0-1 1-3"  # row 2 has no mass; row 3 ties: the first
    assert format_links(links(weights, "threshold", 0.4)) == "0-0 0-1 1-0 1-3 2-3"
    assert format_links(links(weights, "intersection")) == "0-1 1-3"
    assert links(np.zeros((0, 3))) == frozenset()
    assert links(np.zeros((2, 2)), "threshold", 0.0) == frozenset()


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 999))
def test_argmax_gives_one_link_per_target_word_with_mass(rows: int, columns: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    weights = generator.random((rows, columns)) * generator.integers(0, 2, (rows, 1))
    found = links(weights)
    assert sorted(j for _, j in found) == [j for j in range(rows) if weights[j].sum() > 0]
    assert all(weights[j, i] == weights[j].max() for i, j in found)
    assert links(weights, "intersection") <= found


def test_links_of_an_unknown_method_or_of_no_numbers() -> None:
    with pytest.raises(ConfigError, match="did you mean 'argmax'"):
        links(np.ones((1, 1)), "argmx")
    with pytest.raises(DataError, match="contains NaN"):
        links(np.array([[np.nan]]))


def test_readings_find_which_row_belongs_to_which_word() -> None:
    gold = of("0-1 1-0 2-2")
    order = [1, 0, 2, 3]  # the source piece for each target piece; 3 is EOS
    on_time = np.eye(4)[order]
    source_words, target_words = [0, 1, 2, None], [0, 1, 2, None]
    assert alignment_readings(on_time, source_words, target_words).this_step == gold
    assert alignment_readings(on_time, source_words, target_words).shifted != gold
    late = np.vstack([np.full((1, 4), 0.25), on_time[:-1]])
    readings = alignment_readings(late, source_words, target_words)
    assert readings.shifted == gold
    assert readings.this_step != gold


def test_shifted_reading_leaves_out_the_last_piece_but_not_its_word() -> None:
    # without EOS: word 1 has pieces 1 and 2; the shifted reading knows piece 1 alone
    readings = alignment_readings(np.eye(3)[[0, 1, 2]], [0, 1, 2], [0, 1, 1])
    assert format_links(readings.this_step) == "0-0 1-1"
    assert format_links(readings.shifted) == "1-0 2-1"
    only = alignment_readings(np.ones((1, 1)), [0], [0])
    assert (format_links(only.this_step), only.shifted) == ("0-0", frozenset())


def test_symmetrise_by_hand() -> None:
    forward, backward = of("0-0 1-1 2-1 4-4"), of("0-0 1-1 1-2 5-3 4-0")
    assert format_links(symmetrise(forward, backward, "intersection")) == "0-0 1-1"
    assert symmetrise(forward, backward, "union") == forward | backward
    # 2-1 and 1-2 touch 1-1 and have a free side; 4-4 and 5-3 join at the end; 4-0 then has no free side
    assert format_links(symmetrise(forward, backward)) == "0-0 1-1 1-2 2-1 4-4 5-3"
    with pytest.raises(ConfigError, match="grow-diag-final"):
        symmetrise(forward, backward, "grow-diag")


@given(link_sets, link_sets)
def test_grow_diag_final_lies_between_and_covers_every_word(forward: Links, backward: Links) -> None:
    merged, union = symmetrise(forward, backward), forward | backward
    assert forward & backward <= merged <= union
    assert {i for i, _ in merged} == {i for i, _ in union}
    assert {j for _, j in merged} == {j for _, j in union}
