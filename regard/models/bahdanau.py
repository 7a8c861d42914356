"""Bahdanau, Cho and Bengio 2015: *Neural machine translation by jointly learning to align and translate*.

Encoder (section 3.2): a bidirectional GRU; the annotation of word j is hⱼ = [→hⱼ; ←hⱼ].

Decoder (section 3.1, appendix A.2.2), for each target word i:

    eᵢⱼ = vᵀ tanh(W sᵢ₋₁ + U hⱼ)          the previous state is the query
    αᵢⱼ = softmaxⱼ eᵢⱼ,  cᵢ = Σⱼ αᵢⱼ hⱼ   (eq. 5, 6)
    sᵢ  = GRU([E yᵢ₋₁; cᵢ], sᵢ₋₁)         reset gate before the matrix (`PaperGru`)
    t̃ᵢ  = U_o sᵢ + V_o E yᵢ₋₁ + C_o cᵢ,  tᵢ = maxout(t̃ᵢ),  p(yᵢ) ∝ exp(W_o tᵢ)
    s₀  = tanh(W_s ←h₁)

Departures from the paper:

* The encoder's GRU applies the reset gate after the matrix, like torch's kernel; the decoder's GRU before it, as in the
  paper. `encoder_reset = "before"` is the paper's form for both.
* The maxout layer reads sᵢ, since section 3.1 conditions the word on sᵢ; the appendix prints sᵢ₋₁:
  `maxout_state = "previous"`.
* The output layer, the GRUs, W_s and the maxout layer have biases; the paper's equations omit them.
* Initialisation is Glorot uniform and orthogonal, not N(0, 0.01²).
* Dropout (on embeddings and before the output layer) and label smoothing are later additions that the recipe uses;
  tied embeddings are an option.
* The recipe trains with Adam; the paper with Adadelta (`training.optimizer = "adadelta"`).
* Scores other than the additive one are options.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from regard.config.models import BahdanauSettings
from regard.models.contract import Batch, Model, ModelWeights, Output, State, Step
from regard.models.inside import Inside
from regard.models.paths import STEPS, Paths, layer_path
from regard.models.wiring import Wiring, maxout_decoder, score_formula, sharpness_note
from regard.nn.attention import Attend, make_score
from regard.nn.attention.intervention import Intervention
from regard.nn.attention.memory import Memory
from regard.nn.attention.trace import Attention
from regard.nn.cells import Gru, PaperGru, maxout, uniform_linear
from regard.nn.dropout import dropout
from regard.nn.embedding import Embeddings
from regard.nn.linear import Linear
from regard.nn.products import PRODUCTS, Products, step_products


class Bahdanau(Model):
    """Attend before each step, with the previous state as query."""

    def __init__(self, settings: BahdanauSettings, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        self.settings = settings
        embedding, hidden, norm = settings.embedding_size, settings.hidden_size, settings.layer_norm
        encoder = settings.encoder_size or hidden  # of each direction
        self.vocabulary_size = target_vocabulary
        self.dropout = settings.dropout
        self.maxout_is_current = settings.maxout_state == "current"
        self.embedding_size = embedding
        self.embeddings = Embeddings(settings, source_vocabulary, target_vocabulary, settings.maxout_size)
        reads = PaperGru if settings.encoder_reset == "before" else Gru
        self.encoder_forward = reads(embedding, encoder, norm)
        self.encoder_backward = reads(embedding, encoder, norm)
        self.attend = Attend(
            make_score(
                settings.score,
                hidden,
                2 * encoder,
                size=settings.attention_size,
                max_positions=settings.max_source_positions,
                sharpness=settings.sharpness,
            )
        )
        self.initial = uniform_linear(Linear(encoder, hidden))  # W_s
        self.cell = PaperGru(embedding + 2 * encoder, hidden, norm)
        width = 2 * settings.maxout_size
        self.output_state = uniform_linear(Linear(hidden, width))  # U_o
        self.output_word = uniform_linear(Linear(embedding, width, bias=False))  # V_o
        self.output_context = uniform_linear(Linear(2 * encoder, width, bias=False))  # C_o

    def compilable(self) -> ModelWeights | None:
        return ModelWeights(self.settings, self.state_dict()) if type(self) is Bahdanau else None

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
        backward, (first,) = self.encoder_backward.run(words, None, lengths, backwards=True)
        annotations = torch.cat([forward, backward], -1)  # (B, S, 2D)
        return Memory(mask, lengths, (first,), self.attend.prepare(annotations), annotations)

    def start(self, memory: Memory) -> State:
        return State((torch.tanh(self.initial(memory.summary[0])),))

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
        context, weights, traces = self.attend.at_step(
            state.tensors[0], memory, state.position, trace=trace, intervention=intervention
        )
        before = state.tensors
        after = self.cell(self._word_product(word) + self._context_product(context, PRODUCTS), before)
        shown = after[0] if self.maxout_is_current else before[0]
        recorded: Attention | None = {"cross": weights[:, None, None, None]} if attention else None
        return Step(self._deep_output(shown, word, context), state.advance(after), recorded, traces)

    def forward(self, batch: Batch, *, attention: bool = False, intervention: Intervention | None = None) -> Output:
        memory = self.encode(batch.source, batch.source_mask, intervention=intervention)
        state = self.start(memory).tensors
        words = self.embeddings.read_target(batch.target_in)  # (B, T, E)
        states: list[Tensor] = []
        contexts: list[Tensor] = []
        weights: list[Tensor] = []
        products = step_products()
        # The embeddings' part of the gates is one product over all steps; so is the deep output below.
        for position, product in enumerate(self._word_product(words).unbind(1)):
            context, used, _ = self.attend.at_step(
                state[0], memory, position, intervention=intervention, products=products
            )
            before = state
            state = self.cell(product + self._context_product(context, products), before, products)
            states.append(state[0] if self.maxout_is_current else before[0])
            contexts.append(context)
            weights.append(used)
        hidden = self._deep_output(torch.stack(states, 1), words, torch.stack(contexts, 1))
        recorded: Attention | None = {"cross": torch.stack(weights, 1)[:, None, None]} if attention else None
        return Output(hidden, recorded)

    def inside(self) -> Inside:
        return Inside(
            self.embeddings.named,
            cells={
                "encoder.1.forward": self.encoder_forward,
                "encoder.1.backward": self.encoder_backward,
                "decoder.1": self.cell,
            },
            joined={"annotation": ("encoder.1.forward", "encoder.1.backward")},
            starts={"start": "decoder.1"},
            hidden="maxout",
        )

    def paths(self) -> Paths:
        return Paths(layer_path(self.encoder_forward.is_fast), STEPS)

    def project(self, hidden: Tensor, columns: Tensor | None = None) -> Tensor:
        return self.embeddings.project(hidden, columns)

    def projection(self, columns: Tensor | None = None) -> Callable[[Tensor], Tensor]:
        return self.embeddings.projection(columns)

    def _word_product(self, word: Tensor) -> Tensor:
        return self.cell.project(word, 0, self.embedding_size)

    def _context_product(self, context: Tensor, products: Products) -> Tensor:
        return self.cell.project(context, self.embedding_size, products=products)

    def _deep_output(self, state: Tensor, word: Tensor, context: Tensor) -> Tensor:
        pairs = self.output_state(state) + self.output_word(word) + self.output_context(context)
        return dropout(maxout(pairs), self.dropout, self.training)


# --- wiring ----------------------------------------------------------------------------------------------------------


def wire(wiring: Wiring, settings: BahdanauSettings) -> None:
    """Boxes and edges of the diagram."""
    wiring.read_source()
    wiring.read_target()
    wiring.both_directions(1, 2, "embed.source")
    for position in wiring.positions:
        wiring.add(f"annotation.{position}", "layer", f"h_{position}", "encoder", wiring.column(position), 4)
        for direction in ("forward", "backward"):
            wiring.link(f"encoder.1.{direction}.{position}", f"annotation.{position}", "input")
    wiring.label("encoder", 2, "GRU →")
    wiring.label("encoder", 3, "GRU ←")
    wiring.label("encoder", 4, "annotation [→; ←]")
    wiring.attend(2, settings.score, [f"annotation.{position}" for position in wiring.positions])
    wiring.label("decoder", 2, "attention")
    wiring.add("start", "cell", "s_0", "decoder", 0, 3)
    wiring.link("encoder.1.backward.1", "start", "start")
    for step in wiring.steps:
        wiring.link("start" if step == 1 else f"decoder.1.{step - 1}", f"attend.{step}", "query")
    previous = settings.maxout_state == "previous"
    maxout_decoder(wiring, {step: f"attend.{step}" for step in wiring.steps}, previous)
    shown = "s_{i−1}" if previous else "s_i"
    reset = "U (r ∘ h)" if settings.encoder_reset == "before" else "r ∘ (U h)"
    score = score_formula(settings.score, "s_{i−1}", "h_j", settings.sharpness)
    wiring.notes += [
        f"e_{{ij}} = {score}:  the previous state is the query" + sharpness_note(settings.score, settings.sharpness),
        "α_{ij} = softmax_j e_{ij},  c_i = Σ_j α_{ij} h_j,  s_i = GRU([E y_{i−1}; c_i], s_{i−1})",
        f"t_i = maxout(U {shown} + V E y_{{i−1}} + C c_i),  s_0 = tanh(W ←h_1)",
        f"GRU candidates:  tanh(W x + {reset}) in the encoder,  tanh(W x + U (r ∘ s)) in the decoder",
    ]
