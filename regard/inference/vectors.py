"""The fixed vector of a model without attention: how far it moves when the sentence changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from regard.config.settings import SearchSettings
from regard.data.text.pieces import without_surrogates
from regard.decoding.text_model import TextModel
from regard.errors import ConfigError
from regard.inference.long_lines import source_ids

Vectors = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Move:
    """From the vector v of a sentence to the vector w of another."""

    text: str
    distance: float  # |w - v| / |v|
    cosine: float  # of the angle between v and w


@torch.inference_mode()
def fixed_vectors(model: TextModel, texts: Sequence[str], settings: SearchSettings) -> Vectors:
    """What the encoder leaves for the decoder, (N, D): all tensors of its summary in one row for each text.

    A model with attention raises: its decoder reads more than this vector.
    """
    rows: list[Vectors] = []
    for text in texts:
        if not text.strip():
            raise ConfigError("the sentence is empty: give some words.")
        source = torch.tensor([source_ids(model, without_surrogates(text), settings)], device=model.device)
        memory = model.model.encode(source, torch.ones_like(source, dtype=torch.bool))
        if memory.keys is not None or not memory.summary:
            raise ConfigError(f"{model.name}: this model has attention, and no fixed vector between its sides.")
        rows.append(torch.cat([tensor[0].flatten() for tensor in memory.summary]).double().cpu().numpy())
    return np.stack(rows)


def vector_moves(model: TextModel, text: str, others: Sequence[str], settings: SearchSettings) -> list[Move]:
    """How far the fixed vector of each of the others is from that of `text`."""
    vectors = fixed_vectors(model, [text, *others], settings)
    first, rest = vectors[0], vectors[1:]
    length = max(float(np.linalg.norm(first)), 1e-12)
    lengths = np.maximum(np.linalg.norm(rest, axis=1), 1e-12)
    distances, cosines = (
        np.linalg.norm(rest - first, axis=1) / length,
        np.clip(rest @ first / (lengths * length), -1, 1),
    )
    return [
        Move(other, float(distance), float(cosine))
        for other, distance, cosine in zip(others, distances, cosines, strict=True)
    ]
