"""Wu et al. 2016: *Google's neural machine translation system* (GNMT).

Encoder: LSTM layers; the first reads in both directions and its outputs are concatenated; from the third layer on, a
layer's input is added to its output (residual connection, eq. 6). `residual = false` is the plain stack that the paper
compares with (eq. 5).

Decoder: LSTM layers. With yᵢ₋₁, the bottom layer's output of the previous step, as query (eq. 4):

    aᵢ = Σₜ softmaxₜ(vᵀ tanh(W yᵢ₋₁ + U xₜ)) xₜ

and aᵢ is concatenated with the input of every layer but the bottom one. Residual connections from the third layer on
add the output of the layer below, not the context.

At the first step the query is 0. Decoder layer k is initialised with the final state of encoder layer k; the bottom one
with that of the backward direction. `context_to = "all"` sends aᵢ to the bottom layer as well, as in tensorflow/nmt
(there without context at the first step; here with the context of the zero query).

In the paper the query has not read the previous word. With `query = "current"` the query is yᵢ, which has read it
(gnmt_v2 of tensorflow/nmt).

In the paper's form the bottom layer does not depend on attention: in training each layer, and attention, runs over the
whole target at once.

Departures from the paper:

* No refinement by reinforcement learning (section 5): training maximises likelihood only (eq. 7). The published scores
  in `regard architectures` are of likelihood training too: one model with 32k wordpieces, Tables 4 and 5.
* The output layer has a bias, and tied embeddings are an option. The recipes train with Adam throughout; the paper
  switches from Adam to SGD.
* Initialisation differs; dropout between layers and before the output is a setting.
* No model parallelism and no quantised arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.config.models import GnmtSettings
from regard.models.contract import Batch, Model, ModelWeights, Output, State, Step
from regard.models.inside import Inside
from regard.models.paths import Paths, layer_path
from regard.models.wiring import Wiring, score_formula
from regard.nn.attention import Additive, Attend
from regard.nn.attention.intervention import Intervention
from regard.nn.attention.memory import Memory
from regard.nn.attention.trace import Attention
from regard.nn.cells import Cell, Lstm, scale_input_init
from regard.nn.dropout import dropout
from regard.nn.embedding import Embeddings
from regard.nn.products import PRODUCTS, Products, step_products


class Gnmt(Model):
    """Deep residual LSTMs with the bottom decoder layer as query."""

    def __init__(self, settings: GnmtSettings, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        self.settings = settings
        embedding, hidden, norm = settings.embedding_size, settings.hidden_size, settings.layer_norm
        self.vocabulary_size = target_vocabulary
        self.dropout = settings.dropout
        self.hidden_size = hidden
        self.embedding_size = embedding
        self.context_to_bottom = settings.context_to == "all"
        self.asks_at_once = settings.query == "current"
        self.embeddings = Embeddings(settings, source_vocabulary, target_vocabulary, hidden)
        self.encoder_forward = Lstm(embedding, hidden, norm)
        self.encoder_backward = Lstm(embedding, hidden, norm)
        widths = [2 * hidden] + [hidden] * (settings.layers - 2)
        self.encoder_upper = nn.ModuleList(scale_input_init(Lstm(width, hidden, norm)) for width in widths)
        self.bottom = Lstm(embedding + (hidden if self.context_to_bottom else 0), hidden, norm)
        self.upper = nn.ModuleList(scale_input_init(Lstm(2 * hidden, hidden, norm)) for _ in range(settings.layers - 1))
        self.attend = Attend(Additive(hidden, hidden, settings.attention_size))

    def compilable(self) -> ModelWeights | None:
        return ModelWeights(self.settings, self.state_dict()) if type(self) is Gnmt else None

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
        forward, _ = self.encoder_forward.run(words, None, lengths)
        backward, final = self.encoder_backward.run(words, None, lengths, backwards=True)
        summary = list(final)
        inputs = torch.cat([forward, backward], -1)  # (B, S, 2D)
        for number, layer in enumerate(self.encoder_upper, start=1):
            assert isinstance(layer, Lstm)
            outputs, final = layer.run(self._drop(inputs), None, lengths)  # (B, S, D)
            inputs = outputs + inputs if self.settings.is_residual(number) else outputs
            summary.extend(final)
        return Memory(mask, lengths, tuple(summary), self.attend.prepare(inputs), inputs)

    def start(self, memory: Memory) -> State:
        nothing = memory.summary[0].new_zeros(memory.sentences, self.hidden_size)
        # The query, then (h, c) of each layer.
        return State((nothing, *memory.summary))

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
        query, *layers = state.tensors
        product = self._word_product(self.embeddings.read_target(token))
        bottom = (layers[0], layers[1])
        if self.asks_at_once:
            below, cell = self.bottom(product, bottom)
            query = below
        context, weights, traces = self.attend.at_step(
            query, memory, state.position, trace=trace, intervention=intervention
        )
        if not self.asks_at_once:
            below, cell = self.bottom(self._add_context(product, context, PRODUCTS), bottom)
        after = [below, below, cell]
        for number, layer in enumerate(self.upper, start=1):
            assert isinstance(layer, Lstm)
            joined = torch.cat([self._drop(below), context], -1)
            hidden, cell = layer(layer.project(joined), (layers[2 * number], layers[2 * number + 1]))
            after += [hidden, cell]
            below = hidden + below if self.settings.is_residual(number) else hidden
        recorded: Attention | None = {"cross": weights[:, None, None, None]} if attention else None
        return Step(self._drop(below), state.advance(after), recorded, traces)

    def forward(self, batch: Batch, *, attention: bool = False, intervention: Intervention | None = None) -> Output:
        memory = self.encode(batch.source, batch.source_mask, intervention=intervention)
        words = self.embeddings.read_target(batch.target_in)  # (B, T, E)
        below, contexts, weights = self._bottom_and_attention(words, memory, intervention)
        for number, layer in enumerate(self.upper, start=1):
            assert isinstance(layer, Lstm)
            start = memory.summary[2 * number : 2 * number + 2]
            outputs, _ = layer.run(torch.cat([self._drop(below), contexts], -1), start)  # (B, T, D)
            below = outputs + below if self.settings.is_residual(number) else outputs
        return Output(self._drop(below), {"cross": weights[:, None, None]} if attention else None)

    def inside(self) -> Inside:
        cells: dict[str, Cell] = {
            "encoder.1.forward": self.encoder_forward,
            "encoder.1.backward": self.encoder_backward,
            "decoder.1": self.bottom,
        }
        residuals: dict[str, tuple[str, str]] = {}
        for half, upper in (("encoder", self.encoder_upper), ("decoder", self.upper)):
            for number, cell in enumerate(upper, start=2):
                assert isinstance(cell, Lstm)
                cells[f"{half}.{number}"] = cell
                if self.settings.is_residual(number - 1):
                    below = f"{half}.{number - 1}"
                    residuals[f"sum.{half}.{number}"] = (
                        f"{half}.{number}",
                        f"sum.{below}" if self.settings.is_residual(number - 2) else below,
                    )
        return Inside(self.embeddings.named, cells=cells, residuals=residuals)

    def paths(self) -> Paths:
        layers = layer_path(self.encoder_forward.is_fast)
        return Paths(layers, f"{layers}; the bottom layer word by word" if self.context_to_bottom else layers)

    def project(self, hidden: Tensor, columns: Tensor | None = None) -> Tensor:
        return self.embeddings.project(hidden, columns)

    def projection(self, columns: Tensor | None = None) -> Callable[[Tensor], Tensor]:
        return self.embeddings.projection(columns)

    def _bottom_and_attention(
        self, words: Tensor, memory: Memory, intervention: Intervention | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The bottom layer's outputs, the contexts and the weights of all steps: (B, T, D), (B, T, D), (B, T, S)."""
        start = memory.summary[:2]
        if not self.context_to_bottom:
            outputs, _ = self.bottom.run(words, start)
            queries = outputs
            if not self.asks_at_once:
                queries = functional.pad(outputs[:, :-1], (0, 0, 1, 0))  # the previous output is the query
            attended = self.attend(queries, memory, range(words.size(1)), intervention)
            return outputs, attended.context, attended.weights
        query = memory.summary[0].new_zeros(memory.sentences, self.hidden_size)
        layer: tuple[Tensor, ...] = start
        steps: list[tuple[Tensor, Tensor, Tensor]] = []
        products = step_products()
        for position, product in enumerate(self._word_product(words).unbind(1)):
            context, weights, _ = self.attend.at_step(
                query, memory, position, intervention=intervention, products=products
            )
            layer = self.bottom(self._add_context(product, context, products), layer, products)
            query = layer[0]
            steps.append((query, context, weights))
        hidden, contexts, used = (torch.stack(parts, 1) for parts in zip(*steps, strict=True))
        return hidden, contexts, used

    def _word_product(self, words: Tensor) -> Tensor:
        return self.bottom.project(words, 0, self.embedding_size)

    def _add_context(self, product: Tensor, context: Tensor, products: Products) -> Tensor:
        if not self.context_to_bottom:
            return product
        return product + self.bottom.project(context, self.embedding_size, products=products)

    def _drop(self, inputs: Tensor) -> Tensor:
        return dropout(inputs, self.dropout, self.training)


# --- wiring ----------------------------------------------------------------------------------------------------------


def wire(wiring: Wiring, settings: GnmtSettings) -> None:
    """Boxes and edges of the diagram."""
    wiring.read_source()
    wiring.read_target()
    wiring.both_directions(1, 2, "embed.source")
    wiring.label("encoder", 2, "LSTM 1 →")
    wiring.label("encoder", 3, "LSTM 1 ←")
    below = {position: f"embed.source.{position}" for position in wiring.positions}
    for layer in range(2, settings.layers + 1):
        wiring.encoder_layer(layer, layer + 2, "h̄", numbered=True)
        wiring.label("encoder", layer + 2, f"LSTM {layer}")
        for position in wiring.positions:
            if layer == 2:
                for direction in ("forward", "backward"):
                    wiring.link(f"encoder.1.{direction}.{position}", f"encoder.2.{position}", "input")
            below[position] = _residual(wiring, settings, f"encoder.{layer}.{position}", layer, below[position])
    _gnmt_decoder(wiring, settings, list(below.values()))
    context = "every layer but the bottom one" if settings.context_to == "upper" else "every layer"
    now = settings.query == "current"
    score = score_formula("additive", "h_i^1" if now else "h_{i−1}^1", "h̄_j")
    asks = "output is the query" if now else "previous output is the query, 0 at first"
    wiring.notes += [
        f"e_{{ij}} = {score}:  the bottom layer's {asks}",
        f"c_i = Σ_j softmax_j(e_{{ij}}) h̄_j  goes to {context};  h̄_j is the top of the encoder",
    ]
    if settings.is_residual(settings.layers - 1):
        wiring.notes.append("From the third layer on, a layer's input is added to its output (+); the context is not.")


def _residual(wiring: Wiring, settings: GnmtSettings, cell: str, layer: int, below: str) -> str:
    """Feed a cell from below and return its output node: the cell, or from the third layer on the residual sum."""
    if layer > 2:
        wiring.link(below, cell, "input")
    if not settings.is_residual(layer - 1):
        return cell
    node, total = wiring.nodes[cell], f"sum.{cell}"
    wiring.add(total, "add", "+", node.part, node.column, node.row + 0.5)
    wiring.link(cell, total, "input")
    wiring.link(below, total, "residual")
    return total


def _gnmt_decoder(wiring: Wiring, settings: GnmtSettings, keys: Sequence[str]) -> None:
    wiring.attend(3, "additive", keys)
    wiring.label("decoder", 3, "attention")
    if settings.query == "previous":
        wiring.add("zero", "zero", "0", "decoder", 0, 3)
    for layer in range(1, settings.layers + 1):
        row = 2 if layer == 1 else layer + 2
        wiring.decoder_layer(layer, row, "h", numbered=True)
        wiring.label("decoder", row, f"LSTM {layer}")
        # the bottom layer is initialised by the backward direction, which ends at the first word
        final = "encoder.1.backward.1" if layer == 1 else f"encoder.{layer}.{wiring.order[-1]}"
        wiring.link(final, f"decoder.{layer}.1", "start")
    for step in wiring.steps:
        asks = step if settings.query == "current" else step - 1
        wiring.link(f"decoder.1.{asks}" if asks else "zero", f"attend.{step}", "query")
        wiring.link(f"embed.target.{step}", f"decoder.1.{step}", "input")
        if settings.context_to == "all":
            wiring.link(f"attend.{step}", f"decoder.1.{step}", "context")
        wiring.link(f"decoder.1.{step}", f"decoder.2.{step}", "input")
        below = f"decoder.1.{step}"
        for layer in range(2, settings.layers + 1):
            wiring.link(f"attend.{step}", f"decoder.{layer}.{step}", "context")
            below = _residual(wiring, settings, f"decoder.{layer}.{step}", layer, below)
    top = f"decoder.{settings.layers}"
    wiring.write(settings.layers + 3, f"sum.{top}" if settings.is_residual(settings.layers - 1) else top)
