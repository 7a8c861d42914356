"""Each score against one query and one key at a time, by its formula; what is prepared once stays what it is."""

import math
import warnings

import numpy as np
import pytest
import torch
from torch.nn import functional

from regard.errors import ConfigError
from regard.look.steps import five_steps
from regard.nn.attention import (
    Additive,
    Cosine,
    Dot,
    General,
    Location,
    ScaledDot,
    Score,
    make_score,
    masked_softmax,
    scores,
)

B, T, S, D, KEY, A = 2, 3, 5, 4, 6, 7
SAME_SIZE = ("dot", "scaled_dot", "cosine")
NAMES = ("dot", "scaled_dot", "general", "additive", "concat", "location", "cosine")


def random(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def build(name: str) -> tuple[Score, torch.Tensor, torch.Tensor]:
    """A score, queries (B, T, D) and keys (B, S, Dk)."""
    torch.manual_seed(3)
    key_size = D if name in SAME_SIZE else KEY
    score = make_score(name, D, key_size, size=A, max_positions=S).double()
    return score, random(B, T, D, seed=4), random(B, S, key_size, seed=5)


def by_formula(name: str, score: Score, q: np.ndarray, k: np.ndarray, j: int) -> float:
    """The table of scores, letter by letter, for one query, one key and its position j."""
    parameters = {key: value.detach().numpy() for key, value in score.named_parameters()}
    match name:
        case "dot":
            return sum(q[d] * k[d] for d in range(D))
        case "scaled_dot":
            return sum(q[d] * k[d] for d in range(D)) / math.sqrt(D)
        case "general":
            return sum(q[a] * parameters["weight"][a, b] * k[b] for a in range(D) for b in range(KEY))
        case "additive" | "concat":
            total = 0.0
            for a in range(A):
                inner = sum(parameters["query.weight"][a, d] * q[d] for d in range(D))
                inner += sum(parameters["key.weight"][a, d] * k[d] for d in range(KEY))
                total += parameters["v"][a] * math.tanh(inner)
            return total
        case "location":
            return sum(parameters["position.weight"][j, d] * q[d] for d in range(D))
        case "cosine":
            cosine = sum(q[d] * k[d] for d in range(D)) / math.sqrt(sum(q**2)) / math.sqrt(sum(k**2))
            return math.exp(parameters["log_sharpness"]) * cosine
    raise AssertionError(name)


@pytest.mark.parametrize("name", NAMES)
def test_score_is_its_formula(name: str):
    score, query, keys = build(name)
    got = score(query, score.prepare(keys)).detach().numpy()
    assert got.shape == (B, T, S)
    for b in range(B):
        for t in range(T):
            for j in range(S):
                expected = by_formula(name, score, query[b, t].numpy(), keys[b, j].numpy(), j)
                assert got[b, t, j] == pytest.approx(expected, rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_scores_agree_with_the_five_steps(name: str):
    score, query, keys = build(name)
    parameters = {key: value.detach().numpy() for key, value in score.named_parameters()}
    weight = {
        "general": ["weight"],
        "additive": ["query.weight", "key.weight", "v"],
        "concat": ["query.weight", "key.weight", "v"],
        "location": ["position.weight"],
    }.get(name, [])
    matrices = [parameters[key] for key in weight]
    if name == "concat":
        matrices = [np.hstack(matrices[:2]), matrices[2]]
    steps = five_steps(query[0].numpy(), keys[0].numpy(), score=name, weight=matrices)
    ours = score(query, score.prepare(keys))[0].detach().numpy()
    sharpness = math.exp(parameters["log_sharpness"]) if name == "cosine" else 1.0
    np.testing.assert_allclose(ours, sharpness * steps.scores, rtol=1e-12, atol=1e-13)


def test_scaled_dot_with_softmax_is_torch_attention():
    query, keys, values = random(B, T, D, seed=6), random(B, S, D, seed=7), random(B, S, KEY, seed=8)
    mask = torch.tensor([[True] * 5, [True, True, True, False, False]])
    weights = masked_softmax(ScaledDot(D, D)(query, keys), mask.unsqueeze(1))
    expected = functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask.unsqueeze(1))
    torch.testing.assert_close(weights @ values, expected, rtol=1e-12, atol=1e-14)


def test_concat_is_one_matrix_over_query_and_key_side_by_side():
    score, query, keys = build("concat")
    assert isinstance(score, Additive)
    matrix = torch.cat([score.query.weight, score.key.weight], 1)  # Luong's W_a of [q; k]
    pairs = torch.cat([query.unsqueeze(2).expand(B, T, S, D), keys.unsqueeze(1).expand(B, T, S, KEY)], -1)
    torch.testing.assert_close(score(query, score.prepare(keys)), torch.tanh(pairs @ matrix.t()) @ score.v)


def test_cosine_ignores_lengths_and_may_do_without_sharpness():
    score = Cosine(D, D, sharpness=1.0)
    assert not list(score.parameters())
    query, keys = random(B, T, D), random(B, S, D, seed=2)
    plain = score(query, score.prepare(keys))
    torch.testing.assert_close(score(7 * query, score.prepare(0.01 * keys)), plain)
    assert plain.abs().max() <= 1
    torch.testing.assert_close(Cosine(D, D, sharpness=2.5)(query, score.prepare(keys)), 2.5 * plain)
    torch.testing.assert_close(Cosine(D, D)(query, score.prepare(keys)), 5 * plain, rtol=1e-6, atol=0)
    zero = score(torch.zeros(1, 1, D).double(), score.prepare(torch.zeros(1, 2, D).double()))
    assert torch.equal(zero, torch.zeros(1, 1, 2).double())


def test_additive_in_slices_is_additive_at_once(monkeypatch: pytest.MonkeyPatch):
    score, query, keys = build("additive")
    whole = score(query, score.prepare(keys))
    monkeypatch.setattr(scores, "ADDITIVE_SLICE", 1)
    torch.testing.assert_close(score(query, score.prepare(keys)), whole, rtol=0, atol=1e-15)


@pytest.mark.parametrize(("name", "matrix"), [("general", "weight"), ("additive", "key.weight")])
def test_prepare_does_all_the_work_on_keys(name: str, matrix: str):
    """After prepare, the keys' matrix is not read again: no step repeats its product."""
    score, query, keys = build(name)
    prepared = score.prepare(keys)
    before = score(query, prepared)
    with torch.no_grad():
        score.get_parameter(matrix).fill_(float("nan"))
    assert torch.equal(score(query, prepared), before)


def test_location_beyond_its_reach_scores_nothing_and_warns_once():
    score = Location(D, max_positions=3)
    query = random(1, 1, D).float()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for length in (3, 4, 5, 6):
            score.prepare(torch.zeros(1, length, D))
    assert len(caught) == 1, "one warning, whatever the lengths that follow"
    assert "max_source_positions" in str(caught[0].message)
    assert score.reach == 3
    got = score(query, torch.zeros(1, 5, D))
    assert got.shape == (1, 1, 5)
    assert torch.equal(got[..., :3], score.position(query))


def test_location_does_not_look_at_the_keys():
    score, query, keys = build("location")
    assert torch.equal(score(query, score.prepare(keys)), score(query, score.prepare(torch.zeros_like(keys))))


@pytest.mark.parametrize("kind", [Dot, ScaledDot, Cosine])
def test_sizes_that_do_not_fit_are_named(kind: type[Dot]):
    with pytest.raises(ConfigError, match=r"one size, not 4 and 6: choose \"general\" or \"additive\""):
        kind(4, 6)


def test_general_with_identity_is_dot():
    score = General(D, D).double()
    with torch.no_grad():
        score.weight.copy_(torch.eye(D))
    query, keys = random(B, T, D), random(B, S, D, seed=2)
    torch.testing.assert_close(score(query, score.prepare(keys)), Dot(D, D)(query, keys))
