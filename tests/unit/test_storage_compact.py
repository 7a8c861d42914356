"""Compact weights: within half a step of the original, and refused when their scales are not what was written."""

from __future__ import annotations

from pathlib import Path

import pytest
import safetensors.torch
import torch
from test_cli_translate import write_model

import regard
from regard.cli import main
from regard.errors import ModelFolderError
from regard.storage.arrays import INT8_SCALE as SCALE
from regard.storage.arrays import read_shapes
from regard.storage.compact import compact_tensors
from regard.storage.weights import read_tensors


def test_every_weight_is_within_half_a_step(tmp_path: Path) -> None:
    torch.manual_seed(1)
    tensors = {
        "matrix": torch.randn(7, 300) * torch.logspace(-6, 3, 7)[:, None],
        "kernel": torch.randn(4, 3, 5, 5),
        "zero": torch.zeros(3, 4),
        "vector": torch.randn(9),
        "count": torch.tensor([[3, 4]]),
        "empty": torch.zeros(0, 4),
    }
    path = tmp_path / "w.safetensors"
    safetensors.torch.save_file(compact_tensors(tensors), path)
    assert read_shapes(path) == {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    read = read_tensors(path)
    assert read.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert read[name].dtype == tensor.dtype
        if name in ("matrix", "kernel"):
            rows = tensor.flatten(1)
            step = rows.abs().amax(1, keepdim=True) / 127
            assert not torch.equal(read[name], tensor)
            assert ((read[name].flatten(1) - rows).abs() <= step * 0.5001).all()
        else:
            assert torch.equal(read[name], tensor)
    assert list(read_tensors(path, ["kernel"])) == ["kernel"]


@pytest.mark.parametrize(
    ("scale", "said"),
    [
        (torch.full((4,), float("nan")), "negative or not finite"),
        (torch.full((4,), float("inf")), "negative or not finite"),
        (torch.full((4,), -1.0), "negative or not finite"),
        (torch.full((4,), 3e38), "negative or not finite"),
        (torch.ones(3), "do not fit"),
        (torch.ones(4, 1), "do not fit"),
        (torch.ones(4, dtype=torch.int32), "do not fit"),
    ],
)
def test_hostile_scales_are_refused(tmp_path: Path, scale: torch.Tensor, said: str) -> None:
    path = tmp_path / "w.safetensors"
    safetensors.torch.save_file({"a": torch.ones(4, 5, dtype=torch.int8), "a" + SCALE: scale}, path)
    with pytest.raises(ModelFolderError, match=f"the scales of a .*{said}"):
        read_tensors(path)


def test_a_scale_of_floats_or_of_nothing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    safetensors.torch.save_file({"a": torch.ones(4, 5), "a" + SCALE: torch.ones(4)}, path)
    with pytest.raises(ModelFolderError, match="do not fit"):
        read_tensors(path)
    safetensors.torch.save_file({"b" + SCALE: torch.ones(4)}, path)
    assert list(read_shapes(path)) == ["b" + SCALE]  # a tensor of that name, which no model has


@pytest.mark.parametrize("kind", ["luong", "bahdanau"])
def test_a_compact_model_translates_like_its_original(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, small = write_model(tmp_path / "plain", kind), tmp_path / "small"
    assert main(["export", str(plain), "--to", "compact", "--out", str(small)]) == 0
    assert "wrote" in capsys.readouterr().out
    assert (small / "model.safetensors").stat().st_size < 0.4 * (plain / "model.safetensors").stat().st_size
    assert "float32 scale per row" in (small / "README.md").read_text("utf-8")
    one, other = regard.load(plain), regard.load(small)
    assert isinstance(one, regard.Translator)
    assert isinstance(other, regard.Translator)
    pair = "the black cat", "a dog sleeps"
    assert other.score(*pair).log_probability == pytest.approx(one.score(*pair).log_probability, rel=0.05)
    assert main(["info", str(small)]) == 0
    assert main(["export", str(plain), "--to", "compact", "--out", str(small)]) == 2
    assert "already exists" in capsys.readouterr().err


def test_weights_without_their_scales_are_refused(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model", "luong")
    assert main(["export", str(folder), "--to", "compact", "--out", str(tmp_path / "small")]) == 0
    path = tmp_path / "small/model.safetensors"
    tensors = safetensors.torch.load_file(path)
    name = next(name for name in tensors if name.endswith(SCALE))
    del tensors[name]
    safetensors.torch.save_file(tensors, path)
    with pytest.raises(ModelFolderError, match=r"has the type torch\.int8"):
        regard.Translator.load(tmp_path / "small").translate("a dog")
