"""Xu et al. 2015: *Show, attend and tell: neural image caption generation with visual attention*.

Encoder (section 3.1.1): a convolutional network; its L = H·W cells are the annotation vectors aᵢ.

Decoder (section 3.1.2, equations 1 to 7), for each word t:

    e_ti = vᵀ tanh(W h_{t−1} + U aᵢ),  α_t = softmax e_t       the previous state is the query
    ẑ_t  = β_t Σᵢ α_ti aᵢ,  β_t = σ(f_β(h_{t−1}))              soft attention with its gate (4.2.1)
    h_t  = LSTM([E y_{t−1}; ẑ_t], h_{t−1})
    p(y_t) ∝ exp(L_o (E y_{t−1} + L_h h_t + L_z ẑ_t))          deep output layer
    c₀ = f_c(mean of a),  h₀ = f_h(mean of a)

Doubly stochastic attention (4.2.1) adds the penalty λ Σᵢ (1 − Σ_t α_ti)² for each image.

Hard attention (4.1) selects one cell: ẑ_t = β_t aᵢ with i sampled from α_t in training, argmax in inference.

Departures from the paper:

* The encoder is a small network trained jointly (the paper: VGG, pretrained on ImageNet and frozen). Pixels and cells
  have two coordinate channels, for captions about relative positions; `coordinates = false` omits them.
* Hard attention is trained with the straight-through estimator, not with REINFORCE and a moving baseline. The
  estimator is exact if the loss is linear in ẑ, and biased otherwise.
* f_c and f_h are one layer with tanh each, as in the authors' code; the paper says perceptrons. f_β is one layer.
* Doubly stochastic attention is off by default: λ = 0 (`doubly_stochastic`); the authors' code has λ = 1.
* Hard attention has the gate β too, and no entropy bonus on α.
* The output layer has a bias. The optimizer is Adam (the paper: RMSProp or Adam).
* Dropout is on h_t before L_h and before L_o, as in the authors' code. `word_dropout` drops whole input words of the
  decoder, so that it relies on the image.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.config.captioning import CaptionerSettings
from regard.models.contract import Batch, Model, Output, State, Step
from regard.nn.attention import Additive, Attend
from regard.nn.attention.intervention import Intervention
from regard.nn.attention.memory import Memory
from regard.nn.attention.trace import Attention
from regard.nn.cells import Lstm, uniform_linear
from regard.nn.products import PRODUCTS, Products, step_products


class ShowAttendTell(Model):
    """CNN encoder and LSTM decoder with attention over image cells before each step."""

    def __init__(self, settings: CaptionerSettings, vocabulary: int) -> None:
        super().__init__()
        embedding, hidden, cell = settings.embedding_size, settings.hidden_size, settings.cell_size
        self.vocabulary_size = vocabulary
        self.embedding_size = embedding
        self.dropout = settings.dropout
        self.word_dropout = settings.word_dropout
        self.doubly_stochastic = settings.doubly_stochastic
        self.encoder = Encoder(settings)
        self.words = nn.Embedding(vocabulary, embedding)  # E
        self.initial_state = uniform_linear(nn.Linear(cell, hidden))  # f_h
        self.initial_cell = uniform_linear(nn.Linear(cell, hidden))  # f_c
        score = Additive(hidden, cell, settings.attention_size)
        self.attend = Attend(score, choose=OneCell() if settings.attention == "hard" else None)
        self.gate = uniform_linear(nn.Linear(hidden, 1))  # f_β
        self.lstm = Lstm(embedding + cell, hidden)
        self.output_state = uniform_linear(nn.Linear(hidden, embedding))  # L_h
        self.output_context = uniform_linear(nn.Linear(cell, embedding, bias=False))  # L_z
        self.output = uniform_linear(nn.Linear(embedding, vocabulary))  # L_o

    def encode(
        self,
        source: Tensor,
        source_mask: Tensor | None = None,
        *,
        attention: bool = False,
        intervention: Intervention | None = None,
    ) -> Memory:
        features = self.encoder(source)  # (B, C, H, W)
        cells = features.flatten(2).transpose(1, 2)  # (B, H·W, C)
        sentences, length = cells.shape[:2]
        return Memory(
            mask=torch.ones(sentences, length, dtype=torch.bool, device=cells.device),
            lengths=torch.full((sentences,), length, device=cells.device),
            summary=(cells.mean(1),),
            keys=self.attend.prepare(cells),
            values=cells,
            grid=(features.size(2), features.size(3)),
        )

    def start(self, memory: Memory) -> State:
        (mean,) = memory.summary
        return State((torch.tanh(self.initial_state(mean)), torch.tanh(self.initial_cell(mean))))

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
        word = self._read(token)  # (N, E)
        context, weights, traces = self.attend.at_step(
            state.tensors[0], memory, state.position, trace=trace, intervention=intervention
        )
        gated = self._gated(context, state.tensors[0])
        after = self.lstm(self._word_product(word) + self._context_product(gated, PRODUCTS), state.tensors)
        recorded: Attention | None = {"cross": weights[:, None, None, None]} if attention else None
        return Step(self._deep_output(word, after[0], gated), state.advance(after), recorded, traces)

    def forward(self, batch: Batch, *, attention: bool = False, intervention: Intervention | None = None) -> Output:
        memory = self.encode(batch.source, intervention=intervention)
        state = self.start(memory).tensors
        words = self._read(batch.target_in)  # (B, T, E)
        states: list[Tensor] = []
        contexts: list[Tensor] = []
        looks: list[Tensor] = []
        products = step_products()
        # The embeddings' part of the gates is one product over all steps; so is the deep output below.
        for position, product in enumerate(self._word_product(words).unbind(1)):
            context, used, _ = self.attend.at_step(
                state[0], memory, position, intervention=intervention, products=products
            )
            gated = self._gated(context, state[0])
            state = self.lstm(product + self._context_product(gated, products), state, products)
            states.append(state[0])
            contexts.append(gated)
            looks.append(used)
        weights = torch.stack(looks, 1)  # (B, T, S)
        hidden = self._deep_output(words, torch.stack(states, 1), torch.stack(contexts, 1))
        recorded: Attention | None = {"cross": weights[:, None, None]} if attention else None
        return Output(hidden, recorded, self._penalty(weights, batch.target_mask))

    def project(self, hidden: Tensor, columns: Tensor | None = None) -> Tensor:
        if columns is None:
            return self.output(hidden)  # type: ignore[no-any-return]
        return functional.linear(hidden, self.output.weight[columns], self.output.bias[columns])

    def _read(self, ids: Tensor) -> Tensor:
        """Embeddings (..., E) of words, with word dropout in training."""
        words: Tensor = self.words(ids)
        if not (self.training and self.word_dropout):
            return words
        return words * (torch.rand(ids.shape, device=ids.device) >= self.word_dropout).unsqueeze(-1)

    def _gated(self, context: Tensor, state: Tensor) -> Tensor:
        return torch.sigmoid(self.gate(state)) * context

    def _word_product(self, word: Tensor) -> Tensor:
        return self.lstm.project(word, 0, self.embedding_size)

    def _context_product(self, context: Tensor, products: Products) -> Tensor:
        return self.lstm.project(context, self.embedding_size, products=products)

    def _deep_output(self, word: Tensor, state: Tensor, context: Tensor) -> Tensor:
        state = functional.dropout(state, self.dropout, self.training)
        hidden = word + self.output_state(state) + self.output_context(context)
        return functional.dropout(hidden, self.dropout, self.training)

    def _penalty(self, weights: Tensor, target_mask: Tensor) -> Tensor | None:
        """λ Σᵢ (1 − Σ_t α_ti)² summed over the images of the batch, per word as in the contract."""
        if not self.doubly_stochastic:
            return None
        looked = (weights * target_mask.unsqueeze(-1)).sum(1)  # (B, S)
        return self.doubly_stochastic * (1 - looked).square().sum() / target_mask.sum()


class Encoder(nn.Module):
    """Images (B, C, H, W), bytes or floats from 0 to 1, to cells: one convolution of stride 2 for each of `channels`.

    All but the first are followed by another convolution. Batch normalisation keeps a cell's receptive field local;
    normalisation per image would mix the whole image into every cell.
    """

    def __init__(self, settings: CaptionerSettings) -> None:
        super().__init__()
        self.coordinates = settings.coordinates
        blocks = _convolution(settings.image_channels + 2 * settings.coordinates, settings.channels[0], stride=2)
        for inputs, outputs in pairwise(settings.channels):
            blocks += [*_convolution(inputs, outputs, stride=2), *_convolution(outputs, outputs)]
        self.blocks = nn.Sequential(*blocks)

    def forward(self, images: Tensor) -> Tensor:
        kind = next(self.parameters()).dtype
        if not images.is_floating_point():
            images = images.to(kind) / 255
        images = 2 * images.to(kind) - 1
        if self.coordinates:
            images = torch.cat([images, _places(images)], 1)
        cells: Tensor = self.blocks(images)
        return torch.cat([cells, _places(cells)], 1) if self.coordinates else cells


def _convolution(inputs: int, outputs: int, stride: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
    return [convolution, nn.BatchNorm2d(outputs), nn.ReLU()]


def _places(images: Tensor) -> Tensor:
    """Row and column of each pixel or cell (B, 2, H, W), from -1 to 1."""
    rows, columns = (torch.linspace(-1, 1, size, device=images.device, dtype=images.dtype) for size in images.shape[2:])
    places = torch.stack(torch.meshgrid(rows, columns, indexing="ij"))  # (2, H, W)
    return places.expand(images.size(0), -1, -1, -1)


class OneCell(nn.Module):
    """Hard attention: weights (..., S) to one-hot rows, sampled in training, argmax in evaluation.

    Straight-through estimator (Bengio et al. 2013): the sample in the forward pass, the gradient of the weights in the
    backward pass.
    """

    def forward(self, weights: Tensor) -> Tensor:
        flat = weights.detach().flatten(0, -2)
        some = flat.sum(-1, keepdim=True) > 0  # a fully masked row stays 0
        if self.training:
            place = torch.where(some, flat, 1.0).multinomial(1)
        else:
            place = flat.argmax(-1, keepdim=True)
        chosen = torch.zeros_like(flat).scatter_(1, place, 1.0) * some
        return chosen.view_as(weights) + (weights - weights.detach())
