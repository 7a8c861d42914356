"""Batches: bounded, complete, repeatable, little padding."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config.settings import TextSettings
from regard.config.vocabulary import BOS, EOS, PAD
from regard.data.text.batches import BatchPlan, Lengths, collate, draw, plan_batches, source_batch
from regard.data.text.build import build_corpus
from regard.data.text.corpus import EncodedCorpus
from regard.data.text.parallel import Pair
from regard.data.text.sources import Mix, open_text, text_of
from regard.data.text.tokenizer import Tokenizer


def lengths(count: int) -> tuple[Lengths, Lengths]:
    """Log-normal lengths, about 24 tokens a side, the target some 5 % longer."""
    generator = np.random.default_rng(0)
    source = np.clip(generator.lognormal(3, 0.6, count), 2, 128)
    target = np.clip(source * generator.normal(1.05, 0.2, count), 2, 128)
    return source.astype(np.int32), target.astype(np.int32)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> EncodedCorpus:
    pairs = [Pair(" ".join("abcdefghij"[: 1 + n % 9]), " ".join("jihgfedcba"[: 1 + n % 7])) for n in range(200)]
    tokenizer = Tokenizer.train([pair.source for pair in pairs], TextSettings(tokenizer="word"))
    return build_corpus(
        text_of(pairs), tokenizer, tokenizer, tmp_path_factory.mktemp("batches") / "c", TextSettings(max_length=50)
    )


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=80),
    st.integers(1, 200),
    st.none() | st.integers(1, 5),
    st.booleans(),
)
def test_every_pair_is_in_one_batch_within_the_bounds(
    pairs: list[tuple[int, int]], tokens: int, sentences: int | None, shuffle: bool
) -> None:
    source, target = np.array(pairs, np.int32).T
    generator = np.random.default_rng(3) if shuffle else None
    batches = plan_batches(source, target, tokens, sentences, generator)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(pairs)))
    for batch in batches:
        padded = len(batch) * max(source[batch].max(), target[batch].max())
        assert padded <= tokens or len(batch) == 1
        assert len(batch) <= (sentences or len(pairs))


def test_padding_is_small_and_batches_are_full() -> None:
    source, target = lengths(200_000)
    batches = plan_batches(source, target, 4096, None, np.random.default_rng(1))
    padded = sum(len(batch) * (int(source[batch].max()) + int(target[batch].max())) for batch in batches)
    assert 1 - (source.sum() + target.sum()) / padded < 0.05
    filled = [len(batch) * max(source[batch].max(), target[batch].max()) for batch in batches]
    assert np.mean(filled) > 0.97 * 4096


def test_epochs_repeat_by_seed_and_differ_by_number(corpus: EncodedCorpus) -> None:
    def plan(seed: int, number: int) -> list[list[int]]:
        return [batch.tolist() for batch in BatchPlan(corpus, batch_tokens=64, seed=seed).epoch(number)]

    assert plan(1, 4) == plan(1, 4)
    assert plan(1, 4) != plan(1, 5)
    assert plan(1, 4) != plan(2, 4)
    # not only their order changes
    assert {tuple(sorted(batch)) for batch in plan(1, 4)} != {tuple(sorted(batch)) for batch in plan(1, 5)}


def test_without_shuffling_every_epoch_is_the_same(corpus: EncodedCorpus) -> None:
    plan = BatchPlan(corpus, batch_tokens=64, seed=1, shuffle=False)
    assert [b.tolist() for b in plan.epoch(0)] == [b.tolist() for b in plan.epoch(7)]


def test_the_order_of_batches_is_shuffled() -> None:
    source, target = lengths(5000)
    batches = plan_batches(source, target, 1024, None, np.random.default_rng(1))
    means = [float(target[batch].mean()) for batch in batches]
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.3


def test_batch_holds_the_pairs(corpus: EncodedCorpus) -> None:
    plan = BatchPlan(corpus, batch_tokens=64, seed=1)
    for indices in plan.epoch(0):
        batch = plan.batch(indices)
        assert batch.indices == tuple(indices.tolist())
        assert batch.source.dtype == batch.target_in.dtype == torch.long
        assert batch.source_mask is not None
        for row, index in enumerate(indices):
            source, target = corpus.source.sentence(index).tolist(), corpus.target.sentence(index).tolist()
            assert batch.source[row][batch.source_mask[row]].tolist() == source
            assert batch.target_out[row][batch.target_mask[row]].tolist() == target
            assert batch.target_in[row][batch.target_mask[row]].tolist() == [BOS, *target[:-1]]
        assert (batch.source[~batch.source_mask] == PAD).all()
        assert (batch.target_in[~batch.target_mask] == PAD).all()
        assert (batch.target_out[~batch.target_mask] == PAD).all()


def test_collate_equals_the_plan(corpus: EncodedCorpus) -> None:
    indices = np.array([3, 8, 5])
    planned = BatchPlan(corpus, batch_tokens=64, seed=1).batch(indices)
    collated = collate(
        [corpus.source.sentence(i).tolist() for i in indices], [corpus.target.sentence(i).tolist() for i in indices]
    )
    for name in ("source", "source_mask", "target_in", "target_out", "target_mask"):
        assert torch.equal(getattr(planned, name), getattr(collated, name))


def test_source_batch_pads_on_the_right() -> None:
    ids, mask = source_batch([[5, EOS], [6, 7, 8, EOS]])
    assert ids.tolist() == [[5, EOS, PAD, PAD], [6, 7, 8, EOS]]
    assert mask.tolist() == [[True, True, False, False], [True] * 4]


# --- several corpora ----------------------------------------------------------------------------------------------


def test_an_epoch_draws_from_each_corpus_in_proportion() -> None:
    parts, weights = (300, 100, 50), (1.0, 3.0, 1.0)
    drawn = draw(parts, weights, np.random.default_rng(1))
    assert len(drawn) == 450
    counts = np.bincount(drawn, minlength=450)
    assert [int(each.sum()) for each in np.split(counts, [300, 400])] == [90, 270, 90]
    assert set(counts[:300].tolist()) == {0, 1}  # without replacement
    assert set(counts[300:400].tolist()) == {2, 3}  # each pair equally often, the remainder at random
    assert set(counts[400:].tolist()) == {1, 2}
    assert drawn.tolist() == draw(parts, weights, np.random.default_rng(1)).tolist()
    assert drawn.tolist() != draw(parts, weights, np.random.default_rng(2)).tolist()


def test_a_mix_is_planned_by_seed_and_epoch(tmp_path: Path) -> None:
    texts = [[(f"a {n % 5}", "x y")] * 40 for n in range(2)]
    tokenizer = Tokenizer.train(["a x y 0 1"], TextSettings(tokenizer="word", min_frequency=1))
    text = open_text(Mix([texts[0], texts[1][:20]], weights=(1, 2)), "train")
    corpus = build_corpus(text, tokenizer, tokenizer, tmp_path / "c", TextSettings())
    assert (corpus.parts, corpus.weights) == ((40, 20), (1.0, 2.0))

    def epoch(seed: int, number: int) -> list[list[int]]:
        plan = BatchPlan(EncodedCorpus.open(tmp_path / "c"), batch_tokens=24, seed=seed)
        return [batch.tolist() for batch in plan.epoch(number)]

    drawn = list(chain.from_iterable(epoch(1, 0)))
    assert len(drawn) == 60
    assert sum(index >= 40 for index in drawn) == 40
    assert epoch(1, 0) == epoch(1, 0)
    assert epoch(1, 0) != epoch(1, 1)
    assert sorted(drawn) != sorted(chain.from_iterable(epoch(2, 0)))
