"""Vaswani et al. 2017: *Attention is all you need*.

No recurrence: every layer looks at all positions at once, with multi-head attention (section 3.2.2).

    encoder layer   x ← norm(x + self-attention(x)),   x ← norm(x + FFN(x))                           (3.1)
    decoder layer   y ← norm(y + causal self-attention(y)),  y ← norm(y + attention of y over x),
                    y ← norm(y + FFN(y))
    FFN(x) = W₂ max(0, W₁ x + b₁) + b₂                                                                (eq. 2)
    the input of both is √d E(word) + PE(position)                                                    (3.4, 3.5)
    PE(p, 2i) = sin(p / 10000^(2i/d)),  PE(p, 2i+1) = cos(p / 10000^(2i/d))

One matrix is source embedding, target embedding and output layer (3.4) when both languages share a vocabulary.
Dropout falls on the result of every sub-layer before it is added, and on the sums of words and positions (5.4).

A Marian model, such as those of OPUS-MT, is this model with `positions = "halves"`, `activation = "silu"`,
`attention_bias = true`, `output_bias = true` and `start_token = "pad"`.

Departures from the paper:

* `norm = "pre"` normalises the input of each sub-layer instead, and once more after the last layer of encoder and
  decoder (tensor2tensor's later choice): an option.
* Matrices begin at half of Glorot's uniform weights, word vectors at half of unit length; the paper does not say how.
* The recipes cut the gradient's norm to `training.clip_norm`, 1 by default; the paper does not clip. `output_bias` and
  `attention_bias` are options, off as in the paper.
* There is no limit on the length of a sentence; positions are computed as far as they are needed.
* `alignment` is no part of the paper. By default it is the mean of the heads of the last decoder layer but one, whose
  attention is known to agree best with word alignments (Garg et al. 2019); another layer or head can be set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.config.models import TransformerSettings
from regard.models.contract import Batch, Model, Output, State, Step, TransformerWeights
from regard.nn.attention.intervention import Intervention, Kind
from regard.nn.attention.memory import Memory
from regard.nn.attention.multihead import Heads, MultiHead, Seen
from regard.nn.attention.trace import Attention
from regard.nn.cache import Cache
from regard.nn.dropout import add_dropped, dropout
from regard.nn.embedding import Embeddings
from regard.nn.linear import Linear
from regard.nn.ragged import Rows

BOS, PAD = 2, 0  # as in regard.data.text.tokenizer

QUIET = 0.5
"""How large the matrices begin, as a share of Glorot's uniform weights and of word vectors of unit length.

Sub-layers that add little at first, and words that do not drown their positions, let attention form sooner: a small
post-norm model had a perplexity of 21 in training after 600 updates, and 40 with the whole.
"""

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,  # in place: the layer before it does not need its result
    "silu": functional.silu,
    "gelu": functional.gelu,
}


@dataclass(frozen=True)
class TransformerMemory(Memory):
    """The cross keys and values of every decoder layer, computed once per sentence."""

    layers: tuple[tuple[Tensor, Tensor], ...] = ()  # (B, H, S, K) each

    def select(self, index: Tensor) -> TransformerMemory:
        """The memory of the sentences `index`."""
        return TransformerMemory(
            mask=self.mask.index_select(0, index),
            lengths=self.lengths.index_select(0, index),
            summary=(),
            attention={kind: weights.index_select(0, index) for kind, weights in self.attention.items()},
            layers=tuple((keys.index_select(0, index), values.index_select(0, index)) for keys, values in self.layers),
        )


@dataclass(frozen=True)
class TransformerState(State):
    """The keys and values of the words written so far; `tensors` shows them, (N, 2, H, steps, K) for each layer."""

    cache: Cache | None = None

    @staticmethod
    def of(cache: Cache) -> TransformerState:
        """The state after as many steps as the cache has."""
        return TransformerState(tuple(layer.transpose(0, 1) for layer in cache.filled()), cache.length, cache)

    def select(self, index: Tensor) -> TransformerState:
        """The state of the rows `index`."""
        assert self.cache is not None
        cache = self.cache.select(index)
        return self if cache is self.cache else TransformerState.of(cache)


@dataclass(frozen=True)
class Looking:
    """Whether somebody looks at the weights, and what they change; what is seen is collected here."""

    attention: bool
    intervention: Intervention | None
    seen: list[Seen]

    def attend(
        self, attention: MultiHead, heads: Heads, rows: Rows, allowed: Tensor | None = None, *, causal: bool = False
    ) -> Tensor:
        """The result (n, D) for whole sentences, fast unless somebody looks."""
        if not self.attention and not attention.must_look(self.intervention):
            return attention.join(attention.fast(heads, allowed, causal=causal), rows)
        if causal:
            ones = torch.ones(1, 1, rows.length, rows.length, dtype=torch.bool, device=heads.query.device)
            allowed = ones.tril()
        return self._look(attention, heads, rows, allowed, range(rows.length))

    def attend_step(
        self, attention: MultiHead, heads: Heads, rows: Rows, allowed: Tensor | None, position: int
    ) -> Tensor:
        """The result (N, D) for one step; for queries so few, the looking path is the fast one."""
        return self._look(attention, heads, rows, allowed, [position] * rows.length)

    def weights(self, kind: Kind) -> Tensor:
        """(B, layers, H, T, S) of all layers that were seen."""
        return torch.stack([seen.weights for seen in self.seen if seen.kind == kind], 1)

    def _look(
        self, attention: MultiHead, heads: Heads, rows: Rows, allowed: Tensor | None, steps: Sequence[int]
    ) -> Tensor:
        seen = attention.look(heads, allowed, steps, self.intervention)
        if self.attention:
            self.seen.append(seen)
        return attention.join(seen.contexts, rows)


class Transformer(Model):
    """Multi-head attention in three uses: encoder-self, decoder-self and cross."""

    def __init__(self, settings: TransformerSettings, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        size = settings.hidden_size
        self.settings = settings
        self.vocabulary_size = target_vocabulary
        self.heads = settings.heads
        self.dropout = settings.dropout
        self.positions = settings.positions
        self.scale = math.sqrt(size) if settings.scale_embeddings else 1.0
        self.starts_with_pad = settings.start_token == "pad"
        self.alignment_layer, self.alignment_head = settings.alignment_layer, settings.alignment_head
        self.embeddings = Embeddings(
            settings, source_vocabulary, target_vocabulary, size, output_bias=settings.output_bias
        )
        self.encoder = nn.ModuleList(EncoderLayer(settings, layer) for layer in range(settings.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(settings, layer) for layer in range(settings.decoder_layers))
        is_pre = settings.norm == "pre"
        self.encoder_norm = nn.LayerNorm(size) if is_pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(size) if is_pre else nn.Identity()
        with torch.no_grad():
            for parameter in self.parameters():
                if parameter.dim() == 2:
                    parameter.mul_(QUIET)

    def transformer_weights(self) -> TransformerWeights:
        return TransformerWeights(self.settings, self.state_dict())

    # --- whole sentences ----------------------------------------------------------------------------------------------

    def encode(
        self,
        source: Tensor,
        source_mask: Tensor | None = None,
        *,
        attention: bool = False,
        intervention: Intervention | None = None,
    ) -> TransformerMemory:
        mask = torch.ones_like(source, dtype=torch.bool) if source_mask is None else source_mask
        rows = Rows.of(mask)
        encoded, recorded = self._encode(source, mask, rows, attention, intervention)
        prepared = (layer.cross_attention.prepare(encoded, rows) for layer in self._decoder_layers())
        # Every step reads them: each head's lie together.
        layers = tuple((keys.contiguous(), values.contiguous()) for keys, values in prepared)
        return TransformerMemory(mask, mask.sum(1), (), attention=recorded, layers=layers)

    def forward(self, batch: Batch, *, attention: bool = False, intervention: Intervention | None = None) -> Output:
        assert batch.source_mask is not None
        source_rows = Rows.of(batch.source_mask)
        encoded, recorded = self._encode(batch.source, batch.source_mask, source_rows, attention, intervention)
        looking = Looking(attention, intervention, [])
        allowed = _allowed(batch.source_mask, intervention)
        # Training asks for real tokens alone; anybody else sees at padding what `step` would say there.
        rows = Rows.of(batch.target_mask) if self.training else Rows(*batch.target_in.shape)
        outputs = self._read(self.embeddings.target, self._start(batch.target_in), rows)  # (n, D)
        for layer in self._decoder_layers():
            prepared = layer.cross_attention.prepare(encoded, source_rows)
            outputs = layer(outputs, rows, prepared, allowed, looking)
        hidden = rows.spread(self.decoder_norm(outputs))  # (B, T, D)
        if not attention:
            return Output(hidden)
        kinds: tuple[Kind, ...] = ("decoder-self", "cross")
        return Output(hidden, {**recorded, **{kind: looking.weights(kind) for kind in kinds}})

    def _encode(
        self, source: Tensor, mask: Tensor, rows: Rows, attention: bool, intervention: Intervention | None
    ) -> tuple[Tensor, Attention]:
        """The encoder's output (n, D), and its weights when they are asked for."""
        looking = Looking(attention, intervention, [])
        allowed = _allowed(mask, intervention)
        outputs = self._read(self.embeddings.source, source, rows)  # (n, D)
        for layer in self.encoder:
            outputs = layer(outputs, rows, allowed, looking)
        encoded: Tensor = self.encoder_norm(outputs)
        return encoded, {"encoder-self": looking.weights("encoder-self")} if attention else {}

    # --- one step -----------------------------------------------------------------------------------------------------

    def start(self, memory: Memory) -> TransformerState:
        assert isinstance(memory, TransformerMemory)
        keys = memory.layers[0][0]
        return TransformerState.of(
            Cache.empty(len(memory.layers), memory.sentences, self.heads, keys.size(-1), like=keys)
        )

    def step(
        self,
        token: Tensor,
        state: State,
        memory: Memory,
        *,
        attention: bool = False,
        trace: bool = False,
        intervention: Intervention | None = None,
    ) -> Step:
        assert isinstance(memory, TransformerMemory)
        assert isinstance(state, TransformerState)
        assert state.cache is not None
        cache = state.cache.grow()
        looking = Looking(attention or trace, intervention, [])
        allowed = _allowed(memory.mask, intervention)
        ids = self._start(token.unsqueeze(1))
        outputs = self._read(self.embeddings.target, ids, Rows(*ids.shape), state.position)  # (N, D)
        for layer, prepared in zip(self._decoder_layers(), memory.layers, strict=True):
            outputs = layer.step(outputs, cache, prepared, allowed, looking)
        recorded: dict[Kind, Tensor] | None = None
        if attention:
            across = looking.weights("cross")  # (B, layers, H, beams, S)
            across = across.permute(0, 3, 1, 2, 4).flatten(0, 1).unsqueeze(3)  # (N, layers, H, 1, S)
            recorded = {"decoder-self": looking.weights("decoder-self"), "cross": across}
        traces = tuple(each for seen in looking.seen for each in seen.traces()) if trace else ()
        return Step(self.decoder_norm(outputs), TransformerState.of(cache), recorded, traces)

    def project(self, hidden: Tensor, columns: Tensor | None = None) -> Tensor:
        return self.embeddings.project(hidden, columns)

    def projection(self, columns: Tensor | None = None) -> Callable[[Tensor], Tensor]:
        return self.embeddings.projection(columns)

    def alignment(self, attention: Attention | None) -> Tensor:
        """The cross attention of one layer: of one head, or the mean of all (the docstring above says which)."""
        weights = None if attention is None else attention.get("cross")
        if weights is None:
            return super().alignment(attention)
        layer = max(0, weights.size(1) - 2) if self.alignment_layer is None else self.alignment_layer
        return weights[:, layer].mean(1) if self.alignment_head is None else weights[:, layer, self.alignment_head]

    # --- words and positions ------------------------------------------------------------------------------------------

    def _read(self, table: nn.Embedding, ids: Tensor, rows: Rows, first: int = 0) -> Tensor:
        """√d E(word) + PE(position), (n, D), of ids (B, T) whose first position is given."""
        end = first + ids.size(1)
        weight = table.weight
        places = position_table(_power_of_two(end), weight.size(1), self.positions, weight.dtype, weight.device)
        where = torch.arange(first, end, device=ids.device).expand_as(ids)
        words = table(rows.take(ids.unsqueeze(2)).squeeze(1))
        total = torch.add(places[rows.take(where.unsqueeze(2)).squeeze(1)], words, alpha=self.scale)
        return dropout(total, self.dropout, self.training)

    def _start(self, ids: Tensor) -> Tensor:
        """Target ids, with PAD in place of BOS for models that start with it."""
        return ids.masked_fill(ids == BOS, PAD) if self.starts_with_pad else ids

    def _decoder_layers(self) -> Sequence[DecoderLayer]:
        return [layer for layer in self.decoder if isinstance(layer, DecoderLayer)]


# --- layers -----------------------------------------------------------------------------------------------------------


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward network."""

    def __init__(self, settings: TransformerSettings, layer: int) -> None:
        super().__init__()
        self.self_attention = _attention(settings, "encoder-self", layer)
        self.self_norm = ResidualNorm(settings)
        self.feedforward = FeedForward(settings)
        self.feedforward_norm = ResidualNorm(settings)

    def forward(self, inputs: Tensor, rows: Rows, allowed: Tensor | None, looking: Looking) -> Tensor:
        """(n, D) of inputs (n, D)."""
        heads = self.self_attention.project(self.self_norm.before(inputs), rows)
        outputs = self.self_norm.after(inputs, looking.attend(self.self_attention, heads, rows, allowed))
        return self.feedforward_norm.around(outputs, self.feedforward)


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

    def forward(
        self,
        inputs: Tensor,
        rows: Rows,
        prepared: tuple[Tensor, Tensor],
        allowed: Tensor | None,
        looking: Looking,
    ) -> Tensor:
        """(n, D) of inputs (n, D); what follows a word is hidden from it, so padding at the end is too."""
        heads = self.self_attention.project(self.self_norm.before(inputs), rows)
        outputs = self.self_norm.after(inputs, looking.attend(self.self_attention, heads, rows, causal=True))
        query = self.cross_attention.ask(self.cross_norm.before(outputs), rows)
        looked = looking.attend(self.cross_attention, Heads(query, *prepared), rows, allowed)
        outputs = self.cross_norm.after(outputs, looked)
        return self.feedforward_norm.around(outputs, self.feedforward)

    def step(
        self,
        inputs: Tensor,
        cache: Cache,
        prepared: tuple[Tensor, Tensor],
        allowed: Tensor | None,
        looking: Looking,
    ) -> Tensor:
        """The same for one position, (N, D), after those in the cache; the beams of a sentence ask side by side."""
        position, sentences = cache.length - 1, prepared[0].size(0)
        alone, beams = Rows(inputs.size(0), 1), Rows(sentences, inputs.size(0) // sentences)
        query, keys, values = self.self_attention.project(self.self_norm.before(inputs), alone)
        heads = Heads(query, *cache.write(self.self_attention.layer, keys, values))
        outputs = self.self_norm.after(inputs, looking.attend_step(self.self_attention, heads, alone, None, position))
        heads = Heads(self.cross_attention.ask(self.cross_norm.before(outputs), beams), *prepared)
        looked = looking.attend_step(self.cross_attention, heads, beams, allowed, position)
        outputs = self.cross_norm.after(outputs, looked)
        return self.feedforward_norm.around(outputs, self.feedforward)


class FeedForward(nn.Module):
    """W₂ activation(W₁ x + b₁) + b₂, at every position alike."""

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


class ResidualNorm(nn.LayerNorm):
    """The residual connection around a sub-layer, normalised after it is added (post) or before the sub-layer (pre)."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__(settings.hidden_size)
        self.is_pre = settings.norm == "pre"
        self.dropout = settings.dropout

    def before(self, inputs: Tensor) -> Tensor:
        """What the sub-layer reads."""
        return self(inputs) if self.is_pre else inputs

    def after(self, inputs: Tensor, outputs: Tensor) -> Tensor:
        """The sub-layer's outputs added to its inputs."""
        total = add_dropped(inputs, outputs, self.dropout, self.training)
        return total if self.is_pre else self(total)

    def around(self, inputs: Tensor, sub_layer: FeedForward) -> Tensor:
        """Both, with the sub-layer between them."""
        return self.after(inputs, sub_layer(self.before(inputs)))


def _attention(settings: TransformerSettings, kind: Kind, layer: int) -> MultiHead:
    return MultiHead(settings.hidden_size, settings.heads, kind, layer, bias=settings.attention_bias)


def _allowed(mask: Tensor, intervention: Intervention | None) -> Tensor | None:
    """The source positions that may be looked at, (B, 1, 1, S); None if all may."""
    allowed = mask if intervention is None else intervention.allow(mask)
    return None if bool(allowed.all()) else allowed[:, None, None]


# --- positions --------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def position_table(length: int, size: int, layout: str, dtype: torch.dtype, device: torch.device) -> Tensor:
    """PE (length, D): for each pair of numbers a sine and a cosine, taking turns or in halves."""
    with torch.inference_mode(False):  # it outlives the call
        exponents = torch.arange(0, size, 2, dtype=torch.float64, device=device) / size
        angles = torch.outer(torch.arange(length, dtype=torch.float64, device=device), 10000.0**-exponents)
        pairs = torch.stack([angles.sin(), angles.cos()], 2 if layout == "interleaved" else 1)
        return pairs.flatten(1).to(dtype)


def _power_of_two(length: int) -> int:
    """A length that is asked for again and again, while sentences vary."""
    return max(64, 1 << (length - 1).bit_length())
