"""Recipes: every setting with its default and documentation; model settings are in `models.py`.

A recipe is a TOML file with the tables [model], [text], [training] and [search]. These modules do not import torch, so
listing, validation and `--help` are fast.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from regard.config.base import Architecture, Settings, Share
from regard.config.models import MODEL_SETTINGS, ModelConfig, Seq2SeqSettings
from regard.config.scripts import named_scripts

LanguageCode = Annotated[str, Field(pattern="^[a-z]{2,3}$")]


LARGEST_SIZE = 1 << 24  # maximum of any model size
MOST_SIZES = 64  # maximum length of a list of sizes, such as the channels of convolutions


class TextSettings(Settings):
    """Tokenisation: from sentences to token ids."""

    tokenizer: Literal["bpe", "unigram", "wordpiece", "word", "character"] = Field(
        "bpe", description="subword algorithm (bpe, unigram, wordpiece), or whole words, or characters"
    )
    vocabulary_size: int = Field(8000, ge=8, description="maximum vocabulary size, special tokens included")
    joint: bool = Field(False, description="one vocabulary for both languages")
    byte_fallback: bool = Field(
        True, description="encode unknown characters as bytes instead of <unk> (bpe and unigram)"
    )
    lowercase: bool = Field(False, description="lower-case all text; translations are then lower-case too")
    min_frequency: int = Field(2, ge=1, description="minimum count of a subword or word in the training text")
    max_length: int = Field(128, ge=1, description="skip sentence pairs with more tokens on either side")
    max_length_ratio: float | None = Field(
        None, ge=1, description="skip pairs where one side has this many times the tokens of the other (off: none)"
    )
    drop_identical: bool = Field(False, description="skip pairs whose sides are identical")
    drop_duplicates: bool = Field(False, description="skip pairs that occurred before, white space aside")
    source_script: str | None = Field(
        None,
        description="skip sources with less than half of their letters in this script: Latin, Han+Hiragana+Katakana, …",
    )
    target_script: str | None = Field(None, description="the same for targets")
    source_tokenizer: Path | None = Field(
        None,
        description="pretrained source tokenizer: a SentencePiece model or tokenizer.json (joint: for both languages)",
    )
    target_tokenizer: Path | None = Field(None, description="pretrained target tokenizer")
    languages: tuple[LanguageCode, LanguageCode] | None = Field(
        None,
        description='codes of the source and target language, ["de", "en"] (default: from file names like train.de)',
    )

    @field_validator("source_script", "target_script")
    @classmethod
    def _known_scripts(cls, value: str | None) -> str | None:
        if value is not None:
            named_scripts(value)
        return value

    @model_validator(mode="after")
    def _one_tokenizer_if_joint(self) -> TextSettings:
        if self.joint and self.target_tokenizer not in (None, self.source_tokenizer):
            raise ValueError("joint = true means one tokenizer for both languages: give source_tokenizer alone")
        return self


class LoopSettings(Settings):
    """Settings of the training loop, for text and images."""

    seed: int = Field(1, ge=0, lt=2**63, description="random seed")
    epochs: float | None = Field(None, gt=0, description="maximum number of epochs")
    updates: int | None = Field(None, ge=1, description="maximum number of updates")
    budget: str | None = Field(
        None,
        description='maximum training time, such as "90s", "10m" or "1.5h"; converted to updates at the measured speed',
    )
    accumulate: int = Field(1, ge=1, description="gradient accumulation: batches per update")
    optimizer: Literal["adam", "adamw", "sgd", "adadelta"] = Field(
        "adam",
        description="optimizer (adadelta, as Bahdanau: with learning_rate = 1, schedule = constant, warmup = 0)",
    )
    learning_rate: float = Field(1e-3, gt=0, description="peak learning rate")
    betas: tuple[Share, Share] = Field((0.9, 0.98), description="Adam's beta1 and beta2")
    epsilon: float = Field(1e-9, gt=0, description="Adam's epsilon")
    rho: Share = Field(0.95, description="Adadelta's decay rate")
    adadelta_epsilon: float = Field(1e-6, gt=0, description="Adadelta's epsilon")
    weight_decay: float = Field(0.0, ge=0, description="weight decay (adamw: decoupled)")
    schedule: Literal["constant", "inverse_sqrt", "cosine", "linear", "plateau"] = Field(
        "cosine", description="learning-rate schedule after the warm-up"
    )
    warmup: int = Field(
        200,
        ge=0,
        description="warm-up: updates of linear rise to the peak learning rate (at most a quarter of a budget)",
    )
    plateau_factor: float = Field(0.5, gt=0, lt=1, description="plateau: factor that reduces the learning rate")
    plateau_patience: int = Field(2, ge=0, description="plateau: validations without improvement before a reduction")
    clip_norm: float | None = Field(1.0, gt=0, description="gradient clipping: maximum norm")
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="probability mass spread over the vocabulary")
    r_drop: float = Field(
        0.0,
        ge=0,
        description="R-Drop: weight of the divergence between the predictions under two dropout masks; doubles the "
        "work of an update; 0: none",
    )
    validate_every: int | None = Field(None, ge=1, description="updates between validations (default: each epoch)")
    patience: int | None = Field(None, ge=1, description="early stopping: validations without improvement")
    average: Literal["none", "last", "best"] = Field(
        "none", description="checkpoint averaging: the last or the best `keep`"
    )
    keep: int = Field(1, ge=1, le=50, description="checkpoints kept for averaging")
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto",
        description="bfloat16: mixed precision with float32 weights; auto: bfloat16 where it is measured to be faster "
        "on this processor, in trainings of five minutes and more",
    )
    log_every: int = Field(50, ge=1, description="updates between log lines")
    save_every: float | None = Field(
        None,
        gt=0,
        description="minutes between checkpoints (default: 1 % of the training time, every 15 s to 5 min)",
    )

    @field_validator("budget", mode="before")
    @classmethod
    def _budget_has_a_unit(cls, value: object) -> object:
        if value is not None:
            duration_seconds(str(value))
        return value

    @model_validator(mode="after")
    def _ends(self) -> LoopSettings:
        if self.epochs is None and self.updates is None and self.budget is None:
            raise ValueError("training never ends: set at least one of epochs, updates and budget")
        return self


class TrainingSettings(LoopSettings):
    """Training settings of a translation model."""

    batch_tokens: int = Field(4096, ge=1, description="maximum target tokens in a batch, padding included")
    batch_sentences: int | None = Field(None, ge=1, description="maximum sentence pairs in a batch")
    scheduled_sampling: float = Field(
        0.0,
        ge=0,
        le=1,
        description="probability of a predicted instead of a gold input token; rises from 0 to this value in training",
    )
    guided_attention: float = Field(
        0.0,
        ge=0,
        description="weight of an alignment loss that guides attention towards statistical word alignments; 0: none",
    )
    validation_bleu: bool = Field(True, description="compute BLEU of greedy translations at each validation")
    validation_sentences: int = Field(1000, ge=1, description="maximum validation sentences translated for BLEU")
    select_by: Literal["bleu", "loss"] = Field("bleu", description="metric that selects the best checkpoint")

    @model_validator(mode="after")
    def _bleu_is_there(self) -> TrainingSettings:
        if not self.validation_bleu and self.select_by == "bleu":
            raise ValueError('select_by = "bleu" needs validation_bleu = true')
        return self


class SearchSettings(Settings):
    """Decoding settings."""

    beam: int = Field(5, ge=1, le=1000, description="beam size; 1 is greedy")
    n_best: int = Field(1, ge=1, le=1000, description="hypotheses returned for each sentence, at most `beam`")
    length_penalty: float = Field(1.0, ge=0, le=10, description="alpha of lp = ((5 + |Y|) / 6)^alpha (GNMT)")
    coverage_penalty: float = Field(
        0.0,
        ge=0,
        le=100,
        description="beta of the coverage penalty (GNMT); coverage below 0.001 counts as 0.001 to avoid log 0",
    )
    max_length_ratio: float = Field(
        2.0, gt=0, le=100, description="maximum length: ratio * source length + max_length_extra tokens"
    )
    max_length_extra: int = Field(20, ge=1, le=100_000, description="tokens added to the maximum length")
    min_length_ratio: float = Field(0.0, ge=0, le=100, description="minimum length: ratio * source length")
    no_repeat_ngram: int = Field(0, ge=0, le=1000, description="block repeated n-grams of this length; 0: none")
    replace_unknown: bool = Field(True, description="replace <unk> by the most attended source word")
    sample: bool = Field(False, description="sample each token instead of beam search")
    temperature: float = Field(
        1.0, gt=0, le=1000, description="sampling: below 1 sharpens the distribution, above 1 flattens it"
    )
    top_k: int = Field(0, ge=0, le=1_000_000, description="sampling: only the k most probable tokens; 0: all")
    top_p: float = Field(1.0, gt=0, le=1, description="nucleus sampling: smallest set with total probability p")
    seed: int = Field(1, ge=0, lt=2**63, description="sampling: random seed")
    max_source: int = Field(
        1024, ge=2, description="maximum source tokens; longer lines are truncated with a warning (a single one raises)"
    )
    batch_tokens: int = Field(4096, ge=1, le=1_000_000, description="maximum source tokens in a batch")
    shortlist: bool = Field(False, description="score only the lexical shortlist of the sentence (faster)")
    int8: Literal["auto"] | bool = Field(
        "auto",
        description="int8 quantisation (faster, slightly less exact); auto: with a compiled engine, if training "
        "measured a loss of less than 0.1 BLEU on the validation sentences",
    )
    engine: Literal["auto", "torch", "ctranslate2", "onnxruntime"] = Field(
        "auto",
        description="decoding backend; auto: the fastest that supports the model and these settings "
        "(ctranslate2: Transformers, onnxruntime: every architecture, torch: everything)",
    )

    @model_validator(mode="after")
    def _n_best_fits(self) -> SearchSettings:
        if not self.sample and self.n_best > self.beam:
            raise ValueError(f"n_best = {self.n_best} is more than beam = {self.beam}: raise beam to it")
        return self


class AnyRecipe(Settings):
    """One reproducible experiment, on text or on images."""

    models: ClassVar[Mapping[str, type[Architecture]]]  # model.kind -> settings

    description: str = Field("", description="summary in one line")
    paper: str = Field("", description="the paper it follows")
    published: str = Field("", description="published score")
    model: Architecture
    training: LoopSettings

    @model_validator(mode="after")
    def _sizes_are_bounded(self) -> AnyRecipe:
        for name, value in self.model:
            sizes = value if isinstance(value, tuple) else (value,)
            if len(sizes) > MOST_SIZES or any(isinstance(size, int) and size > LARGEST_SIZE for size in sizes):
                limit = f"{LARGEST_SIZE:,}, in lists of {MOST_SIZES}"
                raise ValueError(f"model.{name} is larger than any that Regard builds ({limit})")
        return self

    @model_validator(mode="after")
    def _dropout_masks_differ(self) -> AnyRecipe:
        rates = [value for name, value in self.model if name.endswith("dropout")]
        if self.training.r_drop and not any(rates):
            raise ValueError("training.r_drop compares two dropout masks, and this model has no dropout: set one")
        return self


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
            raise ValueError(f"training.guided_attention needs attention; {self.model.kind} has none: set it to 0")
        return self


def duration_seconds(text: str) -> float:
    """Seconds of "90s", "10m" or "1.5h"."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if match is None or float(match[1]) <= 0:
        raise ValueError(f'{text!r} is not a duration: write it as "90s", "10m" or "1.5h"')
    number = float(match[1])
    if not match[2]:
        raise ValueError(f"{text} has no unit: write {number:g}m or {60 * number:g}s")
    return number * {"s": 1, "m": 60, "h": 3600}[match[2]]
