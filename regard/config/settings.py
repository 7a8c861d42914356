"""Recipes: the only home of every setting, its default and its documentation.

A recipe is a TOML file with the tables [model], [text], [training] and [search]. This file needs no torch, so that
listing, validating and helping are instant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

ScoreName = Literal["dot", "scaled_dot", "general", "additive", "concat", "location", "cosine"]
WindowName = Literal["global", "local-m", "local-p"]
CellName = Literal["rnn", "gru", "lstm"]
FIRST_SHARPNESS = 5.0
Share = Annotated[float, Field(ge=0, lt=1)]


POSITIONS_HELP = "rows of the location score; later source positions get no attention"
SHARPNESS_HELP = (
    f"β of the cosine score β cos(q, k), 1 for the plain cosine (default: learned, from {FIRST_SHARPNESS:g})"
)


class Settings(BaseModel):
    """A frozen group of settings; an unknown key is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


# --- models -------------------------------------------------------------------------------------------------------


class ModelSettings(Settings):
    """What all the models share."""

    title: ClassVar[str]
    paper: ClassVar[str]
    published: ClassVar[str]

    dropout: float = Field(0.2, ge=0, lt=1, description="share of units dropped between layers while training")
    tie_embeddings: Literal["none", "target", "all"] = Field(
        "none",
        description="use the target embedding as output matrix (target), and as source embedding too (all)",
    )
    source_vectors: Path | None = Field(None, description="word2vec/GloVe text file that starts the source embedding")
    target_vectors: Path | None = Field(None, description="word2vec/GloVe text file that starts the target embedding")


class RecurrentSettings(ModelSettings):
    """What all the recurrent models share."""

    embedding_size: int = Field(256, ge=1, description="size of a word's vector")
    hidden_size: int = Field(512, ge=1, description="size of a recurrent layer")
    layer_norm: bool = Field(False, description="normalise inside the recurrent cells (slower, steadier)")


class Seq2SeqSettings(RecurrentSettings):
    """The fixed vector: one vector carries the whole sentence."""

    title = "encoder-decoder with one fixed vector, no attention"
    paper = "Sutskever et al. 2014; Cho et al. 2014"
    published = "WMT14 en-fr 30.6 BLEU (five models: 34.8)"

    kind: Literal["seq2seq"] = "seq2seq"
    cell: CellName = Field("lstm", description="the recurrent cell")
    layers: int = Field(2, ge=1, le=32, description="depth of encoder and decoder (the paper: 4)")
    context: Literal["start", "every_step"] = Field(
        "start", description="the vector starts the decoder (Sutskever) or enters every step (Cho)"
    )
    reverse_source: bool = Field(True, description="read the source sentence backwards (Sutskever)")
    maxout_size: int = Field(256, ge=1, description="every_step: units of the maxout layer before the output")

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
    score: ScoreName = Field("additive", description="how a query is compared with the keys")
    attention_size: int = Field(512, ge=1, description="size of the additive score's hidden layer")
    maxout_size: int = Field(256, ge=1, description="units of the maxout layer before the output")
    max_source_positions: int = Field(200, ge=1, description=POSITIONS_HELP)
    sharpness: float | None = Field(None, gt=0, description=SHARPNESS_HELP)
    encoder_reset: Literal["after", "before"] = Field(
        "after",
        description="the encoder's GRU applies its reset gate after the matrix (torch's form, fast) "
        "or before it (the paper's, word by word); the decoder's is always the paper's",
    )
    maxout_state: Literal["current", "previous"] = Field(
        "current", description="state that the maxout layer reads: s_i (section 3.1) or s_{i-1} (appendix A.2.2)"
    )


class LuongSettings(RecurrentSettings):
    """Attention computed from the current decoder state, after the step."""

    title = "stacked LSTMs, every score, global or local attention after each step, input feeding"
    paper = "Luong et al. 2015"
    published = "WMT14 en-de 20.9 BLEU (eight models: 23.0; on WMT15 25.9)"

    kind: Literal["luong"] = "luong"
    cell: CellName = Field("lstm", description="the recurrent cell")
    layers: int = Field(2, ge=1, le=32, description="depth of encoder and decoder (the paper: 4)")
    score: ScoreName = Field("general", description="how a query is compared with the keys")
    attention_size: int = Field(512, ge=1, description="size of the additive score's hidden layer")
    window: WindowName = Field("global", description="which source positions may be attended to")
    window_size: int = Field(10, ge=1, description="D: a local window spans D positions on either side of its centre")
    max_source_positions: int = Field(200, ge=1, description=POSITIONS_HELP)
    sharpness: float | None = Field(None, gt=0, description=SHARPNESS_HELP)
    input_feeding: bool = Field(True, description="the attentional vector joins the next step's input")
    query: Literal["current", "previous"] = Field(
        "current",
        description="attend with the state after the step, through a tanh layer (Luong), "
        "or with the state before it, without tanh (the textbook variant)",
    )
    context_to: Literal["step", "output"] = Field(
        "step",
        description='query = "previous": the context enters the step and the output [c; h], or the output alone',
    )
    reverse_source: bool = Field(True, description="read the source sentence backwards, as the paper does")
    bidirectional: bool = Field(False, description="read the source in both directions (not in the paper)")

    @model_validator(mode="after")
    def _sizes_fit(self) -> LuongSettings:
        if self.bidirectional and self.hidden_size % 2:
            raise ValueError("bidirectional = true needs an even hidden_size: each direction has half of it")
        if self.context_to == "output" and self.query == "current":
            raise ValueError(
                'context_to = "output" needs query = "previous": a current query always comes after the step'
            )
        return self


class GnmtSettings(RecurrentSettings):
    """Deep residual LSTMs with the bottom decoder layer as query."""

    title = "deep residual LSTMs, bidirectional first layer, additive attention from the bottom layer"
    paper = "Wu et al. 2016"
    published = "WMT14 en-fr 39.0, en-de 24.6 BLEU (8 layers, 32k wordpieces, before RL refinement)"

    kind: Literal["gnmt"] = "gnmt"
    layers: int = Field(8, ge=2, le=16, description="depth of encoder and decoder")
    attention_size: int = Field(512, ge=1, description="size of the additive score's hidden layer")
    context_to: Literal["upper", "all"] = Field(
        "upper",
        description="layers that get the context: all but the bottom one (the paper) or all (tensorflow/nmt)",
    )
    query: Literal["previous", "current"] = Field(
        "previous",
        description="what asks: the bottom layer's output of the step before (the paper) or of this one (gnmt_v2)",
    )

    @model_validator(mode="after")
    def _no_circle(self) -> GnmtSettings:
        if self.query == "current" and self.context_to == "all":
            raise ValueError(
                'query = "current" needs context_to = "upper": the bottom layer cannot wait for its context'
            )
        return self


class TransformerSettings(ModelSettings):
    """Attention alone. The defaults are the base model of the paper."""

    title = "multi-head attention in three uses, layer normalisation, sinusoidal positions"
    paper = "Vaswani et al. 2017"
    published = "WMT14 en-de 27.3, en-fr 38.1 BLEU (base; big: 28.4, 41.8)"

    kind: Literal["transformer"] = "transformer"
    hidden_size: int = Field(512, ge=2, description="d: size of word vectors and of every layer's output")
    encoder_layers: int = Field(6, ge=1, le=64, description="depth of the encoder")
    decoder_layers: int = Field(6, ge=1, le=64, description="depth of the decoder")
    heads: int = Field(8, ge=1, description="heads of every attention; they share hidden_size evenly")
    feedforward_size: int = Field(2048, ge=1, description="size of the inner layer of the feed-forward networks")
    dropout: float = Field(0.1, ge=0, lt=1, description="share of units dropped after each sub-layer while training")
    norm: Literal["post", "pre"] = Field(
        "post",
        description="normalise after adding the residual (the paper), or before each sub-layer and once at the end, "
        "which trains at any depth and without a long warm-up",
    )
    activation: Literal["relu", "silu", "gelu"] = Field("relu", description="inside the feed-forward networks")
    positions: Literal["interleaved", "halves"] = Field(
        "interleaved",
        description="how sines and cosines lie in a position: taking turns (the paper), or all sines first (Marian)",
    )
    attention_bias: bool = Field(False, description="biases in the projections of attention (Marian; not in the paper)")
    output_bias: bool = Field(False, description="a bias for each word of the output (Marian; not in the paper)")
    scale_embeddings: bool = Field(True, description="multiply word vectors by √hidden_size")
    tie_embeddings: Literal["none", "target", "all"] = Field(
        "all",
        description="use the target embedding as output matrix (target), and as source embedding too "
        "(all, the paper; needs text.joint)",
    )
    start_token: Literal["bos", "pad"] = Field(
        "bos", description="the vector that decoding begins with: that of <s>, or that of padding (Marian)"
    )
    alignment_layer: int | None = Field(
        None, ge=0, description="decoder layer, from 0, whose cross attention is the alignment (default: last but one)"
    )
    alignment_head: int | None = Field(
        None, ge=0, description="head of that layer, from 0 (default: the mean of all its heads)"
    )

    @property
    def embedding_size(self) -> int:
        """Size of a word's vector."""
        return self.hidden_size

    @model_validator(mode="after")
    def _sizes_fit(self) -> TransformerSettings:
        if self.hidden_size % self.heads:
            raise ValueError(
                f"hidden_size = {self.hidden_size} is no multiple of heads = {self.heads}: change one of them"
            )
        if self.hidden_size % 2:
            raise ValueError(f"hidden_size = {self.hidden_size} is odd: positions need a sine for every cosine")
        if self.alignment_layer is not None and self.alignment_layer >= self.decoder_layers:
            raise ValueError(
                f"alignment_layer = {self.alignment_layer}, but the decoder's layers are 0 to {self.decoder_layers - 1}"
            )
        if self.alignment_head is not None and self.alignment_head >= self.heads:
            raise ValueError(f"alignment_head = {self.alignment_head}, but there are the heads 0 to {self.heads - 1}")
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

# --- text, training, search ---------------------------------------------------------------------------------------


class TextSettings(Settings):
    """How sentences become token ids."""

    tokenizer: Literal["bpe", "unigram", "wordpiece", "word", "character"] = Field(
        "bpe", description="the kind of pieces"
    )
    vocabulary_size: int = Field(8000, ge=8, description="pieces a vocabulary may have, special ones included")
    joint: bool = Field(False, description="one vocabulary for both languages")
    byte_fallback: bool = Field(
        True, description="spell unknown characters in bytes, so that nothing is unknown (bpe and unigram)"
    )
    lowercase: bool = Field(False, description="lower-case all text; the case is then lost")
    min_frequency: int = Field(2, ge=1, description="pieces and words seen less often are left out")
    max_length: int = Field(128, ge=1, description="pairs with more tokens on a side are skipped, and counted")
    source_tokenizer: Path | None = Field(
        None,
        description="a SentencePiece model or tokenizer.json trained elsewhere, in place of learning pieces "
        "(joint: for both languages)",
    )
    target_tokenizer: Path | None = Field(None, description="the same for the target language")

    @model_validator(mode="after")
    def _one_tokenizer_if_joint(self) -> TextSettings:
        if self.joint and self.target_tokenizer not in (None, self.source_tokenizer):
            raise ValueError("joint = true means one tokenizer for both languages: give source_tokenizer alone")
        return self


class LoopSettings(Settings):
    """How any model learns, whatever it learns from."""

    seed: int = Field(1, ge=0, lt=2**63, description="every random choice follows from it")
    epochs: float | None = Field(None, gt=0, description="stop after so many passes over the text")
    updates: int | None = Field(None, ge=1, description="stop after so many updates")
    budget: str | None = Field(
        None,
        description='stop after so long: "90s", "10m", "1.5h"; turned into updates by the pace so far',
    )
    accumulate: int = Field(1, ge=1, description="batches whose gradients are added up for one update")
    optimizer: Literal["adam", "adamw", "sgd", "adadelta"] = Field(
        "adam",
        description="the update rule (adadelta, Bahdanau's: with learning_rate = 1, schedule = constant, warmup = 0)",
    )
    learning_rate: float = Field(1e-3, gt=0, description="the peak of the schedule")
    betas: tuple[Share, Share] = Field((0.9, 0.98), description="Adam's averaging")
    epsilon: float = Field(1e-9, gt=0, description="Adam's epsilon")
    rho: Share = Field(0.95, description="Adadelta's averaging")
    adadelta_epsilon: float = Field(1e-6, gt=0, description="Adadelta's epsilon")
    weight_decay: float = Field(0.0, ge=0, description="pull weights towards zero (adamw: decoupled)")
    schedule: Literal["constant", "inverse_sqrt", "cosine", "linear", "plateau"] = Field(
        "cosine", description="how the learning rate moves after the warm-up"
    )
    warmup: int = Field(200, ge=0, description="updates over which the learning rate rises to its peak")
    plateau_factor: float = Field(0.5, gt=0, lt=1, description="plateau: multiply the learning rate by it")
    plateau_patience: int = Field(2, ge=0, description="plateau: after so many validations without a gain")
    clip_norm: float | None = Field(1.0, gt=0, description="the gradient's norm is cut to it")
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="probability mass shared over the vocabulary")
    validate_every: int | None = Field(None, ge=1, description="updates between validations (default: each epoch)")
    patience: int | None = Field(None, ge=1, description="stop after so many validations without a gain")
    average: Literal["none", "last", "best"] = Field("none", description="average the weights of kept checkpoints")
    keep: int = Field(1, ge=1, le=50, description="checkpoints kept for averaging")
    precision: Literal["float32", "bfloat16"] = Field("float32", description="mixed precision, where the device has it")
    log_every: int = Field(50, ge=1, description="updates between lines of the log")
    save_every: float = Field(5.0, gt=0, description="minutes between checkpoints to resume from")

    @model_validator(mode="after")
    def _ends(self) -> LoopSettings:
        if self.epochs is None and self.updates is None and self.budget is None:
            raise ValueError("training never ends: set at least one of epochs, updates and budget")
        if self.budget is not None:
            duration_seconds(self.budget)
        return self


class TrainingSettings(LoopSettings):
    """How a model learns from text."""

    batch_tokens: int = Field(4096, ge=1, description="target tokens a batch may hold, padding included")
    batch_sentences: int | None = Field(None, ge=1, description="and at most so many sentences")
    scheduled_sampling: float = Field(
        0.0,
        ge=0,
        le=1,
        description="share of inputs that are the model's own words, reached by the last update",
    )
    guided_attention: float = Field(
        0.0,
        ge=0,
        description="weight of a loss that pulls attention to word links found in the text beforehand; 0: free",
    )
    validation_bleu: bool = Field(True, description="also translate the validation set (greedily) and compute BLEU")
    validation_sentences: int = Field(1000, ge=1, description="sentences that are translated for it, at most")
    select_by: Literal["bleu", "loss"] = Field("bleu", description="what the best checkpoint is best at")

    @model_validator(mode="after")
    def _bleu_is_there(self) -> TrainingSettings:
        if not self.validation_bleu and self.select_by == "bleu":
            raise ValueError('select_by = "bleu" needs validation_bleu = true')
        return self


class SearchSettings(Settings):
    """How a translation is found."""

    beam: int = Field(5, ge=1, le=1000, description="hypotheses kept at each step; 1 is greedy")
    n_best: int = Field(1, ge=1, description="translations returned for each sentence, at most `beam`")
    length_penalty: float = Field(1.0, ge=0, description="alpha of lp = ((5 + |Y|) / 6)^alpha (GNMT)")
    coverage_penalty: float = Field(
        0.0,
        ge=0,
        description="beta of the coverage penalty (GNMT); a source position with less than 0.001 of attention in all "
        "counts as 0.001, since log 0 is no number",
    )
    max_length_ratio: float = Field(2.0, gt=0, description="a translation may have ratio * source + extra tokens")
    max_length_extra: int = Field(20, ge=1, description="see max_length_ratio")
    min_length_ratio: float = Field(0.0, ge=0, description="a translation must have ratio * source tokens")
    no_repeat_ngram: int = Field(0, ge=0, description="no n-gram of this length may come twice; 0: no blocking")
    replace_unknown: bool = Field(True, description="put the most attended source word in place of <unk>")
    sample: bool = Field(False, description="draw each word at random instead of searching")
    temperature: float = Field(1.0, gt=0, description="sampling: below 1 is bolder, above 1 wilder")
    top_k: int = Field(0, ge=0, description="sampling: among the k likeliest; 0: all")
    top_p: float = Field(1.0, gt=0, le=1, description="sampling: among the likeliest that together have p")
    seed: int = Field(1, ge=0, lt=2**63, description="sampling: what the draws follow from")
    batch_tokens: int = Field(4096, ge=1, description="source tokens translated together")
    shortlist: bool = Field(False, description="score only the pieces that are likely for the sentence (quicker)")
    int8: bool = Field(False, description="multiply in integers of eight bits (quicker, a little less exact)")
    engine: Literal["torch", "ctranslate2"] = Field(
        "torch", description="what searches; ctranslate2 is quicker, for Transformers (pip install 'regard[interop]')"
    )

    @model_validator(mode="after")
    def _n_best_fits(self) -> SearchSettings:
        if not self.sample and self.n_best > self.beam:
            raise ValueError(f"n_best = {self.n_best} is more than beam = {self.beam}: raise beam to it")
        return self


class AnyRecipe(Settings):
    """One reproducible experiment, on text or on images."""

    models: ClassVar[Mapping[str, type[Settings]]]  # the settings of each model.kind that it may have

    description: str = Field("", description="what it is, in one line")
    paper: str = Field("", description="where it comes from")
    published: str = Field("", description="the score that was published for it")
    model: Settings
    training: LoopSettings


class Recipe(AnyRecipe):
    """One reproducible experiment on text."""

    models = MODEL_SETTINGS

    model: ModelConfig
    text: TextSettings = TextSettings()
    training: TrainingSettings
    search: SearchSettings = SearchSettings()

    @model_validator(mode="after")
    def _tying_fits(self) -> Recipe:
        if self.model.tie_embeddings == "all" and not self.text.joint:
            raise ValueError('model.tie_embeddings = "all" needs text.joint = true: one vocabulary for both languages')
        return self

    @model_validator(mode="after")
    def _there_is_attention_to_guide(self) -> Recipe:
        if self.training.guided_attention and isinstance(self.model, Seq2SeqSettings):
            raise ValueError(
                f"training.guided_attention needs attention, which {self.model.kind} does not have: set it to 0"
            )
        return self


def duration_seconds(text: str) -> float:
    """Seconds of "90s", "10m" or "1.5h"."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh])", text.strip())
    if match is None or float(match[1]) <= 0:
        raise ValueError(f'{text!r} is not a duration: write it as "90s", "10m" or "1.5h"')
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]]
