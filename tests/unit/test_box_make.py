"""packages/regard-models/make.py: what it packs, what it leaves alone, what it refuses, and how it trains."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from test_cli_translate import write_model

import regard
from regard.errors import RegardError
from regard.inference.box import Figure, boxed_models

MAKER = Path(__file__).parents[2] / "packages/regard-models"
NAME = "de-en/luong"


@pytest.fixture
def maker(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(MAKER))
    import make

    return make


@pytest.fixture
def places(maker: ModuleType, tmp_path: Path) -> Any:
    text = tmp_path / "data" / maker.GERMAN
    text.mkdir(parents=True)
    for code in ("de", "en"):
        (text / f"test.{code}.gz").write_bytes(gzip.compress(b"a dog sleeps\nthe black cat\n"))
    folder = write_model(tmp_path / "work" / "de-en-luong", "luong")
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config["text"]["source_tokenizer"] = "/somebody/tokenizer.json"
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    (folder / "README.md").write_text('# x\n\nregard.load(".")\n', "utf-8")
    return maker.Places(tmp_path / "data", tmp_path / "work", tmp_path / "package", 1)


def plan(maker: ModuleType, name: str = NAME) -> Any:
    return next(each for each in maker.PLANS if each.name == name)


def test_a_finished_training_is_measured_packed_and_then_left_alone(
    maker: ModuleType, places: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert maker.make([plan(maker), plan(maker, "de-en/gnmt")], places, only_pack=True) == 0
    said = capsys.readouterr().out
    assert "de-en-gnmt holds no finished training: not packed" in said
    assert "de-en/luong: " in said
    (model,) = boxed_models(root=places.package)
    assert model.name == NAME
    assert model.languages == ("de", "en")
    assert model.record.licence == "CC BY 2.0"
    assert model.record.test.before is not None
    assert model.record.floor.value <= 100
    assert json.loads((model.folder / "config.json").read_text("utf-8"))["text"]["source_tokenizer"] is None
    card = (model.folder / "README.md").read_text("utf-8")
    assert card.startswith('# de-en/luong\n\nregard.load("de-en/luong")')
    assert "tatoeba.org" in card
    assert isinstance(regard.load(model.folder), regard.Translator)
    assert maker.make([plan(maker)], places, only_pack=True) == 0
    assert "de-en/luong: is packed" in capsys.readouterr().out


def test_a_model_that_compact_weights_harm_is_refused(
    maker: ModuleType, places: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = iter([40.0, 39.7])
    monkeypatch.setattr(maker, "held_out", lambda *_: Figure(metric="BLEU", value=next(values), data="a test set"))
    with pytest.raises(RegardError, match=r"de-en/luong: compact weights lose more than 0\.2"):
        maker.pack(plan(maker), places)
    assert not (places.package / NAME).exists()


def test_too_many_bytes_fail(maker: ModuleType, places: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maker, "MOST_BYTES", 1000)
    assert maker.make([plan(maker)], places, only_pack=True) == 1


def test_it_trains_with_the_shared_vocabulary_and_the_languages(
    maker: ModuleType, places: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    monkeypatch.setattr(maker.regard, "train", lambda *given, **named: calls.append((given, named)))
    with pytest.raises(RegardError, match=r"has no tokenizer\.json yet: train de-en/transformer first"):
        maker.train(plan(maker, "de-en/gnmt"), places)
    shared = places.work / "de-en-transformer/training/tokenizer.json"
    shared.parent.mkdir(parents=True)
    shared.write_text("{}")
    maker.train(plan(maker, "de-en/gnmt"), places)
    (recipe,), named = calls[0]
    assert recipe == "box/gnmt"
    precision = "training.precision=bfloat16"
    assert named["overrides"] == [precision, 'text.languages=["de", "en"]', f'text.source_tokenizer="{shared}"']
    assert [Path(name).name for name in named["train"]] == ["train.de.gz", "train.en.gz"]
    maker.train(plan(maker, "scenes/captioner"), places)
    assert calls[1][1]["train"] == "toy:scenes"
    assert calls[1][1]["overrides"] == ["training.precision=float32"]


def test_every_plan_has_its_recipe_and_ends_without_a_clock(maker: ModuleType) -> None:
    for each in maker.PLANS:
        recipe = regard.config.recipes.load_recipe(f"box/{each.architecture}")
        assert recipe.training.budget is None  # a budget in minutes gives other weights on a busier machine
    assert len({each.name for each in maker.PLANS}) == len(maker.PLANS)


@pytest.mark.parametrize(("name", "data"), [("two-ears/bam", "toy:two-ears:40"), ("scenes/captioner", "toy:scenes:16")])
def test_image_models_are_packed_too(
    name: str, data: str, maker: ModuleType, places: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = replace(plan(maker, name), data=data)
    changes = ["training.updates=1", "training.batch_images=8"]
    regard.train(
        f"box/{chosen.architecture}", train=data, out=places.training(chosen), overrides=changes, progress=False
    )
    figure = Figure(metric="%", value=50.0, data="images")
    monkeypatch.setattr(maker, "held_out", lambda *_: figure)
    monkeypatch.setattr(maker, "floor_score", lambda *_: figure)
    assert maker.make([chosen], places, only_pack=True) == 0
    (model,) = boxed_models(root=places.package)
    assert (model.name, model.languages, model.record.licence) == (name, None, "generated")
    assert "training sentences" not in (model.folder / "README.md").read_text("utf-8")
