"""Sampling follows the model's probabilities and its seed, and nothing else."""

from __future__ import annotations

import pytest
import torch

from regard.config.settings import SearchSettings
from regard.decoding.sampling import draw


def settings(**changes: object) -> SearchSettings:
    return SearchSettings.model_validate({"sample": True} | changes)


def test_draws_have_the_probabilities_of_the_softmax() -> None:
    logits = torch.tensor([0.3, -torch.inf, 1.1, -0.4])
    chance = (torch.arange(20000, dtype=torch.float64) + 0.5) / 20000
    for temperature in (1.0, 0.5):
        drawn = draw(logits.expand(20000, 4), chance, settings(temperature=temperature))
        share = torch.bincount(drawn, minlength=4) / 20000
        torch.testing.assert_close(share, (logits / temperature).softmax(-1), atol=1e-3, rtol=0)


def test_the_coldest_temperature_is_greedy() -> None:
    logits = torch.randn(50, 30, generator=torch.Generator().manual_seed(0))
    chance = torch.linspace(0, 1 - 1e-12, 50, dtype=torch.float64)
    assert torch.equal(draw(logits, chance, settings(temperature=1e-40)), logits.argmax(-1))


def test_top_k_and_top_p_keep_the_likeliest_alone() -> None:
    logits = torch.tensor([0.4, 0.3, 0.2, 0.1]).log().expand(1000, 4)
    chance = torch.linspace(0, 1 - 1e-12, 1000, dtype=torch.float64)
    assert draw(logits, chance, settings(top_k=2)).unique().tolist() == [0, 1]
    assert draw(logits, chance, settings(top_p=0.65)).unique().tolist() == [0, 1]
    assert draw(logits, chance, settings(top_p=0.75)).unique().tolist() == [0, 1, 2]
    assert draw(logits, chance, settings(top_p=1e-9)).unique().tolist() == [0]
    share = (draw(logits, chance, settings(top_k=2)) == 0).double().mean()
    assert share == pytest.approx(4 / 7, abs=2e-3)
