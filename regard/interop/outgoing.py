"""Common parts of Transformer exports: read the model folder and its weights, write a new folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from regard.config.models import TransformerSettings
from regard.data.text.tokenizer import Tokenizer
from regard.errors import ModelFolderError
from regard.inference.folder import Folder, read_folder
from regard.models.contract import TransformerWeights
from regard.storage.folder import JOINT, SOURCE, TARGET

EMBEDDINGS = ("embeddings.source.weight", "embeddings.target.weight", "embeddings.output_weight")


@dataclass(frozen=True)
class Outgoing:
    """A Transformer to export; tied weights appear under each name."""

    folder: Folder
    weights: TransformerWeights

    @property
    def settings(self) -> TransformerSettings:
        """Model settings."""
        return self.weights.settings

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """The weights by name."""
        return self.weights.tensors

    @property
    def joint(self) -> bool:
        """Whether both languages share a tokenizer."""
        return self.folder.source_tokenizer == self.folder.target_tokenizer

    def tokenizer_files(self) -> dict[str, str]:
        """Regard's tokenizer files by name."""
        if self.joint:
            return {JOINT: self.folder.source_tokenizer.to_json()}
        return {SOURCE: self.folder.source_tokenizer.to_json(), TARGET: self.folder.target_tokenizer.to_json()}


def read_transformer(path: Path, target_format: str) -> Outgoing:
    """The Transformer of a model folder; raises for other models."""
    folder = read_folder(path)
    weights = None if folder.model_class is not None else folder.model().transformer_weights()
    if weights is None:
        kind = folder.model_class or folder.recipe.model.kind
        raise ModelFolderError(
            f"{path}: is a {kind} model, but {target_format} supports Transformers only: export its embeddings with "
            "--to word2vec, or train a Transformer."
        )
    return Outgoing(folder, weights)


def pieces(tokenizer: Tokenizer) -> list[str]:
    """The tokens by id."""
    return [tokenizer.piece(number) for number in range(tokenizer.size)]


def with_positions_in_halves(tensors: Mapping[str, Tensor], size: int) -> dict[str, Tensor]:
    """Convert weights from interleaved position encodings to sines first, without changing the function.

    Position encodings are added to embeddings, so their layout is that of all hidden states; the rows and columns of
    weights that read or write hidden states are permuted.
    """
    order = torch.cat([torch.arange(0, size, 2), torch.arange(1, size, 2)])
    reads = ("attention.weight", "inner.weight", *EMBEDDINGS)
    writes = ("output.weight", "output.bias", "outer.weight", "outer.bias", "norm.weight", "norm.bias")
    moved = {}
    for name, tensor in tensors.items():
        if name.endswith(writes):
            tensor = tensor[order]
        elif name.endswith(reads):
            tensor = tensor[:, order]
        moved[name] = tensor
    return moved
