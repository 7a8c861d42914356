"""The gradient norms of several entrants on the same sentences."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from regard.comparison.entrants import Entrant
from regard.comparison.grid import labels
from regard.config.settings import Recipe
from regard.errors import ConfigError, DataError
from regard.evaluation.test_set import TestSet, given_test_set
from regard.inference.translator import Translator
from regard.look.gradients import GradientReach, Pair, gradient_reach, random_pairs
from regard.models import build_model


def measure_gradients(
    entrants: Sequence[Entrant],
    test: Sequence[str] | None,
    *,
    length: int,
    count: int,
    vocabulary: int,
    seed: int = 1,
) -> list[GradientReach]:
    """Recipes are initialised and read random words; trained models read the sentences of the test set."""
    trained = [entrant for entrant in entrants if entrant.folder is not None]
    if trained and not test:
        raise ConfigError(f"{trained[0].name}: a trained model needs sentences: give --test SOURCE TARGET.")
    pairs = random_pairs(vocabulary, length, count, seed)
    text = given_test_set(*test) if test else None
    found = []
    for entrant, label in zip(entrants, labels([each.name for each in entrants]), strict=True):
        if isinstance(entrant.recipe, Recipe):
            torch.manual_seed(seed)
            model = build_model(entrant.recipe.model, vocabulary, vocabulary)
            found.append(gradient_reach(label, model, pairs))
        else:
            assert entrant.folder is not None
            assert text is not None
            translator = Translator.load(entrant.folder)
            chosen = _encoded(translator, text, length, count)
            found.append(gradient_reach(label, translator.read_only_model, chosen))
    return found


def _encoded(translator: Translator, text: TestSet, length: int, count: int) -> list[Pair]:
    """The ids of the first pairs that are long enough, without EOS."""
    pairs: list[Pair] = []
    for source, target in zip(text.sources, text.references[0], strict=True):
        ids = translator.source_tokenizer.encode(source)[:-1]
        if len(ids) >= length:
            pairs.append((ids, translator.target_tokenizer.encode(target)[:-1]))
        if len(pairs) == count:
            return pairs
    if not pairs:
        raise DataError(f"no sentence of the test set has {length} subwords: lower --length.")
    return pairs
