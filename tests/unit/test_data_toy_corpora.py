"""The embedded corpora: deterministic, disjoint, aligned."""

import datetime
import itertools
import subprocess
import sys

import pytest

from regard.data.toy import SPLITS, TOY_NAMES, TOY_PAIRS, toy_corpus
from regard.data.toy.__main__ import main
from regard.data.toy.dates import STYLES, split_of, written
from regard.errors import DataError

EVERY = [(name, pair) for name in TOY_NAMES for pair in TOY_PAIRS[name]]


@pytest.mark.parametrize(("name", "pair"), EVERY)
def test_the_same_seed_gives_the_same_pairs_and_another_seed_others(name: str, pair: str) -> None:
    corpus = toy_corpus(name, pair)
    first = list(corpus.generate("train", 40, seed=3))
    assert first == list(corpus.generate("train", 40, seed=3))
    assert first[:10] == list(corpus.generate("train", 10, seed=3))
    assert first != list(corpus.generate("train", 40, seed=4))


@pytest.mark.parametrize(("name", "pair"), EVERY)
def test_the_splits_share_no_source_sentence(name: str, pair: str) -> None:
    corpus = toy_corpus(name, pair)
    sources = {split: {p.source for p in corpus.generate(split, 250)} for split in corpus.splits}
    for one, other in itertools.combinations(corpus.splits, 2):
        assert not sources[one] & sources[other], (one, other)


@pytest.mark.parametrize(("name", "pair"), EVERY)
def test_links_lie_inside_the_sentences_and_every_word_has_one(name: str, pair: str) -> None:
    corpus = toy_corpus(name, pair)
    for split in corpus.splits:
        for example in corpus.generate(split, 60):
            source, target = example.source.split(), example.target.split()
            assert set(example.sure) <= set(example.possible)
            assert {i for i, _ in example.possible} == set(range(len(source))), example
            assert {j for _, j in example.possible} == set(range(len(target))), example
            assert example.sure


@pytest.mark.parametrize(("name", "expected"), [("copy", "copy"), ("reverse", "reverse"), ("sort", "sort")])
def test_sequences_do_what_their_name_says(name: str, expected: str) -> None:
    for pair in toy_corpus(name).generate("train", 200):
        words = pair.source.split()
        said = {"copy": words, "reverse": words[::-1], "sort": sorted(words)}[expected]
        assert pair.target.split() == said
        assert all(words[i] == said[j] for i, j in pair.sure)
        assert sorted(i for i, _ in pair.sure) == sorted(j for _, j in pair.sure) == list(range(len(words)))


def test_sort_keeps_equal_words_in_their_order() -> None:
    for pair in toy_corpus("sort").generate("train", 200):
        words, place = pair.source.split(), dict(pair.sure)
        for i, j in itertools.combinations(range(len(words)), 2):
            if words[i] == words[j]:
                assert place[i] < place[j]


def test_lengths_can_be_bounded() -> None:
    for name, low, high in (("copy", 1, 1), ("sort", 5, 7), ("phrases", 3, 8), ("phrases", 30, 32), ("dates", 3, 3)):
        lengths = {len(p.source.split()) for p in toy_corpus(name).generate("test", 20, min_words=low, max_words=high)}
        assert lengths <= set(range(low, high + 1))
    assert {len(p.source.split()) for p in toy_corpus("copy").generate("long", 300)} == set(range(21, 41))


def test_a_written_date_is_translated_to_its_own_iso_form() -> None:
    pairs = list(toy_corpus("dates").generate("train", 500))
    assert {pair.structure for pair in pairs} == set(STYLES)
    for pair in pairs:
        date = datetime.date.fromisoformat(pair.target)
        assert pair.structure is not None
        assert pair.source.lower() == written(date, pair.structure).lower()
        assert str(date.year) in pair.source
        assert split_of(date) == "train"
        linked = " ".join(pair.source.split()[i] for i, _ in pair.sure)
        assert str(date.year) in linked
        assert str(date.day) in linked


def test_dates_are_disjoint_whatever_their_style() -> None:
    targets = {s: {p.target for p in toy_corpus("dates").generate(s, 2000)} for s in ("train", "valid", "test")}
    assert not targets["train"] & targets["test"]
    assert not targets["train"] & targets["valid"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: toy_corpus("phrasen"), "corpus 'phrasen': there is no such embedded corpus; did you mean 'phrases'?"),
        (lambda: toy_corpus("phrases", "en-fo"), "pair 'en-fo': the corpus 'phrases' has no such pair; did you mean"),
        (lambda: toy_corpus("copy").generate("structures", 1), "split 'structures': the corpus 'copy' has no such"),
        (lambda: toy_corpus("phrases").generate("long", 1, max_words=10), "min_words None, max_words 10: 'phrases'"),
    ],
)
def test_mistakes_are_named(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DataError) as caught:
        call()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_command_prints_numbered_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["phrases", "--pair", "en-de", "--count", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["1", "2", "3"]
    assert all(len(line.split("\t")) == 4 for line in lines)
    assert main(["phrases", "--split", "tset"]) == 2
    assert "did you mean 'test'?" in capsys.readouterr().err


def test_generation_needs_no_torch_and_does_not_depend_on_hash_seeds() -> None:
    code = (
        "import sys; from regard.data.toy import toy_corpus;"
        "print(*(p.target for p in toy_corpus('phrases', 'en-ko').generate('test', 5)), sep='|');"
        "assert 'torch' not in sys.modules"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            check=True,
            encoding="utf-8",
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path), "PYTHONIOENCODING": "utf-8"},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_phrases_have_every_split() -> None:
    assert toy_corpus("phrases").splits == SPLITS
