"""Reading parallel text strictly, and the encoded corpus on disk."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from regard.config.settings import TextSettings
from regard.config.vocabulary import EOS
from regard.data.lines import read_lines
from regard.data.text import parallel
from regard.data.text.build import build_corpus
from regard.data.text.corpus import EncodedCorpus
from regard.data.text.encoding import Skipped
from regard.data.text.parallel import Pair, read_pairs
from regard.data.text.sources import open_text
from regard.data.text.tokenizer import Tokenizer
from regard.errors import DataError

PAIRS = [Pair(f"the {word} is {other}", f"le {word} est {other} .") for word in "abcd" for other in "efgh"]
TOKENIZER = Tokenizer.train(
    [side for pair in PAIRS for side in (pair.source, pair.target)], TextSettings(tokenizer="word")
)


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def build(folder: Path, pairs: list[Pair] | Iterator[Pair] = PAIRS, max_length: int = 50) -> EncodedCorpus:
    return build_corpus(open_text(pairs, "train"), TOKENIZER, TOKENIZER, folder, TextSettings(max_length=max_length))


def test_lines_end_at_newline_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "\ufeffone\r\ntwo\u2028still two\x85\x0c\r\r\n\nlast".encode())
    assert list(read_lines(path)) == ["one", "two\u2028still two\x85\x0c\r", "", "last"]


def test_a_line_without_an_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.data.lines.LONGEST_LINE", 100)
    assert len(list(read_lines(write(tmp_path / "long", b"x" * 99 + b"\n" + b"y" * 100)))) == 2
    for name, pack in (("a", bytes), ("a.gz", gzip.compress)):
        with pytest.raises(DataError, match=rf"{name}:2: a line of more than"):
            list(read_lines(write(tmp_path / name, pack(b"one\n" + b"x" * 101 + b"\n"))))


def test_gzip_is_known_by_content(tmp_path: Path) -> None:
    for name in ("a.gz", "a.txt"):
        assert list(read_lines(write(tmp_path / name, gzip.compress("é\nb\n".encode(), mtime=0)))) == ["é", "b"]


def test_pairs_from_two_files_and_from_one(tmp_path: Path) -> None:
    source, target = write(tmp_path / "s", b"a\nb\n"), write(tmp_path / "t", b"x\ny")
    assert list(read_pairs(source, target)) == [Pair("a", "x"), Pair("b", "y")]
    assert list(read_pairs(write(tmp_path / "p.tsv", b"a\tx\nb\ty\n"))) == [Pair("a", "x"), Pair("b", "y")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\n\xff\xfe\n", r"a:2: byte 0xff at position 1 is not UTF-8"),
        (gzip.compress(b"line\n" * 9999, mtime=0)[:-20], r"a: the gzip file is damaged or cut short after line \d+"),
        (b"\x1f\x8bnot gzip at all", r"a: the gzip file is damaged"),
    ],
)
def test_bad_bytes_are_refused_by_file_and_line(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(read_lines(write(tmp_path / "a", content)))


def test_wrong_paths_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nothing: no such file"):
        list(read_lines(tmp_path / "nothing"))
    with pytest.raises(DataError, match="directory"):
        list(read_lines(tmp_path))
    with pytest.raises(DataError, match="not a gzip file"):
        list(read_lines(write(tmp_path / "a.gz", b"plain\n")))


@pytest.mark.parametrize(
    ("source", "target", "counts"), [(b"a\n" * 5, b"x\n" * 2, (5, 2)), (b"a\n", b"x\n" * 9, (1, 9))]
)
def test_unequal_files_are_refused_with_both_counts(
    tmp_path: Path, source: bytes, target: bytes, counts: tuple[int, int]
) -> None:
    files = write(tmp_path / "s.txt", source), write(tmp_path / "t.txt", target)
    with pytest.raises(DataError, match=rf"s\.txt has {counts[0]} lines but .*t\.txt has {counts[1]}"):
        list(read_pairs(*files))


def test_other_bad_pairs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"p\.tsv:2: 3 columns"):
        list(read_pairs(write(tmp_path / "p.tsv", b"a\tx\nb\ty\tz\n")))
    with pytest.raises(DataError, match=r"p\.tsv:1: 1 column where"):
        list(read_pairs(write(tmp_path / "p.tsv", b"a x\n")))
    empty = write(tmp_path / "e", b"")
    with pytest.raises(DataError, match="no lines"):
        list(read_pairs(empty, empty))


def test_encoded_corpus_holds_every_pair_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "LINES", 3)
    heard: list[int] = []
    text = open_text(iter(PAIRS), "train")
    corpus = build_corpus(
        text, TOKENIZER, TOKENIZER, tmp_path / "c", TextSettings(max_length=50), on_progress=heard.append
    )
    assert heard == [3, 6, 9, 12, 15, 16]
    for found in (corpus, EncodedCorpus.open(tmp_path / "c")):
        assert len(found) == len(PAIRS)
        for index, pair in enumerate(PAIRS):
            assert found.source.sentence(index).tolist() == TOKENIZER.encode(pair.source)
            assert found.target.sentence(index).tolist() == TOKENIZER.encode(pair.target)
        assert found.source_lengths.tolist() == [5] * 16
        assert found.target_lengths.tolist() == [6] * 16
        assert isinstance(found.source.ids, np.memmap)
    assert corpus.source.ids.dtype == np.uint16
    with pytest.raises(IndexError):
        corpus.source.sentence(16)
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_skipped_pairs_are_counted(tmp_path: Path) -> None:
    pairs = [*PAIRS[:2], Pair("", "x"), Pair("x", " \t"), Pair("a " * 50, "b")]
    corpus = build(tmp_path / "c", pairs, max_length=6)
    assert corpus.skipped == Skipped(empty=2, too_long=1, kept=2)
    assert corpus.target.sentence(1)[-1] == EOS
    assert EncodedCorpus.open(tmp_path / "c").skipped == corpus.skipped


def test_max_length_counts_the_end_of_the_sentence(tmp_path: Path) -> None:
    assert len(build(tmp_path / "c", max_length=6)) == 16
    with pytest.raises(DataError, match=r"16 have more than text\.max_length = 5 .*Raise text\.max_length"):
        build(tmp_path / "d", max_length=5)
    with pytest.raises(DataError, match="all 1 have a blank side"):
        build(tmp_path / "d", [Pair("", "")])
    assert not (tmp_path / "d").exists()


def test_a_failure_leaves_nothing_and_the_old_corpus_stays(tmp_path: Path) -> None:
    old = build(tmp_path / "c")

    def broken() -> Iterator[Pair]:
        yield PAIRS[0]
        raise DataError("line 2")

    with pytest.raises(DataError, match="line 2"):
        build(tmp_path / "c", broken())
    assert EncodedCorpus.open(tmp_path / "c").fingerprint == old.fingerprint
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_a_folder_that_is_something_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "keep").write_text("precious")
    with pytest.raises(DataError, match="not an encoded corpus"):
        build(tmp_path)
    assert (tmp_path / "keep").read_text() == "precious"


def test_fingerprint_follows_the_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build(tmp_path / "a").fingerprint
    monkeypatch.setattr(parallel, "LINES", 2)
    assert build(tmp_path / "b").fingerprint == first
    assert build(tmp_path / "c", PAIRS[::-1]).fingerprint != first
    moved = [Pair("the a", "le"), Pair("is", "x")], [Pair("the", "le"), Pair("a is", "x")]
    assert build(tmp_path / "d", moved[0]).fingerprint != build(tmp_path / "e", moved[1]).fingerprint


def test_damaged_folders_are_refused(tmp_path: Path) -> None:
    folder = build(tmp_path / "c").folder
    about = json.loads((folder / "corpus.json").read_text())
    (folder / "target.ids").write_bytes((folder / "target.ids").read_bytes()[:-2])
    with pytest.raises(DataError, match=r"damaged \(target\.ids has"):
        EncodedCorpus.open(folder)
    (folder / "corpus.json").write_text(json.dumps({**about, "format": 99}))
    with pytest.raises(DataError, match="format 99"):
        EncodedCorpus.open(folder)
    (folder / "corpus.json").write_text("{")
    with pytest.raises(DataError, match="damaged"):
        EncodedCorpus.open(folder)
    with pytest.raises(DataError, match="missing"):
        EncodedCorpus.open(tmp_path / "nowhere")
