"""What every export of a Transformer starts from and ends with: its folder and weights, and a new folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from regard.config.models import TransformerSettings
from regard.config.vocabulary import BOS, PAD
from regard.data.text.tokenizer import Tokenizer
from regard.errors import ModelFolderError
from regard.inference.folder import Folder, read_folder
from regard.models.contract import TransformerWeights
from regard.storage.folder import JOINT, SOURCE, TARGET

EMBEDDINGS = ("embeddings.source.weight", "embeddings.target.weight", "embeddings.output_weight")


@dataclass(frozen=True)
class Outgoing:
    """A Transformer that leaves; tied weights are there under each of their names."""

    folder: Folder
    weights: TransformerWeights

    @property
    def settings(self) -> TransformerSettings:
        """Sizes and options."""
        return self.weights.settings

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """The weights by name."""
        return self.weights.tensors

    @property
    def joint(self) -> bool:
        """Whether both languages have one tokenizer."""
        return self.folder.source_tokenizer == self.folder.target_tokenizer

    def tokenizer_files(self) -> dict[str, str]:
        """Regard's own tokenizer files by their names."""
        if self.joint:
            return {JOINT: self.folder.source_tokenizer.to_json()}
        return {SOURCE: self.folder.source_tokenizer.to_json(), TARGET: self.folder.target_tokenizer.to_json()}


def read_transformer(path: Path, door: str) -> Outgoing:
    """The Transformer of a model folder, or a line that says why it cannot go through this door."""
    folder = read_folder(path)
    weights = None if folder.model_class is not None else folder.model().transformer_weights()
    if weights is None:
        kind = folder.model_class or folder.recipe.model.kind
        raise ModelFolderError(
            f"{path}: holds a {kind} model, and {door} takes Transformers alone: export its word vectors with "
            "--to word2vec, or train a Transformer."
        )
    return Outgoing(folder, weights)


def start_id(settings: TransformerSettings) -> int:
    """The id that decoding begins with."""
    return PAD if settings.start_token == "pad" else BOS


def pieces(tokenizer: Tokenizer) -> list[str]:
    """The pieces by their ids."""
    return [tokenizer.piece(number) for number in range(tokenizer.size)]


def with_positions_in_halves(tensors: Mapping[str, Tensor], size: int) -> dict[str, Tensor]:
    """The weights of the same function with the sines first, from those with sines and cosines taking turns.

    Positions are added to word vectors, so the order of their numbers is the order of the numbers between layers;
    what reads or writes these is put into the new order.
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
