"""Gradient norms over source words: against finite differences, and what they show of each architecture."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn import functional

from regard.cli import main
from regard.comparison.entrants import parse_entrants
from regard.comparison.gradients import measure_gradients
from regard.config.recipes import load_recipe
from regard.config.settings import Recipe
from regard.config.vocabulary import BOS, EOS
from regard.look.gradients import random_pairs, word_gradients
from regard.models import build_model
from regard.models.contract import Batch, Model

SMALL = ["model.embedding_size=12", "model.hidden_size=12"]


def small(name: str, *changes: str) -> Model:
    sizes = ["model.hidden_size=12", "model.heads=2"] if name.startswith("transformer") else SMALL
    recipe = load_recipe(name, [*sizes, *changes])
    assert isinstance(recipe, Recipe)
    torch.manual_seed(3)
    return build_model(recipe.model, 30, 30)


@pytest.mark.parametrize("name", ["seq2seq", "luong", "bahdanau", "transformer-tiny"])
def test_gradients_equal_finite_differences(name: str) -> None:
    changes = ["model.encoder_size=12"] if name == "bahdanau" else []
    model = small(name, "model.tie_embeddings=none", *changes).double().eval()
    source, target = [5, 6, 7, 8], [9, 10, 11]
    norms = word_gradients(model, source, target)
    assert norms.shape == (5,)  # with EOS
    table = model.embeddings.source.weight  # type: ignore[union-attr]

    def loss() -> float:
        ids = torch.tensor([[*source, EOS]])
        first, last = torch.tensor([[BOS, *target]]), torch.tensor([[*target, EOS]])
        mask = torch.ones_like(last, dtype=torch.bool)
        batch = Batch(ids, torch.ones_like(ids, dtype=torch.bool), first, last, mask)
        with torch.no_grad():
            return float(functional.cross_entropy(model.project(model(batch).hidden[0]), last[0]))

    numeric = []
    with torch.no_grad():
        for place in range(table.size(1)):  # every word occurs once, so its row of the table is its embedding
            table[6, place] += 1e-5
            above = loss()
            table[6, place] -= 2e-5
            numeric.append((above - loss()) / 2e-5)
            table[6, place] += 1e-5
    assert norms[1] == pytest.approx(torch.tensor(numeric).norm().item(), rel=1e-5)


def test_a_fixed_vector_forgets_distant_words_and_attention_does_not() -> None:
    words = ["seq2seq:model.cell=rnn,model.reverse_source=false", "luong:model.cell=rnn,model.reverse_source=false"]
    entrants = parse_entrants(words, [*SMALL])
    fixed, attending = measure_gradients(entrants, None, length=20, count=4, vocabulary=40)
    assert len(fixed.norms) == 20
    assert attending.relative(19) > 10 * fixed.relative(19)


def test_random_pairs_copy_words_without_special_pieces() -> None:
    pairs = random_pairs(20, 7, 3)
    assert all(source == target and len(source) == 7 and min(source) >= 4 for source, target in pairs)
    assert pairs == random_pairs(20, 7, 3)


def test_the_command_prints_a_table_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "gradients.png"
    options = ["--length", "6", "--sentences", "1", "-o", str(picture)]
    assert main(["gradients", "seq2seq:model.hidden_size=8,model.embedding_size=8", *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["distance", "0", "1", "2", "5"]
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main(["gradients", "bam"]) == 2
    assert "is no translation model" in capsys.readouterr().err
