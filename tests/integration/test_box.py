"""The models of packages/regard-models: each scores at least its floor; all are small and credited."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

import regard
from regard.comparison.entrants import parse_entrants
from regard.comparison.queue import own_images
from regard.inference.box import BoxedModel, boxed_models
from regard.storage.folder import COMPILED

PACKAGE = Path(__file__).parents[2] / "packages/regard-models"
MODELS = boxed_models(root=PACKAGE / "regard_models")

pytestmark = pytest.mark.skipif(not MODELS, reason="no models are packed yet: make models DATA=DIR")


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_it_scores_at_least_its_floor(model: BoxedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PACKAGE))
    from measure import floor_score

    data = {"scenes": "toy:scenes", "two-ears": "toy:two-ears"}.get(model.group, "")
    found = floor_score(regard.load(model.folder), data, model.languages)
    assert found.metric == model.record.floor.metric
    assert found.value >= model.record.floor.value


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_it_is_whole_credited_and_names_no_machine(model: BoxedModel) -> None:
    before, test = model.record.test.before, model.record.test
    assert before is not None
    assert test.value >= before - 0.2
    if model.languages is not None:
        assert "-".join(model.languages) == model.group
        assert "tatoeba.org" in model.record.attribution
        assert json.loads((model.folder / "config.json").read_text("utf-8"))["text"]["source_tokenizer"] is None
    card = (model.folder / "README.md").read_text("utf-8")
    assert f"\n# {model.name}\n" in card
    assert model.record.attribution in card
    for path in (*model.folder.glob("*.json"), *model.folder.glob("*.md")):
        assert not re.search(r'"/(home|root|work|tmp|Users)/', path.read_text("utf-8")), path


@pytest.mark.parametrize("name", ["scenes/captioner", "two-ears/bam"])
def test_an_image_model_is_compared_on_the_images_it_learned(name: str) -> None:
    data = {"scenes/captioner": "toy:scenes:en", "two-ears/bam": "toy:two-ears"}[name]
    assert own_images(parse_entrants([str(PACKAGE / "regard_models" / name)], [])) == data


def test_a_wheel_leaves_the_engines_copies_out() -> None:
    build = tomllib.loads((PACKAGE / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]
    assert build["exclude"] == [COMPILED]


def test_all_together_are_small_and_share_a_vocabulary() -> None:
    assert sum(model.bytes for model in MODELS) <= 40_000_000
    tokenizers = {(model.folder / "tokenizer.json").read_bytes() for model in MODELS if model.group == "de-en"}
    assert len(tokenizers) <= 1


def test_the_notice_credits_tatoeba() -> None:
    assert "tatoeba.org" in (PACKAGE / "NOTICE").read_text("utf-8")
