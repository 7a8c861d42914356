"""The arithmetic that a model cannot avoid, and so the speed it could have if all else were free.

Training a target token takes 6 · (decoder + output + encoder · source / target) floating-point operations, where the
names stand for weights that are multiplied once per token (two operations forwards, four backwards). Decoding takes 2
for each weight, once per hypothesis. The products inside attention are left out. The limit is the speed at which the
machine would do just that, as fast as it multiplies two large matrices.
"""

from __future__ import annotations

from dataclasses import dataclass

EMBEDDING, DIRECTION, HIDDEN = 256, 256, 512
"""Config B: sizes of a word vector, of one direction of the encoder, and of the decoder."""
LAYERS, HEADS, WIDTH, FEEDFORWARD = 3, 4, 256, 1024
"""Config A: layers on either side, heads, size of a layer, and of its feed-forward network."""

_ENCODER = 2 * 3 * DIRECTION * (EMBEDDING + DIRECTION) + 2 * DIRECTION * HIDDEN  # two GRUs, and the keys
_GRU = 3 * HIDDEN * (EMBEDDING + HIDDEN + HIDDEN)
_QUERY = HIDDEN * HIDDEN


@dataclass(frozen=True)
class Cost:
    """Weights that are multiplied once per source token (encoder) and once per target token (the others)."""

    encoder: int
    decoder: int
    output: int

    def training(self, source_per_target: float) -> float:
        """Operations to train on one target token."""
        return 6 * (self.decoder + self.output + self.encoder * source_per_target)

    def translating(self, source_tokens: float, target_tokens: float, beam: int) -> float:
        """Operations to translate one sentence."""
        return 2 * (self.encoder * source_tokens + beam * (self.decoder + self.output) * target_tokens)


def input_feeding(vocabulary: int) -> Cost:
    """Config B as the peers run it: attention after the step, a layer over [context; state], fed to the next step."""
    return Cost(_ENCODER, _GRU + _QUERY + 2 * HIDDEN * HIDDEN, HIDDEN * vocabulary)


def bahdanau(vocabulary: int) -> Cost:
    """The paper's decoder with an output layer as wide as the peers': maxout over state, word and context."""
    deep_output = (HIDDEN + EMBEDDING + 2 * DIRECTION) * 2 * HIDDEN
    return Cost(_ENCODER, _GRU + _QUERY + deep_output, HIDDEN * vocabulary)


def transformer(vocabulary: int) -> Cost:
    """Config A; the keys and values of the cross attention are made once per source token, so the encoder has them."""
    square, feedforward = WIDTH * WIDTH, 2 * WIDTH * FEEDFORWARD
    encoder = LAYERS * (4 * square + feedforward + 2 * square)
    return Cost(encoder, LAYERS * (4 * square + 2 * square + feedforward), WIDTH * vocabulary)
