"""Luong, Pham and Manning 2015: *Effective approaches to attention-based neural machine translation*.

Stacked LSTMs; the decoder starts from all final states of the encoder. For each target word t:

    hₜ  = top of the decoder stack after the step        the current state is the query
    aₜ  = align(hₜ, h̄ₛ)  over all positions (3.1) or a local window (3.2),  cₜ = Σ aₜ(s) h̄ₛ
    h̃ₜ  = tanh(W_c [cₜ; hₜ])  (eq. 5),   p(yₜ) = softmax(W_s h̃ₜ)  (eq. 6)

Input feeding (3.3): h̃ₜ₋₁ joins the word vector as the next step's input; at the first step it is 0.
Without it, the whole target runs through the LSTM at once and attention is one batched operation.

`query = "previous"` is the textbook variant: the context, found with the state before the step, joins the step's
input, and the word is read off [cₜ; hₜ] without a tanh layer. The recipes named `attention` are made of these options.

Departures from the paper:

* 2 layers by default, where the paper has 4; LSTM cells may be swapped for GRU or plain ones.
* With a reversed source, positions and local windows still count in the order of the sentence as given, and the end
  token stays last.
* local-m centres on min(t, S), so that the window never runs off the end of the sentence.
* A bidirectional encoder, with half the units in each direction, is an option that the paper does not have.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention import Attend, make_score, make_window
from regard.config import LuongSettings
from regard.contract import Attention, Batch, Intervention, Memory, Model, Output, State, Step
from regard.models.embedding import Embeddings
from regard.models.recurrent import Stack, reorder, reversal, uniform_linear


class Luong(Model):
    """Attend after each step, with the current state as query."""

    def __init__(self, settings: LuongSettings, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        embedding, hidden = settings.embedding_size, settings.hidden_size
        self.vocabulary_size = target_vocabulary
        self.dropout = settings.dropout
        self.reverse_source = settings.reverse_source
        self.input_feeding = settings.input_feeding
        self.query_is_current = settings.query == "current"
        self.embedding_size = embedding
        self.output_size = hidden if self.query_is_current else 2 * hidden
        self.embeddings = Embeddings(settings, source_vocabulary, target_vocabulary, self.output_size)
        self.encoder = Stack(
            settings.cell,
            settings.layers,
            embedding,
            hidden,
            dropout=settings.dropout,
            layer_norm=settings.layer_norm,
            bidirectional=settings.bidirectional,
        )
        self.feed_size = self.output_size if self.input_feeding else 0
        context_size = 0 if self.query_is_current else hidden
        self.decoder = Stack(
            settings.cell,
            settings.layers,
            embedding + self.feed_size + context_size,
            hidden,
            dropout=settings.dropout,
            layer_norm=settings.layer_norm,
        )
        self.attend = Attend(
            make_score(
                settings.score,
                hidden,
                hidden,
                size=settings.attention_size,
                max_positions=settings.max_source_positions,
            ),
            make_window(settings.window, settings.window_size, hidden),
        )
        self.combine = uniform_linear(nn.Linear(2 * hidden, hidden, bias=False)) if self.query_is_current else None

    def encode(
        self,
        source: Tensor,
        source_mask: Tensor | None = None,
        *,
        attention: bool = False,
        intervention: Intervention | None = None,
    ) -> Memory:
        mask = torch.ones_like(source, dtype=torch.bool) if source_mask is None else source_mask
        lengths = mask.sum(1)
        words = self.embeddings.read_source(source)  # (B, S, E)
        if self.reverse_source:
            index = reversal(lengths, source.size(1), keep_last=True)
            outputs, final = self.encoder.run(reorder(words, index), None, lengths)
            outputs = reorder(outputs, index)
        else:
            outputs, final = self.encoder.run(words, None, lengths)  # (B, S, D)
        return Memory(mask, lengths, final, self.attend.prepare(outputs), outputs)

    def start(self, memory: Memory) -> State:
        return State((*memory.summary, *self._no_feed(memory)))

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
        product = self._word_product(self.embeddings.read_target(token))
        layers, fed = self._split(state.tensors)
        query = self._top(layers)
        if not self.query_is_current:
            context, weights, traces = self.attend.at_step(
                query, memory, state.position, trace=trace, intervention=intervention
            )
            product = product + self._context_product(context)
        layers = self.decoder.step(self._add_feed(product, fed), layers)
        query = self._top(layers)
        if self.query_is_current:
            context, weights, traces = self.attend.at_step(
                query, memory, state.position, trace=trace, intervention=intervention
            )
        attentional = self._attentional(context, query)
        after = (*layers, attentional) if self.input_feeding else layers
        recorded: Attention | None = {"cross": weights[:, None, None, None]} if attention else None
        hidden = functional.dropout(attentional, self.dropout, self.training)
        return Step(hidden, state.advance(after), recorded, traces)

    def forward(self, batch: Batch, *, attention: bool = False, intervention: Intervention | None = None) -> Output:
        if self.input_feeding or not self.query_is_current:
            return super().forward(batch, attention=attention, intervention=intervention)
        memory = self.encode(batch.source, batch.source_mask, intervention=intervention)
        words = self.embeddings.read_target(batch.target_in)  # (B, T, E)
        queries, _ = self.decoder.run(words, memory.summary)  # (B, T, D)
        attended = self.attend(queries, memory, range(words.size(1)), intervention)
        hidden = functional.dropout(self._attentional(attended.context, queries), self.dropout, self.training)
        return Output(hidden, {"cross": attended.weights[:, None, None]} if attention else None)

    def project(self, hidden: Tensor, columns: Tensor | None = None) -> Tensor:
        return self.embeddings.project(hidden, columns)

    def _attentional(self, context: Tensor, query: Tensor) -> Tensor:
        joined = torch.cat([context, query], -1)
        return joined if self.combine is None else torch.tanh(self.combine(joined))

    # The bottom layer reads [word; h̃; context]; the parts are multiplied apart, so that the words' can be hoisted.
    def _word_product(self, words: Tensor) -> Tensor:
        return self.decoder.cell(0).project(words, 0, self.embedding_size)

    def _add_feed(self, product: Tensor, fed: Tensor | None) -> Tensor:
        if fed is None:
            return product
        start = self.embedding_size
        return product + self.decoder.cell(0).project(fed, start, start + self.feed_size)

    def _context_product(self, context: Tensor) -> Tensor:
        return self.decoder.cell(0).project(context, self.embedding_size + self.feed_size)

    def _no_feed(self, memory: Memory) -> tuple[Tensor, ...]:
        first = memory.summary[0]
        return (first.new_zeros(first.size(0), self.output_size),) if self.input_feeding else ()

    def _split(self, tensors: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], Tensor | None]:
        return (tensors[:-1], tensors[-1]) if self.input_feeding else (tensors, None)

    def _top(self, layers: tuple[Tensor, ...]) -> Tensor:
        return layers[-self.decoder.tensors_per_layer]
