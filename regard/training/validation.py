"""Validation of translators: loss, perplexity, and BLEU of greedy translations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from regard.config.settings import SearchSettings, TrainingSettings
from regard.config.vocabulary import BOS, EOS
from regard.data.text.batches import BatchPlan, source_batch
from regard.data.text.corpus import EncodedCorpus
from regard.data.text.parallel import Pair
from regard.data.text.sources import Tokenizers, spread
from regard.decoding.search import search
from regard.errors import TrainingError
from regard.evaluation.scores import corpus_scores, perplexity
from regard.models.contract import Batch, Model
from regard.training.distributed import Group
from regard.training.loss import likelihood

SENTENCES_TOGETHER = 128
SAMPLES = 3  # translations to show


@dataclass(frozen=True)
class Validation:
    """The result; loss per token, natural logarithm, without smoothing."""

    loss: float
    tokens: int
    bleu: float | None = None
    signature: str | None = None
    select_by: Literal["bleu", "loss"] = "bleu"
    samples: tuple[Mapping[str, str], ...] = ()

    @property
    def perplexity(self) -> float:
        """exp(loss), infinite when it exceeds a float."""
        return perplexity(-self.loss * self.tokens, self.tokens)

    @property
    def score(self) -> float:
        """Score for selecting checkpoints; higher is better."""
        return self.bleu if self.select_by == "bleu" and self.bleu is not None else -self.loss

    def to_dict(self) -> dict[str, Any]:
        """Plain values for the log and metrics.json."""
        values: dict[str, Any] = {"loss": self.loss, "tokens": self.tokens}
        if math.isfinite(self.perplexity):
            values["perplexity"] = self.perplexity
        if self.bleu is not None:
            values |= {"bleu": self.bleu, "bleu_signature": self.signature}
        return values


@torch.inference_mode()
def mean_loss(model: Model, batches: Iterable[Batch], between: Callable[[], None], group: Group) -> tuple[float, int]:
    """Loss per token over the batches of all ranks, without smoothing, and the number of tokens."""
    total, tokens = 0.0, 0
    for batch in batches:
        between()
        loss = likelihood(model, model(batch), batch)
        total += loss.negative_log_likelihood
        tokens += loss.tokens
    total, all_tokens = group.sum(total, tokens)
    if not math.isfinite(total):
        raise TrainingError("the validation loss is not finite: lower training.learning_rate or training.clip_norm.")
    return total / all_tokens, int(all_tokens)


def validation_tokens(corpus: EncodedCorpus, bleu: bool) -> float:
    """Cost of a validation, in training tokens.

    A forward pass, for the loss, costs a third of an update; translation costs about as much as an update.
    """
    return int(corpus.target_lengths.sum()) * (1 / 3 + bleu)


class Validator:
    """A validation set, prepared for repeated use."""

    def __init__(
        self,
        corpus: EncodedCorpus,
        pairs: list[Pair],
        tokenizers: Tokenizers,
        settings: TrainingSettings,
        device: torch.device,
        group: Group,
    ) -> None:
        plan = BatchPlan(corpus, batch_tokens=settings.batch_tokens, seed=0, shuffle=False)
        self.batches = plan.epoch(0)
        self.plan = plan
        self.score_bleu = settings.validation_bleu
        self.pairs = spread(pairs, settings.validation_sentences if self.score_bleu else SAMPLES)
        self.tokenizers = tokenizers
        self.select_by = settings.select_by
        self.device = device
        self.group = group
        self.cost_tokens = validation_tokens(corpus, self.score_bleu)

    def use_part(self, share: float) -> None:
        """Subsample batches and translated sentences to this share."""
        self.batches = spread(list(self.batches), max(1, round(share * len(self.batches))))
        self.pairs = spread(self.pairs, max(1, round(share * len(self.pairs))))
        self.cost_tokens *= share

    def __call__(self, model: Model, between: Callable[[], None] = lambda: None) -> Validation:
        """Validate; `between` is called between batches and may raise to abort."""
        training = model.training
        model.eval()
        try:
            batches = (self.plan.batch(indices).to(self.device) for indices in self.batches[self.group.part])
            loss, tokens = mean_loss(model, batches, between, self.group)
            hypotheses = self.translate(model, between)
        finally:
            model.train(training)
        samples = tuple(
            {"source": pair.source, "reference": pair.target, "translation": text}
            for pair, text in spread(list(zip(self.pairs, hypotheses, strict=True)), SAMPLES)
        )
        if not self.score_bleu:
            return Validation(loss, tokens, select_by=self.select_by, samples=samples)
        references = [pair.target for pair in self.pairs]
        bleu = corpus_scores(hypotheses, references, metrics=("bleu",), tokenize="auto")["bleu"]
        # Rounded, so that two perfect scores are equal.
        return Validation(loss, tokens, round(bleu.value, 6), bleu.signature, self.select_by, samples)

    def translate(self, model: Model, between: Callable[[], None]) -> list[str]:
        """Greedy translations of the validation sources, in their order; each rank translates a share."""
        settings = SearchSettings(beam=1, replace_unknown=False)
        sources = self.tokenizers.source.encode_many([pair.source for pair in self.pairs])
        order = sorted(range(len(sources)), key=lambda index: len(sources[index]))
        mine, texts = order[self.group.part], []
        for start in range(0, len(mine), SENTENCES_TOGETHER):
            between()
            source, mask = source_batch([sources[index] for index in mine[start : start + SENTENCES_TOGETHER]])
            found = search(model, source.to(self.device), mask.to(self.device), settings, bos=BOS, eos=EOS)
            texts += [self.tokenizers.target.decode(hypotheses[0].ids) for hypotheses in found]
        return in_order(order, self.group.gather(texts))


def in_order(order: Sequence[int], shares: list[list[str]]) -> list[str]:
    """The texts of all ranks, each of which made every n-th of `order`, at their indices 0, 1, 2, …"""
    texts = [""] * len(order)
    for rank, share in enumerate(shares):
        for index, text in zip(order[rank :: len(shares)], share, strict=True):
            texts[index] = text
    return texts
