"""Given translations, scored by forced decoding."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from regard.config.settings import SearchSettings
from regard.data.text.batches import collate
from regard.data.text.parallel import Pair
from regard.decoding.engines.engine import Extras
from regard.decoding.forced import force
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.text_model import TextModel
from regard.errors import ConfigError, DataError
from regard.evaluation.scores import perplexity
from regard.inference.lines import WINDOW
from regard.inference.long_lines import cut_line, source_ids


@dataclass(frozen=True)
class PairScore:
    """The score of a given translation; tokens count the closing </s>."""

    log_probability: float
    tokens: int

    @property
    def perplexity(self) -> float:
        """exp(-log_probability / tokens)."""
        return perplexity(self.log_probability, self.tokens)


def matched_pairs(source: str | list[str] | tuple[str, ...], target: str | list[str] | tuple[str, ...]) -> list[Pair]:
    """The pair of two sentences, or the pairs of two lists of the same length."""
    if isinstance(source, str) != isinstance(target, str):
        raise ConfigError("score: give two sentences, or two lists of sentences.")
    if isinstance(source, str) and isinstance(target, str):
        return [Pair(source, target)]
    if len(source) != len(target):
        raise DataError(f"score: {len(source)} sources but {len(target)} targets: give the translation of each source.")
    return [Pair(*sides) for sides in zip(source, target, strict=True)]


def force_pair(model: TextModel, pair: Pair, settings: SearchSettings, extras: Extras) -> Hypothesis:
    """The target of a pair as a hypothesis."""
    batch = collate([source_ids(model, pair.source, settings)], [model.target_tokenizer.encode(pair.target)])
    (forced,) = force(
        model.model,
        batch.to(model.device),
        attention=extras.attention,
        candidates=extras.candidates,
        intervention=extras.intervention,
        alpha=settings.length_penalty,
        beta=settings.coverage_penalty,
    )
    return forced


def score_pairs(model: TextModel, pairs: Iterable[Pair], batch_tokens: int, max_length: int) -> Iterator[PairScore]:
    """The score of each pair, in order; pairs of similar length are computed together, long sides are cut."""
    stream = enumerate(pairs, 1)
    while numbered := list(itertools.islice(stream, WINDOW)):
        chunk = [pair for _, pair in numbered]
        sources = model.source_tokenizer.encode_many([pair.source for pair in chunk])
        targets = model.target_tokenizer.encode_many([pair.target for pair in chunk])
        for side, lines in (("source", sources), ("target", targets)):
            for place, (number, _) in enumerate(numbered):
                lines[place] = cut_line(lines[place], max_length, f"pair {number}, {side}")
        longer = [max(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
        order = sorted(range(len(chunk)), key=lambda place: longer[place], reverse=True)
        scores: dict[int, PairScore] = {}
        while order:
            count = max(1, batch_tokens // longer[order[0]])
            places, order = order[:count], order[count:]
            batch = collate([sources[place] for place in places], [targets[place] for place in places])
            for place, forced in zip(places, force(model.model, batch.to(model.device)), strict=True):
                scores[place] = PairScore(forced.log_probability, len(forced.ids))
        yield from (scores[place] for place in range(len(chunk)))
