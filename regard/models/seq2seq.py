"""Encoder-decoder with a fixed vector, without attention.

`context = "start"` (Sutskever, Vinyals and Le 2014): a stack of recurrent layers reads the source, by default
reversed; its final states initialise a decoder of the same depth.

`context = "every_step"` (Cho et al. 2014, appendix A.1): one vector c is an input of every step and of the output:

    c  = tanh(V h_N),  s₀ = tanh(V′ c)
    zᵢ = σ(W_z e(yᵢ₋₁) + U_z sᵢ₋₁ + C_z c),   rᵢ = σ(W_r e(yᵢ₋₁) + U_r sᵢ₋₁ + C_r c)
    s̃ᵢ = tanh(W e(yᵢ₋₁) + rᵢ ∘ (U sᵢ₋₁ + C c)),   sᵢ = zᵢ ∘ sᵢ₋₁ + (1 − zᵢ) ∘ s̃ᵢ
    output: maxout over pairs of O_h sᵢ + O_y e(yᵢ₋₁) + O_c c

Departures from the papers:

* In a reversed source EOS stays last.
* Cho's encoder uses torch's GRU, with the reset gate after the matrix; the decoder is as in the paper, which has it
  there too.
* The output layer and the cells have biases; the papers omit them.
* The recipes train with Adam and label smoothing; Sutskever with SGD, Cho with Adadelta (`training.optimizer`).
  Dropout is a later addition, tied embeddings an option.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.config.models import Seq2SeqSettings
from regard.models.contract import Batch, Model, ModelWeights, Output, State, Step
from regard.models.inside import Inside, stack_cells
from regard.models.paths import STEPS, Paths, layer_path
from regard.models.wiring import Wiring, maxout_decoder, stacked_decoder
from regard.nn.attention.intervention import Intervention
from regard.nn.attention.memory import Memory
from regard.nn.cells import Cell, GruNorm, interpolate, maxout, reorder, reversal, uniform_linear
from regard.nn.dropout import dropout
from regard.nn.embedding import Embeddings
from regard.nn.products import PRODUCTS, Products, step_products
from regard.nn.stack import Stack


class Seq2Seq(Model):
    """Encode the source into one vector, then decode from it."""

    def __init__(self, settings: Seq2SeqSettings, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        self.settings = settings
        embedding, hidden = settings.embedding_size, settings.hidden_size
        self.vocabulary_size = target_vocabulary
        self.dropout = settings.dropout
        self.reverse_source = settings.reverse_source
        at_every_step = settings.context == "every_step"
        output_size = settings.maxout_size if at_every_step else hidden
        self.embeddings = Embeddings(settings, source_vocabulary, target_vocabulary, output_size)
        self.encoder = Stack(
            settings.cell,
            settings.layers,
            embedding,
            hidden,
            dropout=settings.dropout,
            layer_norm=settings.layer_norm,
            batch_norm=settings.batch_norm,
        )
        self.decoder: Stack | ChoDecoder
        if at_every_step:
            self.decoder = ChoDecoder(embedding, hidden, settings.maxout_size, settings.layer_norm)
        else:
            self.decoder = Stack(
                settings.cell,
                settings.layers,
                embedding,
                hidden,
                dropout=settings.dropout,
                layer_norm=settings.layer_norm,
                batch_norm=settings.batch_norm,
            )

    def compilable(self) -> ModelWeights | None:
        ours = type(self) is Seq2Seq and not self.settings.batch_norm
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
            words = reorder(words, reversal(lengths, source.size(1), keep_last=True))
        _, final = self.encoder.run(words, None, lengths)
        return Memory(mask, lengths, final)

    def start(self, memory: Memory) -> State:
        if isinstance(self.decoder, ChoDecoder):
            return State(self.decoder.start(memory.summary[0]))
        return State(memory.summary)

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
        word = self.embeddings.read_target(token)  # (N, E)
        if isinstance(self.decoder, ChoDecoder):
            after = self.decoder.step(self.decoder.cell.project(word), state.tensors)
            hidden = self.decoder.output(after[0], word, state.tensors[2])
        else:
            product = self.decoder.cell(0).project(word)
            after = self.decoder.step(product, state.tensors, position=state.position)
            hidden = after[-self.decoder.tensors_per_layer]
        return Step(self._drop(hidden), state.advance(after), {} if attention else None)

    def forward(self, batch: Batch, *, attention: bool = False, intervention: Intervention | None = None) -> Output:
        memory = self.encode(batch.source, batch.source_mask, intervention=intervention)
        state = self.start(memory).tensors
        words = self.embeddings.read_target(batch.target_in)  # (B, T, E)
        if isinstance(self.decoder, ChoDecoder):
            states: list[Tensor] = []
            products = step_products()
            for product in self.decoder.cell.project(words).unbind(1):
                state = self.decoder.step(product, state, products)
                states.append(state[0])
            hidden = self.decoder.output(torch.stack(states, 1), words, state[2].unsqueeze(1))
        else:
            # only the statistics of batch normalisation depend on where a target ends
            lengths = batch.target_mask.sum(1) if self.settings.batch_norm and self.training else None
            hidden, _ = self.decoder.run(words, state, lengths)
        return Output(self._drop(hidden), {} if attention else None)

    def inside(self) -> Inside | None:
        if self.settings.batch_norm:
            return None  # a cell alone does not know its position
        cells, embed = stack_cells("encoder", self.encoder), self.embeddings.named
        if isinstance(self.decoder, ChoDecoder):
            cells["decoder.1"] = self.decoder.cell
            return Inside(
                embed, cells, starts={"start": "decoder.1"}, hidden="maxout", reads_backwards=self.reverse_source
            )
        return Inside(embed, cells | stack_cells("decoder", self.decoder), reads_backwards=self.reverse_source)

    def paths(self) -> Paths:
        decoder = STEPS if isinstance(self.decoder, ChoDecoder) else layer_path(self.decoder.is_fast)
        return Paths(layer_path(self.encoder.is_fast), decoder)

    def project(self, hidden: Tensor, columns: Tensor | None = None) -> Tensor:
        return self.embeddings.project(hidden, columns)

    def projection(self, columns: Tensor | None = None) -> Callable[[Tensor], Tensor]:
        return self.embeddings.projection(columns)

    def _drop(self, hidden: Tensor) -> Tensor:
        return dropout(hidden, self.dropout, self.training)


class ChoCell(Cell):
    """Cho's decoder cell; the state also carries the constant C c, the summary's part of the gates."""

    gates = 3
    equation = "s = (1 − z) ∘ s̃ + z ∘ s₋₁"

    def make_norm(self) -> nn.Module:
        return GruNorm(self.hidden_size)

    def forward(
        self, projected: Tensor, state: tuple[Tensor, ...], products: Products = PRODUCTS
    ) -> tuple[Tensor, ...]:
        _, update, candidate = self._gates(projected, state, products)
        return interpolate(candidate, state[0], update), state[1]

    def gate_values(
        self, projected: Tensor, state: tuple[Tensor, ...], products: Products = PRODUCTS
    ) -> dict[str, Tensor]:
        reset, update, candidate = self._gates(projected, state, products)
        return {"reset r": reset, "update z": update, "candidate s̃": candidate}

    def _gates(self, projected: Tensor, state: tuple[Tensor, ...], products: Products) -> tuple[Tensor, Tensor, Tensor]:
        hidden, summary = state
        from_input = (self._input_product(projected) + self.bias).chunk(3, -1)
        from_hidden = (self._hidden_product(hidden, products) + summary).chunk(3, -1)  # U s + C c
        update = torch.sigmoid(from_input[0] + from_hidden[0])
        reset = torch.sigmoid(from_input[1] + from_hidden[1])
        return reset, update, torch.tanh(from_input[2] + reset * from_hidden[2])


class ChoDecoder(nn.Module):
    """Cho's decoder, with the summary as input of every step; its state is (s, C c, O_c c)."""

    def __init__(self, embedding: int, hidden: int, maxout_size: int, layer_norm: bool) -> None:
        super().__init__()
        self.cell = ChoCell(embedding, hidden, layer_norm)
        self.summary = uniform_linear(nn.Linear(hidden, hidden))  # V
        self.initial = uniform_linear(nn.Linear(hidden, hidden))  # V′
        self.gates_summary = uniform_linear(nn.Linear(hidden, 3 * hidden, bias=False))  # C
        self.output_state = uniform_linear(nn.Linear(hidden, 2 * maxout_size))  # O_h
        self.output_word = uniform_linear(nn.Linear(embedding, 2 * maxout_size, bias=False))  # O_y
        self.output_summary = uniform_linear(nn.Linear(hidden, 2 * maxout_size, bias=False))  # O_c

    def start(self, last: Tensor) -> tuple[Tensor, ...]:
        """The initial state, from the encoder's final state (B, D)."""
        summary = torch.tanh(self.summary(last))
        return torch.tanh(self.initial(summary)), self.gates_summary(summary), self.output_summary(summary)

    def step(self, projected: Tensor, state: tuple[Tensor, ...], products: Products = PRODUCTS) -> tuple[Tensor, ...]:
        """The next state."""
        return (*self.cell(projected, state[:2], products), state[2])

    def output(self, hidden: Tensor, word: Tensor, output_summary: Tensor) -> Tensor:
        """The maxout layer (…, L)."""
        return maxout(self.output_state(hidden) + self.output_word(word) + output_summary)


# --- wiring ----------------------------------------------------------------------------------------------------------


def wire(wiring: Wiring, settings: Seq2SeqSettings) -> None:
    """Boxes and edges of the diagram."""
    wiring.read_source(settings.reverse_source)
    wiring.read_target()
    if settings.context == "every_step":
        _cho(wiring, settings)
        return
    wiring.encode(settings.layers, settings.cell, "h̄")
    stacked_decoder(wiring, settings.layers, settings.cell, 2)
    for layer in range(1, settings.layers + 1):
        wiring.link(f"encoder.{layer}.{wiring.order[-1]}", f"decoder.{layer}.1", "start")
    wiring.write(settings.layers + 2, f"decoder.{settings.layers}")
    wiring.notes += ["The final states of the encoder are the decoder's only information about the source."]


def _cho(wiring: Wiring, settings: Seq2SeqSettings) -> None:
    wiring.encode(1, settings.cell, "h")
    wiring.add("summary", "layer", "c", "decoder", 0, 2)
    wiring.add("start", "cell", "s_0", "decoder", 0, 3)
    wiring.link(f"encoder.1.{wiring.order[-1]}", "summary", "start")
    wiring.link("summary", "start", "start")
    maxout_decoder(wiring, dict.fromkeys(wiring.steps, "summary"))
    wiring.notes += [
        "c = tanh(V h_N),  s_0 = tanh(V′ c)",
        "s_i = GRU(E y_{i−1}, s_{i−1}, c)",
        "output: maxout(O_h s_i + O_y E y_{i−1} + O_c c)",
    ]
