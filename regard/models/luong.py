"""Luong, Pham and Manning 2015: *Effective approaches to attention-based neural machine translation*.

Stacked LSTMs; the final states of the encoder initialise the decoder. For each target word t:

    hₜ  = top of the decoder stack after the step        the current state is the query
    aₜ  = align(hₜ, h̄ₛ)  over all positions (3.1) or a local window (3.2),  cₜ = Σ aₜ(s) h̄ₛ
    h̃ₜ  = tanh(W_c [cₜ; hₜ])  (eq. 5),   p(yₜ) = softmax(W_s h̃ₜ)  (eq. 6)

Input feeding (3.3): h̃ₜ₋₁ is concatenated with the next step's embedding; at the first step it is 0.
Without it, the whole target runs through the LSTM at once and attention is one batched operation.

The recipe `attention` is the textbook model: one forward layer, dot score, no input feeding.
`query = "previous"` is its variant: the previous state is the query, the context is an input of the step, and
[cₜ; hₜ] goes to the output layer without tanh. With `context_to = "output"` the context is used in [cₜ; hₜ] only.

Departures from the paper:

* 2 layers by default and in the recipes `luong` and `luong-local-p`; the paper has 4. GRU and plain RNN cells are
  options.
* With a reversed source, positions and local windows are in the order of the input sentence, and EOS stays last.
* local-m centres on min(t, S), so the window never passes the end of the sentence.
* If the location score is shorter than a sentence, S in pₜ is its number of positions, so no local window lies beyond
  it. The paper ignores later words; a window there would be empty.
* A bidirectional encoder, with half the units in each direction, is an option; the paper has none. The recipes
  `luong-bi` and `attention-bi` use it, with tied embeddings.
* The output layer has a bias; equation 6 has none.
* The recipes train with Adam and label smoothing; the paper with SGD and without.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.config.models import LuongSettings
from regard.models.contract import Batch, Model, ModelWeights, Output, State, Step
from regard.models.inside import Inside, stack_cells
from regard.models.paths import STEPS, Paths, layer_path
from regard.models.wiring import Edge, Wiring, layer_name, score_formula, sharpness_note, stacked_decoder
from regard.nn.attention import Attend, make_score, make_window
from regard.nn.attention.intervention import Intervention
from regard.nn.attention.memory import Memory
from regard.nn.attention.trace import Attention, Trace
from regard.nn.cells import reorder, reversal, uniform_linear
from regard.nn.dropout import dropout
from regard.nn.embedding import Embeddings
from regard.nn.products import PRODUCTS, Products, step_products
from regard.nn.stack import Stack


class Luong(Model):
    """Attend after each step, with the current state as query."""

    def __init__(self, settings: LuongSettings, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        self.settings = settings
        embedding, hidden = settings.embedding_size, settings.hidden_size
        self.vocabulary_size = target_vocabulary
        self.dropout = settings.dropout
        self.reverse_source = settings.reverse_source
        self.input_feeding = settings.input_feeding
        self.query_is_current = settings.query == "current"
        self.context_in_step = not self.query_is_current and settings.context_to == "step"
        self.needs_steps = settings.needs_steps
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
            batch_norm=settings.batch_norm,
            bidirectional=settings.bidirectional,
        )
        self.feed_size = self.output_size if self.input_feeding else 0
        context_size = hidden if self.context_in_step else 0
        self.decoder = Stack(
            settings.cell,
            settings.layers,
            embedding + self.feed_size + context_size,
            hidden,
            dropout=settings.dropout,
            layer_norm=settings.layer_norm,
            batch_norm=settings.batch_norm,
        )
        self.attend = Attend(
            make_score(
                settings.score,
                hidden,
                hidden,
                size=settings.attention_size,
                max_positions=settings.max_source_positions,
                sharpness=settings.sharpness,
            ),
            make_window(settings.window, settings.window_size, hidden),
        )
        self.combine = uniform_linear(nn.Linear(2 * hidden, hidden, bias=False)) if self.query_is_current else None

    def compilable(self) -> ModelWeights | None:
        ours = type(self) is Luong and not self.settings.batch_norm
        return ModelWeights(self.settings, self.state_dict()) if ours else None

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
        attentional, weights, after, traces = self._advance(
            product, state.tensors, memory, state.position, PRODUCTS, intervention, trace
        )
        recorded: Attention | None = {"cross": weights[:, None, None, None]} if attention else None
        return Step(self._drop(attentional), state.advance(after), recorded, traces)

    def forward(self, batch: Batch, *, attention: bool = False, intervention: Intervention | None = None) -> Output:
        memory = self.encode(batch.source, batch.source_mask, intervention=intervention)
        words = self.embeddings.read_target(batch.target_in)  # (B, T, E)
        if self.needs_steps:
            attentional, weights = self._loop(words, memory, intervention)
        else:
            # only the statistics of batch normalisation depend on where a target ends
            lengths = batch.target_mask.sum(1) if self.settings.batch_norm and self.training else None
            states, _ = self.decoder.run(words, memory.summary, lengths)  # (B, T, D)
            queries = states
            if not self.query_is_current:
                queries = torch.cat([self._top(memory.summary).unsqueeze(1), states[:, :-1]], 1)
            attended = self.attend(queries, memory, range(words.size(1)), intervention)
            attentional, weights = self._attentional(attended.context, states, PRODUCTS), attended.weights
        return Output(self._drop(attentional), {"cross": weights[:, None, None]} if attention else None)

    def _loop(self, words: Tensor, memory: Memory, intervention: Intervention | None) -> tuple[Tensor, Tensor]:
        """The attentional vectors (B, T, D) and weights (B, T, S), step by step."""
        products = step_products()
        state = self.start(memory).tensors
        steps: list[tuple[Tensor, Tensor]] = []
        for position, product in enumerate(self._word_product(words).unbind(1)):
            attentional, weights, state, _ = self._advance(product, state, memory, position, products, intervention)
            steps.append((attentional, weights))
        attentionals, used = (torch.stack(parts, 1) for parts in zip(*steps, strict=True))
        return attentionals, used

    def _advance(
        self,
        product: Tensor,
        tensors: tuple[Tensor, ...],
        memory: Memory,
        position: int,
        products: Products,
        intervention: Intervention | None,
        trace: bool = False,
    ) -> tuple[Tensor, Tensor, tuple[Tensor, ...], tuple[Trace, ...]]:
        """One step from the embedding's product (N, gates·D): attentional vector, weights, new state, traces."""

        def look(query: Tensor) -> tuple[Tensor, Tensor, tuple[Trace, ...]]:
            return self.attend.at_step(
                query, memory, position, trace=trace, intervention=intervention, products=products
            )

        bottom, layers = self.decoder.cell(0), tensors
        # The bottom layer reads [word; h̃; context]. Each part has its own product; that of the words is hoisted.
        if self.input_feeding:
            layers, fed = tensors[:-1], tensors[-1]
            start = self.embedding_size
            product = product + bottom.project(fed, start, start + self.feed_size, products)
        if self.query_is_current:
            layers = self.decoder.step(product, layers, products, position)
            context, weights, traces = look(self._top(layers))
        else:
            context, weights, traces = look(self._top(layers))
            if self.context_in_step:
                product = product + bottom.project(context, self.embedding_size + self.feed_size, None, products)
            layers = self.decoder.step(product, layers, products, position)
        attentional = self._attentional(context, self._top(layers), products)
        return attentional, weights, (*layers, attentional) if self.input_feeding else layers, traces

    def inside(self) -> Inside | None:
        if self.settings.batch_norm:
            return None  # a cell alone does not know its position
        both = bool(self.encoder.backward_layers)
        layers = range(1, len(self.encoder.layers) + 1)
        return Inside(
            self.embeddings.named,
            cells=stack_cells("encoder", self.encoder) | stack_cells("decoder", self.decoder),
            joined={f"joined.{n}": (f"encoder.{n}.forward", f"encoder.{n}.backward") for n in layers if both},
            starts={} if self.query_is_current else {"start": f"decoder.{len(layers)}"},
            hidden="attentional",
            reads_backwards=self.reverse_source,
        )

    def paths(self) -> Paths:
        decoder = STEPS if self.needs_steps else layer_path(self.decoder.is_fast)
        return Paths(layer_path(self.encoder.is_fast), decoder)

    def project(self, hidden: Tensor, columns: Tensor | None = None) -> Tensor:
        return self.embeddings.project(hidden, columns)

    def projection(self, columns: Tensor | None = None) -> Callable[[Tensor], Tensor]:
        return self.embeddings.projection(columns)

    def _attentional(self, context: Tensor, state: Tensor, products: Products) -> Tensor:
        joined = torch.cat([context, state], -1)
        return joined if self.combine is None else torch.tanh(products(joined, self.combine.weight))

    def _word_product(self, words: Tensor) -> Tensor:
        return self.decoder.cell(0).project(words, 0, self.embedding_size)

    def _drop(self, inputs: Tensor) -> Tensor:
        return dropout(inputs, self.dropout, self.training)

    def _no_feed(self, memory: Memory) -> tuple[Tensor, ...]:
        first = memory.summary[0]
        return (first.new_zeros(first.size(0), self.output_size),) if self.input_feeding else ()

    def _top(self, layers: tuple[Tensor, ...]) -> Tensor:
        return layers[-self.decoder.tensors_per_layer]


# --- wiring ----------------------------------------------------------------------------------------------------------


def wire(wiring: Wiring, settings: LuongSettings) -> None:
    """Boxes and edges of the diagram."""
    wiring.read_source(settings.reverse_source)
    wiring.read_target()
    current, layers = settings.query == "current", settings.layers
    first_row = 2 if current else 3  # attention stands above the layers, or below them
    if settings.bidirectional:
        keys = _both_ways(wiring, settings)
    else:
        keys = wiring.encode(layers, settings.cell, "h̄", first_row)
    stacked_decoder(wiring, layers, settings.cell, first_row)
    for layer in range(1, layers + 1):
        for final in _final_states(wiring, settings, layer):
            wiring.link(final, f"decoder.{layer}.1", "start")
    attend_row, output_row = (layers + 2, layers + 3) if current else (2, layers + 3)
    wiring.attend(attend_row, settings.score, keys)
    wiring.label("decoder", attend_row, "attention")
    for step in wiring.steps:
        joined = f"attentional.{step}"
        text = f"h̃_{step}" if current else f"[c_{step}; h_{step}]"
        wiring.add(joined, "layer", text, "decoder", step, output_row)
        wiring.link(f"decoder.{layers}.{step}", joined, "input")
        wiring.link(f"attend.{step}", joined, "context")
        if not current and settings.context_to == "step":
            wiring.link(f"attend.{step}", f"decoder.1.{step}", "context")
        if settings.input_feeding and step > 1:
            wiring.link(f"attentional.{step - 1}", f"decoder.1.{step}", "feeding")
    _luong_queries(wiring, settings, attend_row)
    wiring.label("decoder", output_row, "tanh" if current else "joined")
    wiring.write(output_row + 1, "attentional")
    wiring.notes += _luong_notes(settings)


def _both_ways(wiring: Wiring, settings: LuongSettings) -> list[str]:
    below = "embed.source"
    for layer in range(1, settings.layers + 1):
        row = 3 * layer - 1
        wiring.both_directions(layer, row, below)
        below = f"joined.{layer}"
        for position in wiring.positions:
            name = f"{below}.{position}"
            wiring.add(name, "layer", f"h̄_{position}", "encoder", wiring.column(position), row + 2)
            for direction in ("forward", "backward"):
                wiring.link(f"encoder.{layer}.{direction}.{position}", name, "input")
        cell = layer_name(settings.cell, layer, settings.layers)
        for offset, text in enumerate((f"{cell} →", f"{cell} ←", "[→; ←]")):
            wiring.label("encoder", row + offset, text)
    return [f"{below}.{position}" for position in wiring.positions]


def _final_states(wiring: Wiring, settings: LuongSettings, layer: int) -> list[str]:
    if settings.bidirectional:
        return [f"encoder.{layer}.forward.{wiring.order[-1]}", f"encoder.{layer}.backward.{wiring.order[0]}"]
    return [f"encoder.{layer}.{wiring.order[-1]}"]


def _luong_queries(wiring: Wiring, settings: LuongSettings, attend_row: int) -> None:
    current, layers = settings.query == "current", settings.layers
    if not current:
        wiring.add("start", "cell", "h_0", "decoder", 0, layers + 2)
        # h₀ is the initial state of the top layer, drawn as a box since it is the first query.
        wiring.edges = [
            Edge(edge.source, "start", "start")
            if edge.target == f"decoder.{layers}.1" and edge.role == "start"
            else edge
            for edge in wiring.edges
        ]
        wiring.link("start", f"decoder.{layers}.1", "recurrent")
    for step in wiring.steps:
        before = "start" if step == 1 else f"decoder.{layers}.{step - 1}"
        query = f"decoder.{layers}.{step}" if current else before
        wiring.link(query, f"attend.{step}", "query")
        if settings.window != "global":
            wiring.add(f"centre.{step}", "centre", f"p_{step}", "decoder", step, attend_row + 0.66)
            wiring.link(f"centre.{step}", f"attend.{step}", "centre")
        if settings.window == "local-p":
            wiring.link(query, f"centre.{step}", "query")


def _luong_notes(settings: LuongSettings) -> list[str]:
    query = "h_t" if settings.query == "current" else "h_{t−1}"
    which = "current" if settings.query == "current" else "previous"
    score = score_formula(settings.score, query, "h̄_s", settings.sharpness)
    notes = [f"a_t(s) = softmax_s {score}:  the {which} state is the query;  c_t = Σ_s a_t(s) h̄_s"]
    notes[0] += sharpness_note(settings.score, settings.sharpness)
    reach = f"only positions p_t ± {settings.window_size} are attended to"
    if settings.score == "location":
        notes.append(
            f"location:  only the first {settings.max_source_positions} positions are scored;  S counts no others"
        )
    if settings.window == "local-m":
        notes.append(f"local-m:  p_t = min(t, S);  {reach}")
    if settings.window == "local-p":
        notes.append(
            f"local-p:  p_t = S · sigmoid(v^T tanh(W {query}));  {reach}, times exp(−(s − p_t)^2 / 2σ^2), "
            f"σ = {settings.window_size / 2:g}"
        )
    joined = "h̃_t = tanh(W [c_t; h_t])"
    if settings.query == "previous":
        use = "joins the input" if settings.context_to == "step" else "is used there alone"
        joined = f"[c_t; h_t] makes the output; c_t {use}"
    fed = {"current": "h̃_{t−1}", "previous": "[c_{t−1}; h_{t−1}]"}[settings.query]
    if settings.layers > 1:
        notes[0] += f";  h and h̄ are the states of layer {settings.layers}"
    notes.append(f"{joined};  " + (f"{fed} is fed to the next step" if settings.input_feeding else "no input feeding"))
    return notes
