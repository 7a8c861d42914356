"""Marian folders that are not whole, not right or not ours: one line, status 2, and nothing is written."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from interop_help import marian_files

from regard.cli import main
from regard.interop.marian_names import OUTPUT_BIAS, SHARED, layer_names


@pytest.fixture(scope="module")
def small_marian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Marian folder with weights of zeros, which no tool but safetensors is needed for."""
    folder = tmp_path_factory.mktemp("small") / "marian"
    size = len(marian_files(folder))
    shapes = {"fc1.weight": (6, 4), "fc1.bias": (6,), "fc2.weight": (4, 6)}
    tensors = {SHARED: torch.zeros(size, 4), OUTPUT_BIAS: torch.zeros(1, size)}
    for _, names in layer_names(1, 1):
        for name in names:
            shape = next((each for end, each in shapes.items() if name.endswith(end)), None)
            is_vector = name.endswith("bias") or "norm" in name
            tensors[name] = torch.zeros(shape or ((4,) if is_vector else (4, 4)))
    safetensors.torch.save_file(tensors, folder / "model.safetensors")
    config = {
        "model_type": "marian",
        "vocab_size": size,
        "d_model": 4,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 6,
        "decoder_ffn_dim": 6,
        "activation_function": "swish",
        "pad_token_id": size - 1,
        "decoder_start_token_id": size - 1,
        "eos_token_id": 0,
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder


BAD_CONFIGS: dict[str, tuple[dict[str, Any], str]] = {
    "another model": ({"model_type": "bart"}, "not 'marian'"),
    "activation": ({"activation_function": "gelu_new"}, "activation_function = 'gelu_new'"),
    "learned positions": ({"static_position_embeddings": False}, "sinusoidal, not learned, position encodings"),
    "pre-norm": ({"normalize_before": True}, "Marian models are post-norm"),
    "heads that differ": ({"decoder_attention_heads": 4}, "one size for both"),
    "heads that do not fit": ({"encoder_attention_heads": 3, "decoder_attention_heads": 3}, "not a multiple of heads"),
    "vocabulary": ({"vocab_size": 40}, "vocabulary and model do not match"),
    "padding": ({"pad_token_id": 99999}, "pad_token_id = 99999"),
    "size": ({"d_model": 8}, "has the shape"),
    "feed-forward": ({"encoder_ffn_dim": 8, "decoder_ffn_dim": 8}, "fc1.weight has the shape (6, 4)"),
    "layers": ({"decoder_layers": 2}, "is missing"),
    "words for numbers": ({"d_model": "many"}, "d_model = 'many'"),
}


@pytest.mark.parametrize("name", BAD_CONFIGS)
def test_a_marian_model_that_is_not_ours_is_one_line(
    name: str, small_marian: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes, reason = BAD_CONFIGS[name]
    folder = shutil.copytree(small_marian, tmp_path / "marian")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))
    refused(folder, tmp_path / "out", reason, capsys)


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors", "source.spm", "target.spm", "vocab.json"])
def test_a_missing_piece_is_named(
    missing: str, small_marian: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(small_marian, tmp_path / "marian")
    (folder / missing).unlink()
    refused(folder, tmp_path / "out", f"{missing}: is missing", capsys)


def test_damaged_pieces_and_pickles_are_refused(
    small_marian: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(small_marian, tmp_path / "marian")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    refused(folder, tmp_path / "out", "is a pickle", capsys, "save_pretrained")
    (folder / "model.safetensors").write_bytes(b"cut")
    refused(folder, tmp_path / "out", "damaged", capsys)
    (folder / "source.spm").write_bytes(b"\xff\xff\xff")
    refused(folder, tmp_path / "out", "source.spm: not a SentencePiece model", capsys)
    (folder / "vocab.json").write_text("{")
    refused(folder, tmp_path / "out", "vocab.json: is damaged", capsys)
    refused(folder, folder, "choose another --out", capsys)
    refused(tmp_path / "nowhere", tmp_path / "out", "there is no such folder", capsys)


def test_positions_that_are_not_sines_are_refused(
    small_marian: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(small_marian, tmp_path / "marian")
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    tensors["model.encoder.embed_positions.weight"] = torch.ones(16, 4)
    safetensors.torch.save_file(tensors, folder / "model.safetensors")
    refused(folder, tmp_path / "out", "not Marian's sines and cosines", capsys)


def test_a_marian_folder_comes_in_without_other_tools_and_is_not_overwritten(
    small_marian: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["import", "marian", str(small_marian), "--out", str(tmp_path / "out")]
    assert main(arguments) == 0
    assert main(["info", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    assert main(arguments) == 2
    assert "holds a model already" in capsys.readouterr().err
    assert main([*arguments, "--overwrite"]) == 0
    assert main(["import", "mariam", str(small_marian), "--out", str(tmp_path / "x")]) == 2
    assert "did you mean 'marian'" in capsys.readouterr().err


def refused(folder: Path, out: Path, reason: str, capsys: pytest.CaptureFixture[str], also: str = "") -> None:
    """The import ends with 2 and one line, and writes nothing."""
    before = sorted(folder.iterdir()) if folder.exists() else []
    assert main(["import", "marian", str(folder), "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert also in error
    assert error.count("\n") == 1
    assert out == folder or not out.exists()
    assert (sorted(folder.iterdir()) if folder.exists() else []) == before
