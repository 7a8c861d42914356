"""What is learned from images: captions that are true and look at what they name; two ears that must be seen together.

Slow: `make test-slow` runs them.
"""

from pathlib import Path

import pytest

from regard.comparison import compare
from regard.config.captioning import CaptionRecipe
from regard.config.recipes import load_recipe_as
from regard.inference.captioner import Captioner
from regard.inference.captioner_evaluation import evaluate_captioner
from regard.training import train

pytestmark = pytest.mark.slow

CAPTIONER_UPDATES = 4600  # what its thirteen minutes came to on two busy cores


def test_a_captioner_tells_the_truth_and_looks_at_what_it_names(tmp_path: Path) -> None:
    changes = [f"training.updates={CAPTIONER_UPDATES}", "training.budget=none"]
    recipe = load_recipe_as(CaptionRecipe, "captioner", changes)
    captioner = train(recipe, train="toy:scenes", out=tmp_path / "scenes", progress=False)
    assert isinstance(captioner, Captioner)
    found = evaluate_captioner(captioner, split="test")
    assert found["valid"] >= 0.95
    assert found["pointing_accuracy"] >= 0.88  # of all cells only 9 % are in the right box
    unseen = evaluate_captioner(captioner, split="unseen")
    assert unseen["valid"] >= 0.75  # pairs of colour and shape that it has never seen


def test_only_where_distant_places_meet_are_two_ears_seen_together(tmp_path: Path) -> None:
    networks = ["two-ears:model.attention=none", "two-ears:model.attention=self_attention"]
    found = compare(networks, train="toy:two-ears", out=tmp_path, budget="2m", threads=1, progress=False)
    plain, attending = (entry.mean("accuracy") for entry in found.entries)
    assert plain is not None
    assert attending is not None
    assert plain <= 0.78  # 75 % is the most that adding up what each place shows can reach
    assert attending >= plain + 0.15
