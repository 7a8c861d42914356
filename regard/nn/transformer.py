"""The layers of a Transformer (Vaswani et al. 2017, section 3).

    encoder layer   x ← norm(x + self-attention(x)),   x ← norm(x + FFN(x))
    decoder layer   y ← norm(y + causal self-attention(y)),  y ← norm(y + attention of y over x),  y ← norm(y + FFN(y))

A `KeyValueSource` supplies the keys and values of an attention: the sentence itself, the key/value cache, or the
source. So one `forward` serves training and stepwise decoding.
Rows (n, D) are the positions of all sentences without padding (`nn/ragged.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.config.models import TransformerSettings
from regard.nn.attention.intervention import Intervention, Kind
from regard.nn.attention.multihead import Heads, MultiHead, RecordedHeads
from regard.nn.cache import Cache
from regard.nn.dropout import add_dropped
from regard.nn.linear import Linear
from regard.nn.ragged import Rows

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,  # in place: the backward pass of the linear layer does not need its output
    "silu": functional.silu,
    "gelu": functional.gelu,
}


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward network."""

    def __init__(self, settings: TransformerSettings, layer: int) -> None:
        super().__init__()
        self.self_attention = _attention(settings, "encoder-self", layer)
        self.self_norm = ResidualNorm(settings)
        self.feedforward = FeedForward(settings)
        self.feedforward_norm = ResidualNorm(settings)

    def forward(self, x: Tensor, own: KeyValueSource) -> Tensor:
        """(n, D) of x (n, D)."""
        x = self.self_norm(x, lambda x: own.attend(self.self_attention, x))
        x = self.feedforward_norm(x, self.feedforward)
        return x


class DecoderLayer(nn.Module):
    """Causal self-attention, attention over the source, and a feed-forward network."""

    def __init__(self, settings: TransformerSettings, layer: int) -> None:
        super().__init__()
        self.self_attention = _attention(settings, "decoder-self", layer)
        self.self_norm = ResidualNorm(settings)
        self.cross_attention = _attention(settings, "cross", layer)
        self.cross_norm = ResidualNorm(settings)
        self.feedforward = FeedForward(settings)
        self.feedforward_norm = ResidualNorm(settings)

    def forward(self, y: Tensor, own: KeyValueSource, source: KeyValueSource) -> Tensor:
        """(n, D) of y (n, D), for whole sentences or one step."""
        y = self.self_norm(y, lambda y: own.attend(self.self_attention, y))
        y = self.cross_norm(y, lambda y: source.attend(self.cross_attention, y))
        y = self.feedforward_norm(y, self.feedforward)
        return y


class FeedForward(nn.Module):
    """Position-wise W₂ activation(W₁ x + b₁) + b₂."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.inner = Linear(settings.hidden_size, settings.feedforward_size)
        self.outer = Linear(settings.feedforward_size, settings.hidden_size)
        self.activation = ACTIVATIONS[settings.activation]
        for linear in (self.inner, self.outer):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, inputs: Tensor) -> Tensor:
        """(..., D) of inputs (..., D)."""
        outputs: Tensor = self.outer(self.activation(self.inner(inputs)))
        return outputs


class ResidualNorm(nn.Module):
    """Residual connection and layer normalisation of a sub-layer f: norm(x + f(x)) (post), or x + f(norm(x)) (pre)."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(settings.hidden_size))
        self.bias = nn.Parameter(torch.zeros(settings.hidden_size))
        self.is_pre = settings.norm == "pre"
        self.dropout = settings.dropout

    def forward(self, x: Tensor, sub_layer: Callable[[Tensor], Tensor]) -> Tensor:
        """(n, D) of x (n, D)."""
        outputs = sub_layer(self.normalise(x) if self.is_pre else x)
        total = add_dropped(x, outputs, self.dropout, self.training)
        return total if self.is_pre else self.normalise(total)

    def normalise(self, x: Tensor) -> Tensor:
        """Layer normalisation."""
        return functional.layer_norm(x, self.weight.shape, self.weight, self.bias)


def _attention(settings: TransformerSettings, kind: Kind, layer: int) -> MultiHead:
    return MultiHead(settings.hidden_size, settings.heads, kind, layer, bias=settings.attention_bias)


# --- key-value sources ------------------------------------------------------------------------------------------------


class KeyValueSource(Protocol):
    """Applies an attention to queries from inputs (n, D), over its keys and values."""

    def attend(self, attention: MultiHead, inputs: Tensor) -> Tensor:
        """The result (n, D)."""


@dataclass(frozen=True)
class WithinSentences:
    """Self-attention over whole sentences; a causal mask also covers the padding at the end."""

    rows: Rows
    recorder: AttentionRecorder
    allowed: Tensor | None = None  # (B, 1, 1, S)
    causal: bool = False

    def attend(self, attention: MultiHead, inputs: Tensor) -> Tensor:
        """The result (n, D)."""
        heads = attention.project(inputs, self.rows)
        return self.recorder.attend(attention, heads, self.rows, self.allowed, causal=self.causal)


@dataclass(frozen=True)
class AfterCache:
    """Self-attention of one new position over itself and the key/value cache."""

    cache: Cache
    rows: Rows  # one position in each
    recorder: AttentionRecorder

    def attend(self, attention: MultiHead, inputs: Tensor) -> Tensor:
        """The result (N, D)."""
        query, keys, values = attention.project(inputs, self.rows)
        heads = Heads(query, *self.cache.write(attention.layer, keys, values))
        return self.recorder.attend_step(attention, heads, self.rows, None, self.cache.length - 1)


@dataclass(frozen=True)
class OverSource:
    """Cross attention over the source keys and values of one layer, for whole sentences or one step."""

    prepared: tuple[Tensor, Tensor]  # (B, H, S, K) each
    rows: Rows
    recorder: AttentionRecorder
    allowed: Tensor | None  # (B, 1, 1, S)
    position: int | None = None  # of the step; None: all positions from 0 on

    def attend(self, attention: MultiHead, inputs: Tensor) -> Tensor:
        """The result (n, D)."""
        heads = Heads(attention.ask(inputs, self.rows), *self.prepared)
        if self.position is None:
            return self.recorder.attend(attention, heads, self.rows, self.allowed)
        return self.recorder.attend_step(attention, heads, self.rows, self.allowed, self.position)


@dataclass(frozen=True)
class AttentionRecorder:
    """Records attention weights if asked to, and applies an intervention."""

    attention: bool
    intervention: Intervention | None
    seen: list[RecordedHeads]

    def attend(
        self, attention: MultiHead, heads: Heads, rows: Rows, allowed: Tensor | None = None, *, causal: bool = False
    ) -> Tensor:
        """The result (n, D) for whole sentences; on the fast path unless weights are recorded or changed."""
        if not self.attention and not attention.must_look(self.intervention):
            return attention.join(attention.fast(heads, allowed, causal=causal), rows)
        if causal:
            ones = torch.ones(1, 1, rows.length, rows.length, dtype=torch.bool, device=heads.query.device)
            allowed = ones.tril()
        return self._look(attention, heads, rows, allowed, range(rows.length))

    def attend_step(
        self, attention: MultiHead, heads: Heads, rows: Rows, allowed: Tensor | None, position: int
    ) -> Tensor:
        """The result (N, D) for one step; with few queries the path that records weights is the faster one."""
        return self._look(attention, heads, rows, allowed, [position] * rows.length)

    def weights(self, kind: Kind) -> Tensor:
        """(B, layers, H, T, S) of all recorded layers."""
        return torch.stack([seen.weights for seen in self.seen if seen.kind == kind], 1)

    def _look(
        self, attention: MultiHead, heads: Heads, rows: Rows, allowed: Tensor | None, steps: Sequence[int]
    ) -> Tensor:
        seen = attention.look(heads, allowed, steps, self.intervention)
        if self.attention:
            self.seen.append(seen)
        return attention.join(seen.contexts, rows)
