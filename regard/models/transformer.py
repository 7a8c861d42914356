"""Vaswani et al. 2017: *Attention is all you need*.

No recurrence: every layer attends to all positions at once with multi-head attention (section 3.2.2).

    encoder layer   x ← norm(x + self-attention(x)),   x ← norm(x + FFN(x))                           (3.1)
    decoder layer   y ← norm(y + causal self-attention(y)),  y ← norm(y + attention of y over x),
                    y ← norm(y + FFN(y))
    FFN(x) = W₂ max(0, W₁ x + b₁) + b₂                                                                (eq. 2)
    the input of both is √d E(word) + PE(position)                                                    (3.4, 3.5)
    PE(p, 2i) = sin(p / 10000^(2i/d)),  PE(p, 2i+1) = cos(p / 10000^(2i/d))

With a joint vocabulary, one matrix is source embedding, target embedding and output layer (3.4).
Dropout is applied to the output of every sub-layer before the residual sum, and to the input sums (5.4).

Marian models, such as OPUS-MT, have `positions = "halves"`, `activation = "silu"`, `attention_bias = true`,
`output_bias = true` and `start_token = "pad"`.

Departures from the paper:

* The option `norm = "pre"` normalises the input of each sub-layer, and the output of encoder and decoder (later
  tensor2tensor).
* Initialisation is half of Glorot uniform; embeddings have a norm of about one half. The paper does not specify it.
* The recipes clip the gradient norm to `training.clip_norm`, 1 by default; the paper does not clip. `output_bias` and
  `attention_bias` are options, off as in the paper.
* The length of a sentence is not limited; position encodings are computed as needed.
* `alignment` is not in the paper. By default it is the mean over the heads of the penultimate decoder layer, whose
  attention agrees best with word alignments (Garg et al. 2019); another layer or head can be set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.config.models import TransformerSettings
from regard.config.vocabulary import BOS, PAD
from regard.models.contract import Batch, Model, ModelWeights, Output, State, Step, TransformerWeights
from regard.models.inside import Inside, SubLayer
from regard.models.paths import STEPS, WHOLE, Paths
from regard.models.wiring import Wiring, state_text
from regard.nn.attention.intervention import Intervention, Kind
from regard.nn.attention.memory import Memory
from regard.nn.attention.trace import Attention
from regard.nn.cache import Cache
from regard.nn.dropout import dropout
from regard.nn.embedding import Embeddings
from regard.nn.positions import position_table, power_of_two
from regard.nn.ragged import Rows
from regard.nn.transformer import AfterCache, AttentionRecorder, DecoderLayer, EncoderLayer, OverSource, WithinSentences

INITIAL_SCALE = 0.5
"""Initial scale, relative to Glorot uniform weights and unit-norm embeddings.

With smaller sub-layer outputs and embeddings, attention forms sooner: after 600 updates a small post-norm model had a
training perplexity of 21, against 40 with a scale of 1.
"""


@dataclass(frozen=True)
class TransformerMemory(Memory):
    """Cross-attention keys and values of every decoder layer, computed once per sentence."""

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
    """The key/value cache of the target prefix; `tensors` are views of it, (N, 2, H, steps, K) for each layer."""

    cache: Cache | None = None

    @staticmethod
    def of(cache: Cache) -> TransformerState:
        """The state of a cache."""
        return TransformerState(tuple(layer.transpose(0, 1) for layer in cache.filled()), cache.length, cache)

    def select(self, index: Tensor) -> TransformerState:
        """The state of the rows `index`."""
        assert self.cache is not None
        cache = self.cache.select(index)
        return self if cache is self.cache else TransformerState.of(cache)


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
                    parameter.mul_(INITIAL_SCALE)

    def transformer_weights(self) -> TransformerWeights:
        return TransformerWeights(self.settings, self.state_dict())

    # --- whole sentences ----------------------------------------------------------------------------------------------

    def compilable(self) -> ModelWeights | None:
        return ModelWeights(self.settings, self.state_dict()) if type(self) is Transformer else None

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
        # Contiguous per head, since every step reads them.
        layers = tuple((keys.contiguous(), values.contiguous()) for keys, values in prepared)
        return TransformerMemory(mask, mask.sum(1), (), attention=recorded, layers=layers)

    def forward(self, batch: Batch, *, attention: bool = False, intervention: Intervention | None = None) -> Output:
        assert batch.source_mask is not None
        source_rows = Rows.of(batch.source_mask)
        encoded, recorded = self._encode(batch.source, batch.source_mask, source_rows, attention, intervention)
        recorder = AttentionRecorder(attention, intervention, [])
        allowed = _allowed(batch.source_mask, intervention)
        # Training skips padding; in evaluation padding is computed too, with the result of `step`.
        rows = Rows.of(batch.target_mask) if self.training else Rows(*batch.target_in.shape)
        own = WithinSentences(rows, recorder, causal=True)
        y = self._read(self.embeddings.target, self._start(batch.target_in), rows)  # (n, D)
        for layer in self._decoder_layers():
            prepared = layer.cross_attention.prepare(encoded, source_rows)
            y = layer(y, own, OverSource(prepared, rows, recorder, allowed))
        hidden = rows.spread(self.decoder_norm(y))  # (B, T, D)
        if not attention:
            return Output(hidden)
        kinds: tuple[Kind, ...] = ("decoder-self", "cross")
        return Output(hidden, {**recorded, **{kind: recorder.weights(kind) for kind in kinds}})

    def _encode(
        self, source: Tensor, mask: Tensor, rows: Rows, attention: bool, intervention: Intervention | None
    ) -> tuple[Tensor, Attention]:
        """The encoder output (n, D), and its attention weights if requested."""
        recorder = AttentionRecorder(attention, intervention, [])
        own = WithinSentences(rows, recorder, _allowed(mask, intervention))
        x = self._read(self.embeddings.source, source, rows)  # (n, D)
        for layer in self.encoder:
            x = layer(x, own)
        encoded: Tensor = self.encoder_norm(x)
        return encoded, {"encoder-self": recorder.weights("encoder-self")} if attention else {}

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
        recorder = AttentionRecorder(attention or trace, intervention, [])
        allowed = _allowed(memory.mask, intervention)
        ids = self._start(token.unsqueeze(1))
        rows, position = Rows(*ids.shape), state.position
        beams = Rows(memory.sentences, ids.size(0) // memory.sentences)  # the beams of a sentence, side by side
        y = self._read(self.embeddings.target, ids, rows, position)  # (N, D)
        for layer, prepared in zip(self._decoder_layers(), memory.layers, strict=True):
            y = layer(y, AfterCache(cache, rows, recorder), OverSource(prepared, beams, recorder, allowed, position))
        recorded: dict[Kind, Tensor] | None = None
        if attention:
            across = recorder.weights("cross")  # (B, layers, H, beams, S)
            across = across.permute(0, 3, 1, 2, 4).flatten(0, 1).unsqueeze(3)  # (N, layers, H, 1, S)
            recorded = {"decoder-self": recorder.weights("decoder-self"), "cross": across}
        traces = tuple(each for seen in recorder.seen for each in seen.traces()) if trace else ()
        return Step(self.decoder_norm(y), TransformerState.of(cache), recorded, traces)

    def inside(self) -> Inside:
        boxes: dict[str, list[SubLayer]] = {}
        for number, layer in enumerate(self.encoder, start=1):
            assert isinstance(layer, EncoderLayer)
            boxes[f"encoder.{number}"] = [
                SubLayer("self-attention", layer.self_norm, layer.self_attention),
                SubLayer("feed-forward", layer.feedforward_norm, layer.feedforward),
            ]
        for number, own in enumerate(self._decoder_layers(), start=1):
            boxes[f"decoder.{number}.self"] = [SubLayer("self-attention", own.self_norm, own.self_attention)]
            boxes[f"decoder.{number}"] = [SubLayer("feed-forward", own.feedforward_norm, own.feedforward)]
        return Inside(self._summands, sub_layers=boxes)

    def _summands(self, side: Literal["source", "target"], ids: Tensor) -> dict[str, Tensor]:
        """√d E and PE, (T, D) each."""
        weight = (self.embeddings.source if side == "source" else self.embeddings.target).weight
        places = position_table(power_of_two(len(ids)), weight.size(1), self.positions, weight.dtype, weight.device)
        read = ids if side == "source" else self._start(ids)
        return {"E" if self.scale == 1.0 else "√d E": self.scale * weight[read], "PE": places[: len(ids)]}

    def paths(self) -> Paths:
        return Paths(WHOLE, WHOLE, f"{STEPS}, with a cache of keys and values")

    def project(self, hidden: Tensor, columns: Tensor | None = None) -> Tensor:
        return self.embeddings.project(hidden, columns)

    def projection(self, columns: Tensor | None = None) -> Callable[[Tensor], Tensor]:
        return self.embeddings.projection(columns)

    def alignment(self, attention: Attention | None) -> Tensor:
        """The cross attention of `alignment_layer`: of one head, or the mean of its heads."""
        weights = None if attention is None else attention.get("cross")
        if weights is None:
            return super().alignment(attention)
        layer = max(0, weights.size(1) - 2) if self.alignment_layer is None else self.alignment_layer - 1
        return weights[:, layer].mean(1) if self.alignment_head is None else weights[:, layer, self.alignment_head - 1]

    # --- words and positions ------------------------------------------------------------------------------------------

    def _read(self, table: nn.Embedding, ids: Tensor, rows: Rows, first: int = 0) -> Tensor:
        """√d E(word) + PE(position), (n, D), of ids (B, T) whose first position is given."""
        end = first + ids.size(1)
        weight = table.weight
        places = position_table(power_of_two(end), weight.size(1), self.positions, weight.dtype, weight.device)
        where = torch.arange(first, end, device=ids.device).expand_as(ids)
        words = table(rows.take(ids.unsqueeze(2)).squeeze(1))
        total = torch.add(places[rows.take(where.unsqueeze(2)).squeeze(1)], words, alpha=self.scale)
        return dropout(total, self.dropout, self.training)

    def _start(self, ids: Tensor) -> Tensor:
        """Target ids, with BOS replaced by PAD if `start_token` is "pad"."""
        return ids.masked_fill(ids == BOS, PAD) if self.starts_with_pad else ids

    def _decoder_layers(self) -> Sequence[DecoderLayer]:
        return [layer for layer in self.decoder if isinstance(layer, DecoderLayer)]


def _allowed(mask: Tensor, intervention: Intervention | None) -> Tensor | None:
    """The source mask (B, 1, 1, S); None if no position is masked."""
    allowed = mask if intervention is None else intervention.allow(mask)
    return None if bool(allowed.all()) else allowed[:, None, None]


# --- wiring ----------------------------------------------------------------------------------------------------------


ATTEND_ROWS, LAYER_ROWS = 0.85, 1.65  # heights in a decoder layer above its self-attention: cross attention, output


def wire(wiring: Wiring, settings: TransformerSettings) -> None:
    """Boxes and edges of the diagram."""
    wiring.read_source()
    wiring.read_target()
    below = "embed.source"
    for layer in range(1, settings.encoder_layers + 1):
        for position in wiring.positions:
            name, text = f"encoder.{layer}.{position}", state_text("x", position, layer, settings.encoder_layers > 1)
            wiring.add(name, "cell", text, "encoder", position, layer + 1)
            wiring.link(f"{below}.{position}", name, "input")
            for other in wiring.positions:
                wiring.link(f"{below}.{other}", name, "self")
        wiring.label("encoder", layer + 1, f"layer {layer}")
        below = f"encoder.{layer}"
    keys = [f"{below}.{position}" for position in wiring.positions]
    below, row = "embed.target", 2.0
    for layer in range(1, settings.decoder_layers + 1):
        _transformer_decoder_layer(wiring, settings, layer, row, below, keys)
        below, row = f"decoder.{layer}", row + LAYER_ROWS + 1
    wiring.write(row, below)
    wiring.notes += _transformer_notes(settings)


def _transformer_decoder_layer(
    wiring: Wiring, settings: TransformerSettings, layer: int, row: float, below: str, keys: Sequence[str]
) -> None:
    numbered = settings.decoder_layers > 1
    for step in wiring.steps:
        own, look, output = f"decoder.{layer}.self.{step}", f"attend.{layer}.{step}", f"decoder.{layer}.{step}"
        wiring.add(own, "cell", state_text("s", step, layer, numbered), "decoder", step, row)
        wiring.add(look, "attend", f"{settings.heads} heads", "decoder", step, row + ATTEND_ROWS)
        wiring.add(output, "cell", state_text("h", step, layer, numbered), "decoder", step, row + LAYER_ROWS)
        wiring.link(f"{below}.{step}", own, "input")
        for earlier in range(1, step + 1):  # causal
            wiring.link(f"{below}.{earlier}", own, "self")
        wiring.link(own, look, "query")
        for key in keys:
            wiring.link(key, look, "keys")
        wiring.link(look, output, "context")
        wiring.link(own, output, "input")
    wiring.label("decoder", row, f"layer {layer}: self-attention")
    wiring.label("decoder", row + ATTEND_ROWS, "cross attention")
    wiring.label("decoder", row + LAYER_ROWS, "feed-forward")


def _transformer_notes(settings: TransformerSettings) -> list[str]:
    scale = "√d " if settings.scale_embeddings else ""
    size = settings.hidden_size // settings.heads
    wrapped = {
        "post": "sub-layers are added to their input and normalised:  norm(x + f(x))",
        "pre": "sub-layers have a normalised input and are added to the residual:  x + f(norm(x))",
    }[settings.norm]
    return [
        f"each of {settings.heads} heads:  softmax(q^T k / √{size});  d = {settings.hidden_size};  "
        f"inputs are {scale}E x + PE(position)",
        wrapped + ";  an encoder layer is self-attention and a feed-forward network",
        "decoder self-attention is causal: a word attends to itself and to the words before it",
    ]
