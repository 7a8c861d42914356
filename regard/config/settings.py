"""Recipes: the only home of every setting, its default and its documentation; models stand in `models.py`.

A recipe is a TOML file with the tables [model], [text], [training] and [search]. These files need no torch, so that
listing, validating and helping are instant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from regard.config.base import Settings, Share
from regard.config.models import MODEL_SETTINGS, ModelConfig, Seq2SeqSettings


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
    warmup: int = Field(
        200, ge=0, description="updates over which the learning rate rises to its peak (at most a quarter of a budget)"
    )
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
    save_every: float | None = Field(
        None,
        gt=0,
        description="minutes between checkpoints (default: 1 % of the time goes into them, every 15 s to 5 min)",
    )

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
    length_penalty: float = Field(1.0, ge=0, le=10, description="alpha of lp = ((5 + |Y|) / 6)^alpha (GNMT)")
    coverage_penalty: float = Field(
        0.0,
        ge=0,
        le=100,
        description="beta of the coverage penalty (GNMT); a source position with less than 0.001 of attention in all "
        "counts as 0.001, since log 0 is no number",
    )
    max_length_ratio: float = Field(
        2.0, gt=0, le=100, description="a translation may have ratio * source + extra tokens"
    )
    max_length_extra: int = Field(20, ge=1, le=100_000, description="see max_length_ratio")
    min_length_ratio: float = Field(0.0, ge=0, le=100, description="a translation must have ratio * source tokens")
    no_repeat_ngram: int = Field(0, ge=0, description="no n-gram of this length may come twice; 0: no blocking")
    replace_unknown: bool = Field(True, description="put the most attended source word in place of <unk>")
    sample: bool = Field(False, description="draw each word at random instead of searching")
    temperature: float = Field(1.0, gt=0, description="sampling: below 1 is bolder, above 1 wilder")
    top_k: int = Field(0, ge=0, description="sampling: among the k likeliest; 0: all")
    top_p: float = Field(1.0, gt=0, le=1, description="sampling: among the likeliest that together have p")
    seed: int = Field(1, ge=0, lt=2**63, description="sampling: what the draws follow from")
    max_source: int = Field(
        1024, ge=2, description="source pieces of a line; a longer one is cut with a warning (alone: refused)"
    )
    batch_tokens: int = Field(4096, ge=1, description="source tokens translated together")
    shortlist: bool = Field(False, description="score only the pieces that are likely for the sentence (quicker)")
    int8: bool = Field(False, description="multiply in integers of eight bits (quicker, a little less exact)")
    engine: Literal["torch", "ctranslate2"] = Field(
        "torch", description="decoding backend; ctranslate2 is faster, for Transformers (pip install 'regard[interop]')"
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
