"""Forced decoding of the references of a test set: log-probabilities and word links from attention."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.config.vocabulary import EOS
from regard.data.text.batches import collate, plan_batches
from regard.data.text.tokenizer import Token, Tokenizer
from regard.decoding.forced import force
from regard.errors import NoAttention
from regard.evaluation.alignment import Readings, alignment_readings
from regard.models.contract import Model

TOKENS_TOGETHER = 4096  # padded tokens of the longer side in a batch

NOTHING = Readings(frozenset(), frozenset())


@dataclass(frozen=True, slots=True)
class Forced:
    """The result of forced decoding of one reference; tokens include EOS."""

    log_probability: float
    tokens: int
    readings: Readings | None  # None unless requested


@dataclass(frozen=True, slots=True)
class _Pair:
    number: int
    source: tuple[Token, ...]
    target: tuple[Token, ...]
    source_words: int
    target_words: int


def force_references(
    model: Model,
    tokenizers: tuple[Tokenizer, Tokenizer],
    sources: Sequence[str],
    references: Sequence[str],
    *,
    readings: bool = False,
    method: str = "argmax",
    on_progress: Callable[[int], None] = lambda done: None,
) -> list[Forced]:
    """Force-decode each reference; a pair with a blank side has no tokens and no links.

    `readings` adds the word links of both readings of the attention; the model must have attention.
    """
    results = [Forced(0.0, 0, NOTHING if readings else None)] * len(sources)
    done = sum(not _both(*lines) for lines in zip(sources, references, strict=True))
    for pairs in _batches(tokenizers, sources, references):
        batch = collate([_ids(pair.source) for pair in pairs], [_ids(pair.target) for pair in pairs])
        for pair, found in zip(pairs, force(model, batch.to(_device(model)), attention=readings), strict=True):
            links = None
            if readings:
                assert found.alignment is not None  # callers check `why_no_alignment` first
                links = _readings(found.alignment, pair, method)
            results[pair.number] = Forced(found.log_probability, len(found.ids), links)
        done += len(pairs)
        on_progress(done)
    return results


def why_no_alignment(model: Model) -> str | None:
    """The reason why a model has no alignment, or None if it has one."""
    batch = collate([[EOS]], [[EOS]]).to(_device(model))
    with torch.inference_mode():
        try:
            model.alignment(model(batch, attention=True).attention)
        except NoAttention as error:
            return str(error)
    return None


def _batches(
    tokenizers: tuple[Tokenizer, Tokenizer], sources: Sequence[str], references: Sequence[str]
) -> Iterator[list[_Pair]]:
    """Batches of pairs of similar length, shortest first."""
    source_tokenizer, target_tokenizer = tokenizers
    lines = zip(sources, references, strict=True)
    pairs = [
        _Pair(
            number,
            source_tokenizer.tokens(source),
            target_tokenizer.tokens(target),
            len(source.split()),
            len(target.split()),
        )
        for number, (source, target) in enumerate(lines)
        if _both(source, target)
    ]
    if pairs:
        source_lengths = np.array([len(pair.source) for pair in pairs], np.int32)
        target_lengths = np.array([len(pair.target) for pair in pairs], np.int32)
        for chosen in plan_batches(source_lengths, target_lengths, TOKENS_TOGETHER):
            yield [pairs[index] for index in chosen]


def _both(source: str, target: str) -> bool:
    return bool(source.strip() and target.strip())


def _ids(tokens: Sequence[Token]) -> list[int]:
    return [token.id for token in tokens]


def _device(model: Model) -> torch.device:
    return next((tensor.device for tensor in model.parameters()), torch.device("cpu"))


def _readings(alignment: Tensor, pair: _Pair, method: str) -> Readings:
    return alignment_readings(
        alignment.double().cpu().numpy(),  # (T, S)
        [token.word for token in pair.source],
        [token.word for token in pair.target],
        source_length=pair.source_words,
        target_length=pair.target_words,
        method=method,
    )
