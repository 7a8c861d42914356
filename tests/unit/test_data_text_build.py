"""Encoding a text quickly: the same ids as the tokenizer's own, for any number of workers, and after a kill."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config.settings import TextSettings
from regard.data.text import build, encoding, parallel
from regard.data.text.build import JOURNAL, build_corpus
from regard.data.text.corpus import EncodedCorpus
from regard.data.text.encoding import LineEncoder, Skipped
from regard.data.text.parallel import Pair, read_pairs
from regard.data.text.sources import Mix, open_text, scan_text, text_of
from regard.data.text.tokenizer import Tokenizer
from regard.data.text.workers import Workers
from regard.errors import DataError, RegardError

LINES = [
    "The cat sat on the mat, didn't it?",
    "L'été à Genève : 3.14 % de 1000 €",
    "고양이가 매트 위에 앉았다.",
    "<s> not special </s> <0x41> <pad> ▁ \ufdd0 \ufdd1 \ufdd0\ufdd3",
    "  two  spaces   inside and outside  ",
    "tab\there, no-break\u00a0space, line\u2028separator, e\u0301 combining, \u0301alone",
    "🙂🙃 emoji 👩‍👩‍👧 zero\u200bwidth İSTANBUL ẞ",
    "我坐在垫子上没有空格",
    "x",
]
KINDS = ["bpe", "unigram", "wordpiece", "word", "character"]
odd_text = st.text(alphabet=st.sampled_from("aB é▁<>/s0x41\ufdd0\ufdd1 \t\u00a0\u20283.,'’가猫🙂\u0301\r"), max_size=24)


def tokenizer(kind: str, **options: object) -> Tokenizer:
    chosen = {"tokenizer": kind, "vocabulary_size": 420, "min_frequency": 1, **options}
    return Tokenizer.train(LINES * 3, TextSettings.model_validate(chosen))


def ids(encoder: LineEncoder, lines: list[str]) -> list[list[int]]:
    return [np.frombuffer(line, encoder.type).tolist() for line in encoder.encode(lines)]


@pytest.mark.parametrize("options", [{}, {"lowercase": True}, {"byte_fallback": False}])
@pytest.mark.parametrize("kind", KINDS)
def test_words_are_encoded_as_the_whole_line_is(kind: str, options: dict[str, object]) -> None:
    trained = tokenizer(kind, **options)
    assert trained.encodes_words == (kind != "character")
    encoder = LineEncoder(trained)

    @settings(max_examples=150, deadline=None)
    @given(odd_text)
    def same(line: str) -> None:
        assert ids(encoder, [line]) == trained.encode_many([line])

    same()
    more = [*LINES, *(" ".join(LINES)[start:][:40] for start in range(200)), "\ud800 lone", ""]
    assert ids(encoder, more) == trained.encode_many(more)


def test_a_full_cache_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = tokenizer("bpe")
    monkeypatch.setattr(encoding, "MOST_WORDS", 3)
    monkeypatch.setattr(encoding, "LONGEST_WORD", 4)
    encoder = LineEncoder(trained)
    assert ids(encoder, LINES) == trained.encode_many(LINES)
    assert encoder._words is not None
    assert len(encoder._words) <= 3


# --- files, workers, restarts -------------------------------------------------------------------------------------

COUNT = 500


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    monkeypatch.setattr(parallel, "LINES", 30)
    monkeypatch.setattr(build, "JOURNAL_PAIRS", 60)
    (tmp_path / "s").write_text("".join(f"{LINES[n % 5]} {n}\n" for n in range(COUNT)), "utf-8")
    (tmp_path / "t").write_text("".join(f"{LINES[n % 9]}\t{n}\r\n" for n in range(COUNT)), "utf-8")
    (tmp_path / "s.gz").write_bytes(gzip.compress((tmp_path / "s").read_bytes()))
    return tmp_path / "s", tmp_path / "t"


def contents(corpus: EncodedCorpus) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(corpus.folder.iterdir())}


def test_any_number_of_workers_writes_the_same_bytes(files: tuple[Path, Path], tmp_path: Path) -> None:
    source, target = tokenizer("bpe"), tokenizer("unigram")
    chosen = TextSettings(max_length=60)
    made = []
    for number, count in enumerate((0, 1, 3)):
        with Workers(count) as workers:
            text = open_text(files if count < 3 else (tmp_path / "s.gz", files[1]), "train")
            hashes = scan_text(text, workers, duplicates=True)
            corpus = build_corpus(text, source, target, tmp_path / f"c{number}", chosen, workers=workers)
            made.append((contents(corpus), hashes.hashes.tolist()))
    assert made[0] == made[1] == made[2]
    plain = text_of(list(read_pairs(*files)))
    assert contents(build_corpus(plain, source, target, tmp_path / "p", chosen)) == made[0][0]
    kept = EncodedCorpus.open(tmp_path / "c0")
    expected = [source.encode(pair.source) for pair in plain.pairs() if len(source.encode(pair.source)) <= 60]
    assert [kept.source.sentence(n).tolist() for n in range(3)] == expected[:3]


class Killed(BaseException):
    pass


@pytest.mark.parametrize("packed", [False, True])
def test_a_killed_build_goes_on_and_ends_with_the_same_bytes(
    files: tuple[Path, Path], tmp_path: Path, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained, chosen = tokenizer("bpe"), TextSettings(max_length=60)
    first = tmp_path / "s.gz" if packed else files[0]
    text = open_text(Mix([(first, files[1]), files]), "train")
    duplicate = np.arange(2 * COUNT) % 7 == 0
    whole = build_corpus(text, trained, trained, tmp_path / "whole", chosen, duplicate=duplicate)
    assert whole.parts == (whole.parts[0], len(whole) - whole.parts[0])
    heard: list[int] = []

    def kill(read: int) -> None:
        heard.append(read)
        if read >= 640:
            raise Killed

    with pytest.raises(Killed):
        build_corpus(text, trained, trained, tmp_path / "c", chosen, duplicate=duplicate, keep=True, on_progress=kill)
    part = tmp_path / ".c.part"
    last = json.loads((part / JOURNAL).read_bytes().splitlines()[-1])
    assert 640 - 90 <= last["read"] <= heard[-1]  # at most the pairs between two lines of the journal are lost
    # a kill in the middle of writing: half a block behind the journal, and half a line in it
    for name in ("source.ids", "target.offsets", JOURNAL):
        with (part / name).open("ab") as stream:
            stream.write(b'{"half')
    again: list[int] = []
    on_progress = again.append
    done = build_corpus(
        text, trained, trained, tmp_path / "c", chosen, duplicate=duplicate, keep=True, on_progress=on_progress
    )
    assert last["read"] < again[0] <= last["read"] + 60
    assert contents(done) == contents(whole)
    assert not part.exists()


def test_a_damaged_part_is_begun_again(files: tuple[Path, Path], tmp_path: Path) -> None:
    trained, chosen = tokenizer("bpe"), TextSettings()
    whole = build_corpus(open_text(files, "train"), trained, trained, tmp_path / "whole", chosen)
    part = tmp_path / ".c.part"
    for damage in (b"", b"{}\n", b'{"read": 60, "tokens": [999999, 9]}\n', b"\xff\n\n"):
        part.mkdir()
        (part / JOURNAL).write_bytes(damage)
        (part / "source.ids").write_bytes(b"junk")
        done = build_corpus(open_text(files, "train"), trained, trained, tmp_path / "c", chosen, keep=True)
        assert contents(done) == contents(whole)
        done.folder.rename(tmp_path / damage.hex()[:8].ljust(8, "x"))


@pytest.mark.parametrize("count", [0, 2])
def test_faults_name_file_and_line_also_in_workers(files: tuple[Path, Path], tmp_path: Path, count: int) -> None:
    lines = files[0].read_bytes().splitlines(keepends=True)
    (tmp_path / "bad").write_bytes(b"".join([*lines[:333], b"caf\xe9\n", *lines[334:400], b"\xff\n", *lines[401:]]))
    (tmp_path / "tabs").write_bytes(b"a\tb\n" * 100 + b"a b\n" + b"a\tb\n" * 300)
    (tmp_path / "short").write_bytes(b"".join(lines[:444]))
    cases: list[tuple[object, str]] = [
        ((tmp_path / "bad", files[1]), r"bad:334: byte 0xe9 at position 4 is not UTF-8"),
        (tmp_path / "tabs", r"tabs:101: 1 column where source and target are two"),
        ((tmp_path / "short", files[1]), r"short has 444 lines but .*t has 500"),
    ]
    for given_text, message in cases:
        with Workers(count) as workers, pytest.raises(DataError, match=message):
            scan_text(open_text(given_text, "train"), workers, duplicates=False)  # type: ignore[arg-type]


def test_a_worker_that_dies_is_reported(files: tuple[Path, Path]) -> None:
    with Workers(1) as workers:
        workers._processes[0].kill()
        workers._processes[0].wait()
        with pytest.raises(RegardError, match=r"a worker process that reads the text ended \(status -9\)"):
            scan_text(open_text(files, "train"), workers, duplicates=False)


def test_blocks_of_long_lines_are_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "BYTES", 1000)
    monkeypatch.setattr("regard.data.lines.READ", 128)
    sides = [f"{'word ' * (n % 70)}{n}" for n in range(90)], [f"{'mot ' * (n % 11)}{n}" for n in range(90)]
    for name, side in zip("st", sides, strict=True):
        (tmp_path / name).write_text("\n".join(side), "utf-8")
    blocks = list(parallel.read_blocks(parallel.files_of(tmp_path / "s", tmp_path / "t")))
    assert len(blocks) > 5
    assert list(read_pairs(tmp_path / "s", tmp_path / "t")) == list(map(Pair, *sides))
    for number in (1, len(blocks) - 2):
        rest = parallel.read_blocks(blocks[0].files, blocks[number].end)
        assert [pair for block in rest for pair in block.lines()[0]] == sides[0][blocks[number].end.pairs :]


def test_a_held_out_share_is_read_without_the_rest(files: tuple[Path, Path]) -> None:
    from regard.data.text.sources import hold_out

    everything = list(read_pairs(*files))
    held = hold_out(open_text(files, "train"))
    assert held is not None
    train, valid, said = held
    assert list(valid.pairs()) == everything[49::50]
    assert list(train.pairs()) == [pair for n, pair in enumerate(everything, 1) if n % 50]
    assert (train.size, valid.size) == (490, 10)
    assert said.startswith("10 of the 500 pairs are held out")


# --- filters ------------------------------------------------------------------------------------------------------


def filtered(tmp_path: Path, pairs: list[tuple[str, str]], **options: object) -> tuple[list[int], Skipped]:
    """The numbers of the kept pairs."""
    trained = Tokenizer.train(
        [side for pair in pairs for side in pair], TextSettings(tokenizer="word", min_frequency=1)
    )
    chosen = TextSettings.model_validate({"tokenizer": "word", **options})
    text = open_text(pairs, "train")
    duplicate = scan_text(text, Workers(0), duplicates=chosen.drop_duplicates).duplicate
    corpus = build_corpus(text, trained, trained, tmp_path / "c", chosen, duplicate=duplicate)
    lines = [trained.decode(corpus.source.sentence(n)) for n in range(len(corpus))]
    return [
        next(n for n, pair in enumerate(pairs) if pair[0].split() == line.split()) for line in lines
    ], corpus.skipped


def test_filters_are_off_unless_asked_for(tmp_path: Path) -> None:
    pairs = [("a", "a"), ("b", "b b b b b b b b b b b"), ("c", "x"), ("d", "привет")]
    assert filtered(tmp_path, pairs) == ([0, 1, 2, 3], Skipped(kept=4))


@pytest.mark.parametrize(
    ("options", "kept", "skipped"),
    [
        ({"drop_identical": True}, [1, 2, 3, 4], Skipped(identical=1, kept=4)),
        ({"max_length_ratio": 3}, [0, 2, 3, 4], Skipped(length_ratio=1, kept=4)),
        ({"target_script": "Latin"}, [0, 1, 2, 4], Skipped(script=1, kept=4)),
        ({"source_script": "Cyrillic", "target_script": "Latin"}, [2], Skipped(script=4, kept=1)),
    ],
)
def test_each_filter_drops_its_pairs(
    tmp_path: Path, options: dict[str, object], kept: list[int], skipped: Skipped
) -> None:
    pairs = [("same", " same "), ("one", "w x y z"), ("дом 12", "house (12)"), ("cat", "кот и cat"), ("3 x", "1 2 3")]
    assert filtered(tmp_path, pairs, **options) == (kept, skipped)


def test_later_copies_are_duplicates_white_space_aside(tmp_path: Path) -> None:
    pairs = [("a b", "x"), ("c", "x"), ("a  b ", "\tx"), ("a b", "y"), ("", "x"), ("c", "x"), ("", "x")]
    kept, skipped = filtered(tmp_path, pairs, drop_duplicates=True)
    assert skipped == Skipped(empty=2, duplicate=2, kept=3)
    assert kept == [0, 1, 0]  # the third has the source of the first, and another target


def test_no_pair_left_by_filters_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"filters of \[text\] drop 1 by identical; 0 are too long .*Relax"):
        filtered(tmp_path, [("a", "a")], drop_identical=True)


def test_an_unknown_script_is_refused() -> None:
    with pytest.raises(ValueError, match="script 'Hangu' is unknown; did you mean 'Hangul'"):
        TextSettings(source_script="Latin+Hangu")
    assert TextSettings(source_script="Han+Hiragana+Katakana").source_script


def test_repeated_hashes_against_a_slow_loop() -> None:
    from regard.data.text.filters import repeated

    hashes = np.random.default_rng(1).integers(0, 2**64, 300, dtype=np.uint64)
    hashes = hashes[np.random.default_rng(2).integers(0, 300, 2000)]
    seen: set[int] = set()
    expected = []
    for value in hashes.tolist():
        expected.append(value in seen)
        seen.add(value)
    assert repeated(hashes).tolist() == expected


def test_a_worker_does_not_import_torch() -> None:
    code = "import regard.data.text.workers, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_worker_ends_in_silence_when_nobody_listens(files: tuple[Path, Path]) -> None:
    code = """
import os, signal, sys
from regard.data.text.sources import open_text
from regard.data.text.workers import Workers
workers = Workers(1).__enter__()
print(workers._processes[0].pid, flush=True)
for _ in workers.hash(open_text((sys.argv[1], sys.argv[2]), "train").pieces(), pairs=True):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    big = files[0].with_name("big")
    big.write_bytes(files[0].read_bytes() * 300)
    killed = subprocess.run([sys.executable, "-c", code, big, big], check=False, capture_output=True)
    assert killed.returncode == -9
    assert killed.stderr == b""
