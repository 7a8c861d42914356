"""Source embedding, target embedding and output layer, with weight tying."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.config.models import STACKED_SOURCE_SCALE, RecurrentSettings, TransformerSettings
from regard.errors import ConfigError
from regard.nn.dropout import dropout
from regard.nn.linear import linear, linear_for_one_search


class Embeddings(nn.Module):
    """Embeddings of both languages and the output layer, tied by `tie_embeddings`."""

    def __init__(
        self,
        settings: RecurrentSettings | TransformerSettings,
        source_vocabulary: int,
        target_vocabulary: int,
        output_size: int,
        *,
        output_bias: bool = True,
    ) -> None:
        super().__init__()
        size, tied = settings.embedding_size, settings.tie_embeddings
        self.dropout = settings.dropout
        if tied != "none" and output_size != size:
            raise ConfigError(
                f"model.tie_embeddings = {tied!r} needs an output layer of the embedding's size, "
                f"but they are {output_size} and {size}: make them equal or do not tie."
            )
        if tied == "all" and source_vocabulary != target_vocabulary:
            raise ConfigError(
                f'model.tie_embeddings = "all" needs one vocabulary for both languages, not {source_vocabulary} and '
                f"{target_vocabulary} entries: set text.joint = true."
            )
        unit = 1 / math.sqrt(size)  # rows of about unit norm, for tied output weights
        self.target = _table(target_vocabulary, size, unit)
        initial = self.source_scale = 1.0
        if isinstance(settings, RecurrentSettings):
            initial = STACKED_SOURCE_SCALE if settings.stacked_encoder else 1.0
            self.source_scale = settings.source_scale
        self.source = self.target if tied == "all" else _table(source_vocabulary, size, initial * unit)
        self.output_weight = (
            self.target.weight if tied != "none" else nn.Parameter(torch.empty(target_vocabulary, output_size))
        )
        self.output_bias = nn.Parameter(torch.zeros(target_vocabulary)) if output_bias else None
        if tied == "none":
            nn.init.xavier_uniform_(self.output_weight)

    def read_source(self, ids: Tensor) -> Tensor:
        """Embeddings (..., E) of source ids, with dropout in training."""
        words = self.source(ids)
        if self.source_scale != 1.0:
            words = words * self.source_scale
        return dropout(words, self.dropout, self.training)

    def read_target(self, ids: Tensor) -> Tensor:
        """Embeddings (..., E) of target ids, with dropout in training."""
        return dropout(self.target(ids), self.dropout, self.training)

    def named(self, side: Literal["source", "target"], ids: Tensor) -> dict[str, Tensor]:
        """The input vectors (T, E) of ids (T,), by name."""
        return {"E": self.read_source(ids) if side == "source" else self.read_target(ids)}

    def project(self, hidden: Tensor, columns: Tensor | None = None) -> Tensor:
        """Logits (..., V) of hidden (..., D), or only of the vocabulary entries `columns`."""
        return functional.linear(hidden, *self._output(columns))

    def projection(self, columns: Tensor | None = None) -> Callable[[Tensor], Tensor]:
        """`project` for many steps: selects the weights of `columns` once."""
        weight, bias = self._output(columns)
        multiply = linear if columns is None else linear_for_one_search()
        return lambda hidden: multiply(hidden, weight, bias)

    def _output(self, columns: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Weight and bias of the output layer, or of `columns` only."""
        if columns is None:
            return self.output_weight, self.output_bias
        bias = None if self.output_bias is None else self.output_bias.index_select(0, columns)
        return self.output_weight.index_select(0, columns), bias


def _table(vocabulary: int, size: int, deviation: float) -> nn.Embedding:
    table = nn.Embedding(vocabulary, size)
    nn.init.normal_(table.weight, std=deviation)
    return table
