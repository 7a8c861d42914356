"""Word links out of text alone: the hidden Markov model against all its paths, and the guide it gives."""

from __future__ import annotations

import math
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.cli import main
from regard.config.settings import TextSettings
from regard.data.text import aligner, parallel
from regard.data.text.aligner import (
    NULL_PROBABILITY,
    UNIFORM_JUMP,
    Hmm,
    align,
    align_corpus,
    align_text,
    expect,
    learn,
    spaced,
)
from regard.data.text.build import build_corpus
from regard.data.text.corpus import EncodedCorpus, EncodedSide, Ids
from regard.data.text.parallel import Pair
from regard.data.text.sources import Mix, Tokenizers, open_text, text_of
from regard.data.text.tokenizer import Tokenizer
from regard.data.toy import AlignedPair, toy_corpus
from regard.errors import ConfigError, DataError
from regard.evaluation.alignment import aer, parse_links
from regard.models.contract import NOWHERE

FIRST, SECOND = [2, 0, 1], [1, 3, 0, 1]


def random_model() -> Hmm:
    torch.manual_seed(3)
    table = torch.rand(4, 4, dtype=torch.float64)
    return Hmm(table / table.sum(1, keepdim=True), torch.rand(9, dtype=torch.float64))


def slow_jump(model: Hmm, origin: int, place: int, length: int) -> tuple[float, float]:
    """The probability of a jump, and the part of it that knows the distance."""
    assert model.jumps is not None
    middle = len(model.jumps) // 2
    weights = [float(model.jumps[middle + other - origin]) for other in range(length)]
    knowing = (1 - UNIFORM_JUMP) * weights[place] / sum(weights)
    return knowing + UNIFORM_JUMP / length, knowing


def slow_expectation(model: Hmm, first: list[int], second: list[int]) -> tuple[Tensor, Tensor, Tensor, float]:
    """Every path, written out: at each step a place, and whether its piece is said there or nothing is."""
    length, steps = len(first), len(second)
    links, nothing = torch.zeros(steps, length).double(), torch.zeros(steps).double()
    jumps, total = torch.zeros(length, length).double(), 0.0
    for path in product(product(range(length), (True, False)), repeat=steps):
        probability, knowing = 1.0, []
        for step, (place, said) in enumerate(path):
            before = path[step - 1][0] if step else None
            if said:
                probability *= (1 - NULL_PROBABILITY) * float(model.table[first[place], second[step]])
                if before is None:
                    probability *= 1 / length
                else:
                    jump, by_distance = slow_jump(model, before, place, length)
                    probability *= jump
                    knowing.append((before, place, by_distance / jump))
            else:
                probability *= NULL_PROBABILITY * float(model.table[-1, second[step]])
                probability *= 1 / length if before is None else float(before == place)
        total += probability
        for step, (place, said) in enumerate(path):
            if said:
                links[step, place] += probability
            else:
                nothing[step] += probability
        for origin, place, share in knowing:
            jumps[origin, place] += probability * share
    return links / total, nothing / total, jumps / total, math.log(total)


def test_expectation_is_that_over_all_paths() -> None:
    model = random_model()
    found = expect(model, torch.tensor([FIRST]), torch.tensor([SECOND]), torch.ones(1, 4, dtype=torch.bool))
    links, nothing, jumps, likelihood = slow_expectation(model, FIRST, SECOND)
    torch.testing.assert_close(found.links[0], links)
    torch.testing.assert_close(found.null[0], nothing)
    torch.testing.assert_close(found.jumps, jumps)
    assert found.log_likelihood == pytest.approx(likelihood)


def test_padding_changes_nothing() -> None:
    model = random_model()
    short = SECOND[:2]
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    found = expect(model, torch.tensor([FIRST, FIRST]), torch.tensor([SECOND, [*short, 0, 0]]), mask)
    one, other = slow_expectation(model, FIRST, SECOND), slow_expectation(model, FIRST, short)
    torch.testing.assert_close(found.links[1, :2], other[0])
    assert not found.links[1, 2:].any()
    torch.testing.assert_close(found.null[1], torch.cat([other[1], torch.zeros(2).double()]))
    torch.testing.assert_close(found.jumps, one[2] + other[2])
    assert found.log_likelihood == pytest.approx(one[3] + other[3])


def test_model_1_is_a_model_whose_jumps_are_all_alike() -> None:
    table = random_model().table
    given = torch.tensor([FIRST]), torch.tensor([SECOND]), torch.ones(1, 4, dtype=torch.bool)
    one, other = expect(Hmm(table), *given), expect(Hmm(table, torch.ones(9, dtype=torch.float64)), *given)
    torch.testing.assert_close(one.links, other.links)
    torch.testing.assert_close(one.null, other.null)
    assert one.log_likelihood == pytest.approx(other.log_likelihood)


def test_model_1_learns_the_table_of_a_slow_loop() -> None:
    """Brown et al. 1993, word by word, with an empty word that has a fixed share."""
    pairs = [([4, 5, 3], [6, 4, 3]), ([4, 3], [4, 3]), ([5, 5, 6, 3], [6, 6, 5, 3])]  # 3 ends a sentence
    nothing, size = 8, 7
    table = {(e, f): 1 / size for e in range(nothing + 1) for f in range(size)}
    for _ in range(3):
        counts = dict.fromkeys(table, 0.0)
        for source, target in pairs:
            share = dict.fromkeys((*source[:-1], nothing), 0.0)
            for e in source[:-1]:
                share[e] += (1 - NULL_PROBABILITY) / len(source[:-1])
            share[nothing] = NULL_PROBABILITY
            for f in target[:-1]:
                total = sum(share[e] * table[e, f] for e in share)
                for e in share:
                    counts[e, f] += share[e] * table[e, f] / total
        sums = [sum(counts[e, f] for f in range(size)) for e in range(nothing + 1)]
        table = {(e, f): max(count / sums[e] if sums[e] else 0.0, 1e-9) for (e, f), count in counts.items()}
    found = learn(
        EncodedSide.of([source for source, _ in pairs]),
        EncodedSide.of([target for _, target in pairs]),
        nothing,
        size,
        np.arange(3),
        model_1_rounds=3,
        rounds=0,
    )
    expected = torch.tensor([[table[e, f] for f in range(size)] for e in range(nothing + 1)])
    torch.testing.assert_close(found.table, expected)


@pytest.fixture(scope="module")
def phrases() -> list[AlignedPair]:
    """Sentences whose links are known."""
    return list(toy_corpus("phrases", "en-fr").generate("train", 800, max_words=12))


@pytest.fixture(scope="module")
def tokenizers(phrases: list[AlignedPair]) -> Tokenizers:
    settings = TextSettings(vocabulary_size=1000)
    source = Tokenizer.train((pair.source for pair in phrases), settings)
    return Tokenizers(source, Tokenizer.train((pair.target for pair in phrases), settings))


@pytest.fixture(scope="module")
def corpus(
    phrases: list[AlignedPair], tokenizers: Tokenizers, tmp_path_factory: pytest.TempPathFactory
) -> EncodedCorpus:
    pairs = [Pair(pair.source, pair.target) for pair in phrases]
    folder = tmp_path_factory.mktemp("aligner") / "train"
    return build_corpus(text_of(pairs), tokenizers.source, tokenizers.target, folder, TextSettings(max_length=200))


def error_rate(guide: Ids, corpus: EncodedCorpus, phrases: list[AlignedPair], tokenizers: Tokenizers) -> float:
    found = []
    for index, pair in enumerate(phrases):
        places = guide[corpus.target.offsets[index] : corpus.target.offsets[index + 1]].tolist()
        sources, targets = tokenizers.source.tokens(pair.source), tokenizers.target.tokens(pair.target)
        links = {(sources[i].word, targets[j].word) for j, i in enumerate(places) if i != NOWHERE}
        found.append(frozenset((i, j) for i, j in links if i is not None and j is not None))
    sure, possible = [frozenset(pair.sure) for pair in phrases], [frozenset(pair.possible) for pair in phrases]
    return aer(found, sure, possible).aer


def test_the_links_of_a_small_text_are_found(
    corpus: EncodedCorpus, phrases: list[AlignedPair], tokenizers: Tokenizers
) -> None:
    heard: list[float] = []
    guide = align(corpus.source, corpus.target, tokenizers.source.size, tokenizers.target.size, heard.append)
    assert len(guide) == len(corpus.target.ids)
    assert heard == sorted(heard)
    assert heard[-1] == pytest.approx(1)
    assert error_rate(guide, corpus, phrases, tokenizers) < 0.1
    ends = corpus.target.offsets[1:] - 1
    assert (guide[ends] == NOWHERE).all()
    assert (guide != NOWHERE).mean() > 0.5
    lengths = np.repeat(corpus.source.lengths, corpus.target.lengths)
    assert (guide < lengths - 1).all()


def test_how_pairs_are_put_together_changes_nothing(
    corpus: EncodedCorpus, tokenizers: Tokenizers, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = tokenizers.source.size, tokenizers.target.size
    whole = align(corpus.source, corpus.target, *sizes)
    monkeypatch.setattr(aligner, "MAX_BATCH_CELLS", 2000)
    monkeypatch.setattr(aligner, "MAX_HELD", 5000)
    assert (align(corpus.source, corpus.target, *sizes) == whole).mean() > 0.999  # sums in another order


def test_each_round_explains_the_text_better(corpus: EncodedCorpus, tokenizers: Tokenizers) -> None:
    indices = np.arange(200)
    sizes = tokenizers.source.size, tokenizers.target.size

    def likelihood(model_1_rounds: int, rounds: int) -> float:
        model = learn(corpus.source, corpus.target, *sizes, indices, model_1_rounds=model_1_rounds, rounds=rounds)
        parts = [
            expect(model, *batch).log_likelihood
            for _, *batch in aligner._batches(corpus.source, corpus.target, indices)
        ]
        return sum(parts)

    found = [likelihood(1, 0), likelihood(3, 0), likelihood(3, 1), likelihood(3, 2), likelihood(3, 4)]
    assert found == sorted(found)


def test_more_pairs_than_are_learned_from_are_still_aligned(
    corpus: EncodedCorpus, phrases: list[AlignedPair], tokenizers: Tokenizers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aligner, "MOST_PAIRS", 500)
    guide = align(corpus.source, corpus.target, tokenizers.source.size, tokenizers.target.size)
    assert error_rate(guide, corpus, phrases, tokenizers) < 0.1


def test_vocabularies_that_are_too_large_are_refused(corpus: EncodedCorpus) -> None:
    with pytest.raises(ConfigError, match=r"20,000 and 30,000 subwords are too large to align words.*vocabulary_size"):
        align(corpus.source, corpus.target, 20_000, 30_000)


def test_a_sentence_of_no_pieces_has_no_links() -> None:
    first, second = EncodedSide.of([[3], [4, 3]]), EncodedSide.of([[4, 3], [3]])
    model = learn(first, second, 5, 5, np.arange(2), model_1_rounds=1, rounds=1)
    assert model.table.isfinite().all()
    sources, targets = EncodedSide.of([[3], [4, 3], [4, 4, 3]]), EncodedSide.of([[4, 4, 3], [3], [4, 4, 3]])
    guide = align(sources, targets, 5, 5)
    assert (guide[:4] == NOWHERE).all()


def test_text_is_aligned_by_words(phrases: list[AlignedPair]) -> None:
    some = [(pair.source, pair.target) for pair in phrases]
    asked = [some[0], ("", "rien"), ("nothing", "  "), ("word " * 600, "mot"), *some[1:100]]
    found = align_text(asked, some[100:], pieces=1000)
    assert len(found) == len(asked)
    assert found[1:4] == [frozenset()] * 3
    gold = [phrases[0], *phrases[1:100]]
    sure, possible = [frozenset(pair.sure) for pair in gold], [frozenset(pair.possible) for pair in gold]
    assert aer([found[0], *found[4:]], sure, possible).aer < 0.1


def test_text_without_words_has_no_links() -> None:
    assert align_text([("", ""), ("  ", "a")], pieces=100) == [frozenset(), frozenset()]


def test_the_command_writes_links_and_their_error_rate(
    phrases: list[AlignedPair], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for side in ("source", "target"):
        lines = [getattr(pair, side) for pair in phrases]
        (tmp_path / f"test.{side}").write_text("".join(f"{line}\n" for line in lines[:50]), "utf-8")
        (tmp_path / f"train.{side}").write_text("".join(f"{line}\n" for line in lines[50:]), "utf-8")
    gold = [" ".join(f"{i}-{j}" for i, j in pair.sure) for pair in phrases[:50]]
    (tmp_path / "gold").write_text("".join(f"{line}\n" for line in gold), "utf-8")
    test, train = ([str(tmp_path / f"{name}.{side}") for side in ("source", "target")] for name in ("test", "train"))
    arguments = ["align", *test, "--train", *train, "--pieces", "1000", "--gold", str(tmp_path / "gold")]
    assert main(arguments) == 0
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 50
    assert parse_links(said.out.splitlines()[0]).sure
    assert re.search(r"AER 0\.[0-2]\d\d  precision 0\.\d+  recall 0\.\d+", said.err)
    assert main([*arguments, "-o", str(tmp_path / "links")]) == 0
    assert (tmp_path / "links").read_text("utf-8") == said.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["test.source", "nowhere"], "nowhere"),
        (["test.source", "test.target", "--gold", "short"], "each pair needs one line"),
        (["test.source", "test.target", "--pieces", "2"], "--pieces"),
        (["test.source", "test.target", "-o", "nowhere/links"], "nowhere"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in (("test.source", "a b\nc d\n"), ("test.target", "e f\ng h\n"), ("short", "0-0\n")):
        Path(name).write_text(content)
    assert main(["align", *arguments]) == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert message in told[-1]
    assert "Traceback" not in "".join(told)


def test_blocks_are_aligned_as_the_whole_text_is(
    phrases: list[AlignedPair], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [(pair.source, pair.target) for pair in phrases[:300]]
    whole = align_text([*lines[:100], (" ", "x")], lines[100:], pieces=400)
    assert whole[-1] == frozenset()
    for side in (0, 1):
        asked = "".join(f"{pair[side]}\n" for pair in (*lines[:100], (" ", "x")))
        (tmp_path / str(side)).write_text(asked)
        (tmp_path / f"more{side}").write_text("".join(f"{pair[side]}\n" for pair in lines[100:]))
    monkeypatch.setattr(parallel, "LINES", 30)
    files = [(str(tmp_path / f"{name}0"), str(tmp_path / f"{name}1")) for name in ("", "more")]
    shares: list[float] = []
    streamed = align_corpus(open_text(Mix(files), "train"), pieces=400, on_progress=shares.append)
    assert list(streamed) == whole
    assert shares == sorted(shares)
    assert 0.9 < shares[-1] <= 1


def test_a_sample_is_taken_from_everywhere() -> None:
    assert spaced(5, 10).tolist() == [0, 1, 2, 3, 4]
    assert spaced(101, 5).tolist() == [0, 25, 50, 75, 100]


def test_what_is_no_pair_to_align_is_shown() -> None:
    for wrong in ("abc", [("a",)], [("a", None)]):
        with pytest.raises(DataError, match=r"is not a sentence pair: give \(source, target\) tuples"):
            align_text(wrong)  # type: ignore[arg-type]  # that is the point
