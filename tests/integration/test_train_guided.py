"""Guided attention: the links are learned, from the command line too, and what has no attention is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from training_help import pairs, recipe

import regard
from regard.cli import main
from regard.errors import ConfigError, ModelFolderError
from regard.models import build_model
from regard.training import dry_run, train

TRAIN, VALID = pairs(400), pairs(40, seed=1)
MODELS = {
    "bahdanau": ("bahdanau", {}),
    "luong": ("luong", {}),
    "local-p": ("luong", {"window": "local-p"}),
    "gnmt": ("gnmt", {"query": "current"}),
    "transformer": ("transformer", {}),
}


def weight_in_place(folder: Path) -> float:
    """The mean attention of target words to the source word they come from: the sentences are said backwards."""
    translator = regard.load(folder)
    found = []
    for source, target in VALID:
        weights = translator.look(source, reference=target).alignment
        length = len(target.split())
        found += [weights[t][length - 1 - t] for t in range(length)]
    return float(np.mean(found))


@pytest.mark.parametrize("name", MODELS)
def test_guided_attention_looks_at_the_links(name: str, tmp_path: Path) -> None:
    kind, model = MODELS[name]
    for guide in (0.0, 1.0):
        chosen = recipe(kind, model, updates=60, guided_attention=guide, learning_rate=0.02)
        train(chosen, train=TRAIN, valid=VALID, out=tmp_path / str(guide), progress=False)
    free, guided = weight_in_place(tmp_path / "0.0"), weight_in_place(tmp_path / "1.0")
    assert guided > 1.3 * free


def test_a_model_without_attention_is_refused_before_anything_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", "seq2seq", "--train", "toy:copy", "--out", str(tmp_path / "model")]
    assert main([*arguments, "--set", "training.guided_attention=0.5"]) == 2
    told = capsys.readouterr().err
    assert "guided_attention needs attention; seq2seq has none" in told
    assert not (tmp_path / "model").exists()


def test_an_own_model_without_attention_is_refused(tmp_path: Path) -> None:
    without = recipe("seq2seq").model
    with pytest.raises(ConfigError, match=r"guided_attention: .* no attention"):
        train(
            recipe(guided_attention=0.5),
            train=TRAIN,
            out=tmp_path / "model",
            model=lambda source, target: build_model(without, source, target),
            progress=False,
        )
    assert not (tmp_path / "model").exists()


def test_resuming_cannot_begin_to_guide_but_may_stop(tmp_path: Path) -> None:
    train(recipe(), train=TRAIN, out=tmp_path / "free", progress=False)
    longer = "training.updates=14"
    with pytest.raises(ConfigError, match="began without guided attention"):
        train(out=tmp_path / "free", resume=True, overrides=[longer, "training.guided_attention=0.5"], progress=False)
    train(recipe(guided_attention=0.5), train=TRAIN, out=tmp_path / "guided", progress=False)
    train(out=tmp_path / "guided", resume=True, overrides=[longer, "training.guided_attention=0"], progress=False)
    assert regard.load(tmp_path / "guided").metrics["updates"] == 14


@pytest.mark.parametrize("keep", [0, 60, -4])
def test_a_damaged_guide_is_told(tmp_path: Path, keep: int) -> None:
    train(recipe(guided_attention=0.5), train=TRAIN, out=tmp_path / "model", progress=False)
    path = tmp_path / "model" / "training" / "guide.npy"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ModelFolderError, match=r"guide\.npy: is damaged .*: start a new training"):
        train(out=tmp_path / "model", resume=True, overrides=["training.updates=14"], progress=False)


def test_a_dry_run_is_guided_too() -> None:
    assert dry_run(recipe(guided_attention=0.5), train=TRAIN, progress=False).seconds > 0
