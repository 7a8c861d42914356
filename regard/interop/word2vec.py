"""The word vectors of any of our models in word2vec's text form."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from regard.data.text.vectors import write_vectors
from regard.errors import ModelFolderError
from regard.inference.folder import read_folder


def export_word2vec(path: Path, out: Path, side: Literal["source", "target"] = "source") -> int:
    """Write the vectors of the pieces that are whole words; return how many they are."""
    folder = read_folder(path)
    if folder.model_class is not None:
        raise ModelFolderError(
            f"{path}: holds a model of the class {folder.model_class}, whose vectors only you know: "
            "call regard.data.text.vectors.write_vectors with its matrix."
        )
    if out.exists():
        raise ModelFolderError(f"{out}: is there already: choose another --out.")
    matrix = folder.model().get_parameter(f"embeddings.{side}.weight").detach().numpy()
    tokenizer = folder.source_tokenizer if side == "source" else folder.target_tokenizer
    out = Path(os.path.realpath(out))  # a symbolic link stays one
    part = out.with_name(f".{out.name}.part")
    try:
        count = write_vectors(part, tokenizer, matrix)
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
    return count
