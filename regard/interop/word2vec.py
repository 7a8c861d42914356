"""Exports the embeddings of any model in word2vec's text format."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from regard.data.text.vectors import write_vectors
from regard.errors import ModelFolderError
from regard.inference.folder import read_folder


def export_word2vec(path: Path, out: Path, side: Literal["source", "target"] = "source") -> int:
    """Write the embeddings of all whole-word tokens; return their number."""
    folder = read_folder(path)
    if folder.model_class is not None:
        raise ModelFolderError(
            f"{path}: is a custom model ({folder.model_class}) with unknown embeddings: "
            "call regard.data.text.vectors.write_vectors with its matrix."
        )
    if out.exists():
        raise ModelFolderError(f"{out}: already exists: choose another --out.")
    matrix = folder.model().get_parameter(f"embeddings.{side}.weight").detach().numpy()
    tokenizer = folder.source_tokenizer if side == "source" else folder.target_tokenizer
    return write_vectors(out, tokenizer, matrix)
