"""The settings of every translation architecture, with their defaults and documentation. Needs no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from regard.config.base import Architecture
from regard.config.vocabulary import BOS, PAD

ScoreName = Literal["dot", "scaled_dot", "general", "additive", "concat", "location", "cosine"]
WindowName = Literal["global", "local-m", "local-p"]
CellName = Literal["rnn", "gru", "lstm"]
FIRST_SHARPNESS = 5.0


POSITIONS_HELP = "location score: maximum source positions; later ones get no attention"
SHARPNESS_HELP = (
    f"β of the cosine score β cos(q, k), 1 for the plain cosine (default: learned, from {FIRST_SHARPNESS:g})"
)


BATCH_NORM_HELP = (
    "batch normalisation in LSTM cells, by position (Cooijmans et al. 2017), to be compared with layer_norm; slow, and "
    "decoded by torch only"
)


class ModelSettings(Architecture):
    """Settings of every translation model."""

    dropout: float = Field(0.2, ge=0, lt=1, description="dropout rate between layers")
    tie_embeddings: Literal["none", "target", "all"] = Field(
        "none",
        description="share the target embedding with the output layer (target), and with the source too (all)",
    )
    source_vectors: Path | None = Field(
        None, description="word2vec/GloVe text file that initialises the source embedding"
    )
    target_vectors: Path | None = Field(
        None, description="word2vec/GloVe text file that initialises the target embedding"
    )


STACKED_SOURCE_SCALE = 10.0
"""Initial scale of source embeddings in stacked encoders; with one table for both languages, a factor of the input.

With it and `cells.STACKED_INPUT_SCALE` attention forms sooner: a small GNMT reached 17 BLEU after one epoch instead of
8. Single-layer models do not use it: the small Bahdanau model of the quickstart lost two points.
"""


class RecurrentSettings(ModelSettings):
    """Settings of every recurrent model."""

    embedding_size: int = Field(256, ge=1, description="size of a word embedding")
    hidden_size: int = Field(512, ge=1, description="hidden size of a recurrent layer")
    layer_norm: bool = Field(False, description="layer normalisation inside the recurrent cells (slower, more stable)")

    @property
    def stacked_encoder(self) -> bool:
        """Whether the encoder has layers above layers."""
        return False

    @property
    def source_scale(self) -> float:
        """The factor of source embeddings."""
        return STACKED_SOURCE_SCALE if self.stacked_encoder and self.tie_embeddings == "all" else 1.0


class StackedSettings(RecurrentSettings):
    """Settings of recurrent models with layers above layers."""

    layers: int = Field(2, ge=1, le=32, description="depth of encoder and decoder (the paper: 4)")

    @property
    def stacked_encoder(self) -> bool:
        """Whether the encoder has layers above layers."""
        return self.layers > 1


class BatchNormSettings(StackedSettings):
    """Settings of models whose LSTM cells may be batch-normalised."""

    cell: CellName = Field("lstm", description="the recurrent cell")
    batch_norm: bool = Field(False, description=BATCH_NORM_HELP)

    @model_validator(mode="after")
    def _batch_norm_fits(self) -> BatchNormSettings:
        if self.batch_norm and (self.cell != "lstm" or self.layer_norm):
            raise ValueError('batch_norm = true needs cell = "lstm" and layer_norm = false')
        return self


class Seq2SeqSettings(BatchNormSettings):
    """Encoder-decoder without attention: one fixed vector carries the whole sentence."""

    title = "encoder-decoder with one fixed vector, no attention"
    paper = "Sutskever et al. 2014; Cho et al. 2014"
    published = "WMT14 en-fr 30.6 BLEU (five models: 34.8)"

    kind: Literal["seq2seq"] = "seq2seq"
    context: Literal["start", "every_step"] = Field(
        "start", description="the vector initialises the decoder (Sutskever) or is an input of every step (Cho)"
    )
    reverse_source: bool = Field(True, description="reverse the source sentence (Sutskever)")
    maxout_size: int = Field(256, ge=1, description="every_step: size of the maxout layer before the output")

    @model_validator(mode="after")
    def _cho_is_shallow(self) -> Seq2SeqSettings:
        if self.context == "every_step" and (self.layers != 1 or self.cell != "gru"):
            raise ValueError('context = "every_step" is Cho\'s model: it needs layers = 1 and cell = "gru"')
        return self


class BahdanauSettings(RecurrentSettings):
    """Attention computed from the previous decoder state, before the step."""

    title = "bidirectional GRU encoder, additive attention before each decoder step, maxout output"
    paper = "Bahdanau et al. 2015"
    published = "WMT14 en-fr 26.8 BLEU (28.5 trained longer)"

    kind: Literal["bahdanau"] = "bahdanau"
    encoder_size: int | None = Field(None, ge=1, description="size of each encoder direction (default: hidden_size)")
    score: ScoreName = Field("additive", description="attention score function")
    attention_size: int = Field(512, ge=1, description="size of the additive score's hidden layer")
    maxout_size: int = Field(256, ge=1, description="size of the maxout layer before the output")
    max_source_positions: int = Field(200, ge=1, description=POSITIONS_HELP)
    sharpness: float | None = Field(None, gt=0, description=SHARPNESS_HELP)
    encoder_reset: Literal["after", "before"] = Field(
        "after",
        description="encoder GRU: reset gate after the matrix (torch, fast) or before it (the paper, slower); "
        "the decoder's is always before",
    )
    maxout_state: Literal["current", "previous"] = Field(
        "current", description="input state of the maxout layer: s_i (section 3.1) or s_{i-1} (appendix A.2.2)"
    )


class LuongSettings(BatchNormSettings):
    """Attention computed from the current decoder state, after the step."""

    title = "stacked LSTMs, every score, global or local attention after each step, input feeding"
    paper = "Luong et al. 2015"
    published = "WMT14 en-de 20.9 BLEU (local-p, general score, unknown replacement; eight models: 23.0)"

    kind: Literal["luong"] = "luong"
    score: ScoreName = Field("general", description="attention score function")
    attention_size: int = Field(512, ge=1, description="size of the additive score's hidden layer")
    window: WindowName = Field("global", description="global attention, or a local window (monotonic or predictive)")
    window_size: int = Field(
        10, ge=1, description="D: half width of a local window, in positions on either side of its centre"
    )
    max_source_positions: int = Field(200, ge=1, description=POSITIONS_HELP)
    sharpness: float | None = Field(None, gt=0, description=SHARPNESS_HELP)
    input_feeding: bool = Field(True, description="concatenate the attentional vector with the next step's input")
    query: Literal["current", "previous"] = Field(
        "current",
        description="query: the state after the step, with a tanh layer (Luong), "
        "or the state before it, without tanh (the textbook variant)",
    )
    context_to: Literal["step", "output"] = Field(
        "step",
        description='query = "previous": the context is an input of the step and of the output [c; h], or of the '
        "output only",
    )
    reverse_source: bool = Field(True, description="reverse the source sentence, as in the paper")
    bidirectional: bool = Field(False, description="bidirectional encoder (not in the paper)")

    @model_validator(mode="after")
    def _batch_norm_has_whole_sentences(self) -> LuongSettings:
        if self.batch_norm and self.needs_steps:
            raise ValueError(
                "batch_norm = true needs whole sentences in training: set input_feeding = false "
                'and query = "current" or context_to = "output"'
            )
        return self

    @property
    def needs_steps(self) -> bool:
        """Whether a decoder step depends on the attention of the step before."""
        return self.input_feeding or (self.query == "previous" and self.context_to == "step")

    @model_validator(mode="after")
    def _sizes_fit(self) -> LuongSettings:
        if self.bidirectional and self.hidden_size % 2:
            raise ValueError("bidirectional = true needs an even hidden_size: each direction has half of it")
        if self.context_to == "output" and self.query == "current":
            raise ValueError(
                'context_to = "output" needs query = "previous": a current query always comes after the step'
            )
        return self


class GnmtSettings(StackedSettings):
    """Deep residual LSTMs with the bottom decoder layer as query."""

    title = "deep residual LSTMs, bidirectional first layer, additive attention from the bottom layer"
    paper = "Wu et al. 2016"
    published = "WMT14 en-fr 39.0, en-de 24.6 BLEU (8 layers, 32k wordpieces, before RL refinement)"

    kind: Literal["gnmt"] = "gnmt"
    layers: int = Field(8, ge=2, le=16, description="depth of encoder and decoder")
    residual: bool = Field(True, description="residual connections from the third layer on")
    attention_size: int = Field(512, ge=1, description="size of the additive score's hidden layer")
    context_to: Literal["upper", "all"] = Field(
        "upper",
        description="layers with the context as input: all but the bottom one (the paper) or all (tensorflow/nmt)",
    )
    query: Literal["previous", "current"] = Field(
        "previous",
        description="query: the bottom layer's output at the previous step (the paper) or at this one (gnmt_v2)",
    )

    def is_residual(self, layer: int) -> bool:
        """Whether a layer's input is added to its output; `layer` counts from 0 at the bottom."""
        return self.residual and layer >= 2

    @model_validator(mode="after")
    def _no_circle(self) -> GnmtSettings:
        if self.query == "current" and self.context_to == "all":
            raise ValueError(
                'query = "current" needs context_to = "upper": the bottom layer makes the query of its own context'
            )
        return self


class TransformerSettings(ModelSettings):
    """Attention alone. The defaults are the base model of the paper."""

    title = "multi-head attention in three uses, layer normalisation, sinusoidal positions"
    paper = "Vaswani et al. 2017"
    published = "WMT14 en-de 27.3, en-fr 38.1 BLEU (base; big: 28.4, 41.8)"

    kind: Literal["transformer"] = "transformer"
    hidden_size: int = Field(512, ge=2, description="d: size of word embeddings and of every layer's output")
    encoder_layers: int = Field(6, ge=1, le=64, description="depth of the encoder")
    decoder_layers: int = Field(6, ge=1, le=64, description="depth of the decoder")
    heads: int = Field(8, ge=1, description="attention heads, each of size hidden_size / heads")
    feedforward_size: int = Field(2048, ge=1, description="size of the inner layer of the feed-forward networks")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout rate after each sub-layer")
    norm: Literal["post", "pre"] = Field(
        "post",
        description="layer normalisation after the residual sum (post, the paper), or before each sub-layer and at the "
        "end (pre: trains at any depth, with a short warm-up)",
    )
    activation: Literal["relu", "silu", "gelu"] = Field("relu", description="activation of the feed-forward networks")
    positions: Literal["interleaved", "halves"] = Field(
        "interleaved",
        description="layout of position encodings: sines and cosines alternate (the paper), or sines first (Marian)",
    )
    attention_bias: bool = Field(False, description="biases in the attention projections (Marian; not in the paper)")
    output_bias: bool = Field(False, description="bias in the output layer (Marian; not in the paper)")
    scale_embeddings: bool = Field(True, description="multiply word embeddings by √hidden_size")
    tie_embeddings: Literal["none", "target", "all"] = Field(
        "all",
        description="share the target embedding with the output layer (target), and with the source too "
        "(all, the paper; needs text.joint)",
    )
    start_token: Literal["bos", "pad"] = Field(
        "bos", description="first input token of the decoder: <s>, or <pad> (Marian)"
    )
    alignment_layer: int | None = Field(
        None, ge=1, description="decoder layer, from 1, whose cross attention is the alignment (default: last but one)"
    )
    alignment_head: int | None = Field(
        None, ge=1, description="head of that layer, from 1 (default: the mean of all its heads)"
    )

    @property
    def start_id(self) -> int:
        """The id of the first decoder input."""
        return PAD if self.start_token == "pad" else BOS

    @property
    def embedding_size(self) -> int:
        """Size of a word embedding."""
        return self.hidden_size

    @model_validator(mode="after")
    def _sizes_fit(self) -> TransformerSettings:
        if self.hidden_size % self.heads:
            raise ValueError(
                f"hidden_size = {self.hidden_size} is not a multiple of heads = {self.heads}: change one of them"
            )
        if self.hidden_size % 2:
            raise ValueError(f"hidden_size = {self.hidden_size} is odd: position encodings need an even size")
        if self.alignment_layer is not None and self.alignment_layer > self.decoder_layers:
            raise ValueError(f"alignment_layer = {self.alignment_layer}: decoder layers are 1 to {self.decoder_layers}")
        if self.alignment_head is not None and self.alignment_head > self.heads:
            raise ValueError(f"alignment_head = {self.alignment_head}: heads are 1 to {self.heads}")
        return self


ModelConfig = Annotated[
    Seq2SeqSettings | BahdanauSettings | LuongSettings | GnmtSettings | TransformerSettings,
    Field(discriminator="kind"),
]

MODEL_SETTINGS: dict[str, type[ModelSettings]] = {
    "seq2seq": Seq2SeqSettings,
    "bahdanau": BahdanauSettings,
    "luong": LuongSettings,
    "gnmt": GnmtSettings,
    "transformer": TransformerSettings,
}
