"""The evaluation of a model on a test set, in one report.

    report = evaluate(regard.load("models/de-en"), sources, references, gold=read_links("test.talp"))
    report.scores["bleu"].value, report.alignment.this_step.aer, report.to_dict()

Word links are extracted from the attention of forced decoding, since gold links belong to the reference and to no
other translation.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from regard.data.text.hashes import Fingerprint
from regard.data.text.overlap import OverlapReport, overlap_with_fingerprint
from regard.errors import ConfigError, DataError, did_you_mean
from regard.evaluation.alignment import LINK_METHODS, AlignmentScore, GoldLinks, aer, check_bounds, symmetrise
from regard.evaluation.by_length import DEFAULT_EDGES, LengthRow, bleu_by_length
from regard.evaluation.scores import DEFAULT_METRICS, Scores, corpus_scores, make_metric, perplexity, reference_streams

if TYPE_CHECKING:
    from regard.config.settings import Recipe, SearchSettings
    from regard.data.text.tokenizer import Tokenizer
    from regard.evaluation.forced_references import Forced
    from regard.models.contract import Model

Progress = Callable[[str, int, int], None]
"""Called with the stage, the number of completed sentences and their total."""


def no_progress(stage: str, done: int, total: int) -> None:
    """Show nothing."""


class Translated(Protocol):
    """A translation; its text is scored."""

    @property
    def text(self) -> str: ...


class Evaluated(Protocol):
    """A translation model, such as `regard.Translator`."""

    recipe: Recipe

    @property
    def read_only_model(self) -> Model: ...

    @property
    def source_tokenizer(self) -> Tokenizer: ...

    @property
    def target_tokenizer(self) -> Tokenizer: ...

    def translate_lines(self, lines: Sequence[str], *, search: SearchSettings) -> Iterator[Translated]:
        """One translation for each line, in order."""


@dataclass(frozen=True, slots=True)
class Likelihood:
    """Log-probability of the reference by forced decoding; tokens are pieces, EOS included."""

    log_probability: float
    tokens: int

    @property
    def perplexity(self) -> float:
        """Perplexity per token; comparable only between models with the same vocabulary."""
        return perplexity(self.log_probability, self.tokens)

    def to_dict(self) -> dict[str, float | int | None]:
        """Plain values; an infinite perplexity is null."""
        value = self.perplexity
        return {
            "perplexity": value if math.isfinite(value) else None,
            "log_probability": self.log_probability if math.isfinite(self.log_probability) else None,
            "tokens": self.tokens,
        }


@dataclass(frozen=True, slots=True)
class AlignmentReport:
    """Both readings of the same attention against the gold links; an off-by-one error shows."""

    this_step: AlignmentScore  # weights of the step that predicts the word
    shifted: AlignmentScore  # weights of the next step, which reads the word
    method: str
    both_directions: AlignmentScore | None = None  # this_step merged with the links of a model of the reverse direction

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "method": self.method,
            "this_step": self.this_step.to_dict(),
            "shifted": self.shifted.to_dict(),
            "both_directions": None if self.both_directions is None else self.both_directions.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class Speed:
    """Translation time, without loading."""

    sentences: int
    seconds: float

    @property
    def sentences_per_second(self) -> float:
        """Sentences per second of wall-clock time."""
        return self.sentences / max(self.seconds, 1e-9)

    def to_dict(self) -> dict[str, float]:
        """Plain values."""
        return {"seconds": self.seconds, "sentences_per_second": self.sentences_per_second}


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """The results of `evaluate`; a part that was not requested or is not available is None."""

    hypotheses: tuple[str, ...]
    scores: Scores
    by_length: tuple[LengthRow, ...]
    likelihood: Likelihood | None
    alignment: AlignmentReport | None
    no_alignment: str | None  # why the model has no alignment, if gold links were given
    overlap: OverlapReport | None
    search: SearchSettings | None
    speed: Speed | None

    def __str__(self) -> str:
        from regard.evaluation.text_report import render

        return render(self)

    def __repr__(self) -> str:
        facts = [f"{score.name} {score.value:.1f}" for score in self.scores.by_metric.values()]
        facts += [] if self.likelihood is None else [f"perplexity {self.likelihood.perplexity:.2f}"]
        facts += [] if self.alignment is None else [f"AER {self.alignment.this_step.aer:.3f}"]
        return f"<Report {self.scores.sentences:,} sentences: {', '.join(facts)}>"

    def to_dict(self) -> dict[str, Any]:
        """All but the translations themselves, ready for JSON."""
        return {
            **self.scores.to_dict(),
            "by_length": [row.to_dict() for row in self.by_length],
            "likelihood": None if self.likelihood is None else self.likelihood.to_dict(),
            "alignment": None if self.alignment is None else self.alignment.to_dict(),
            "no_alignment": self.no_alignment,
            "overlap": None if self.overlap is None else self.overlap.to_dict(),
            "search": None if self.search is None else self.search.model_dump(mode="json"),
            "speed": None if self.speed is None else self.speed.to_dict(),
        }


def evaluate(
    translator: Evaluated | None,
    sources: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    *,
    gold: Sequence[GoldLinks] | None = None,
    hypotheses: Sequence[str] | None = None,
    search: SearchSettings | None = None,
    metrics: Sequence[str] = DEFAULT_METRICS,
    tokenize: str | None = None,
    lowercase: bool = False,
    edges: Sequence[int] = DEFAULT_EDGES,
    method: str = "argmax",
    backward: Evaluated | None = None,
    likelihood: bool = True,
    training: Fingerprint | None = None,
    on_progress: Progress = no_progress,
) -> Report:
    """Translate the sources and compare them with one reference text, or several of the same length.

    `hypotheses` are given translations to score instead; they need no translator. `gold` links, forced decoding and
    likelihood use the first reference. `backward` is a model of the reverse direction; its links are merged with the
    translator's (grow-diag-final). `training` is the fingerprint of the training text.
    """
    texts = sources if hypotheses is None else hypotheses
    streams = reference_streams(texts, references)
    _check(translator, sources, streams[0], hypotheses, gold, method)
    if backward is not None:
        _check_backward(backward, gold)
    for metric in metrics:  # report wrong settings before translating
        make_metric(metric, tokenize=None if tokenize == "auto" else tokenize, lowercase=lowercase)
    settings, speed = None, None
    if hypotheses is None and translator is not None:
        settings = (translator.recipe.search if search is None else search).model_copy(update={"n_best": 1})
        texts, speed = _translate(translator, sources, settings, on_progress)
    forced, no_alignment = _force(translator, sources, streams[0], gold, method, likelihood, on_progress)
    forced_back, _ = _force(backward, streams[0], sources, gold, method, False, on_progress)
    return Report(
        hypotheses=tuple(texts),
        scores=corpus_scores(texts, streams, metrics=metrics, tokenize=tokenize, lowercase=lowercase),
        by_length=tuple(bleu_by_length(sources, texts, streams, edges=edges, tokenize=tokenize, lowercase=lowercase)),
        likelihood=_likelihood(forced) if likelihood else None,
        alignment=_alignment(forced, forced_back, gold, method),
        no_alignment=no_alignment,
        overlap=None if training is None else overlap_with_fingerprint(sources, training),
        search=settings,
        speed=speed,
    )


def _check(
    translator: Evaluated | None,
    sources: Sequence[str],
    reference: Sequence[str],
    hypotheses: Sequence[str] | None,
    gold: Sequence[GoldLinks] | None,
    method: str,
) -> None:
    if translator is None and hypotheses is None:
        raise ConfigError("there is neither a model nor translations to score: give one of them.")
    if translator is None and gold is not None:
        raise ConfigError("gold alignments are compared with the attention of a model: give a model too.")
    if method not in LINK_METHODS:
        raise ConfigError(f"link method {method!r} is unknown: {did_you_mean(method, LINK_METHODS)}")
    if len(sources) != len(reference):
        raise DataError(
            f"the source has {len(sources)} lines, but the reference has {len(reference)}: "
            "both need the same number of lines, in the same order."
        )
    if gold is not None:
        check_bounds(gold, sources, reference, where="gold alignments")


def _check_backward(backward: Evaluated, gold: Sequence[GoldLinks] | None) -> None:
    from regard.evaluation.forced_references import why_no_alignment

    if gold is None:
        raise ConfigError("a model of the reverse direction needs gold alignments: give them.")
    why = why_no_alignment(backward.read_only_model)
    if why is not None:
        raise ConfigError(f"the model of the reverse direction: {why}")


def _translate(
    translator: Evaluated, sources: Sequence[str], settings: SearchSettings, on_progress: Progress
) -> tuple[list[str], Speed]:
    texts: list[str] = []
    on_progress("translating", 0, len(sources))  # the first translations arrive only after a whole window of lines
    start = time.perf_counter()
    for translation in translator.translate_lines(sources, search=settings):
        texts.append(translation.text)
        on_progress("translating", len(texts), len(sources))
    return texts, Speed(len(sources), time.perf_counter() - start)


def _force(
    translator: Evaluated | None,
    sources: Sequence[str],
    reference: Sequence[str],
    gold: Sequence[GoldLinks] | None,
    method: str,
    likelihood: bool,
    on_progress: Progress,
) -> tuple[list[Forced], str | None]:
    """Force-decode the references; the second value is the reason if the model has no alignment."""
    if translator is None or (gold is None and not likelihood):
        return [], None
    from regard.evaluation.forced_references import force_references, why_no_alignment

    no_alignment = None if gold is None else why_no_alignment(translator.read_only_model)
    on_progress("forced decoding", 0, len(sources))
    forced = force_references(
        translator.read_only_model,
        (translator.source_tokenizer, translator.target_tokenizer),
        sources,
        reference,
        readings=gold is not None and no_alignment is None,
        method=method,
        on_progress=lambda done: on_progress("forced decoding", done, len(sources)),
    )
    return forced, no_alignment


def _likelihood(forced: Sequence[Forced]) -> Likelihood | None:
    tokens = sum(pair.tokens for pair in forced)
    # no tokens without a model or with only blank lines
    return Likelihood(math.fsum(pair.log_probability for pair in forced), tokens) if tokens else None


def _alignment(
    forced: Sequence[Forced], forced_back: Sequence[Forced], gold: Sequence[GoldLinks] | None, method: str
) -> AlignmentReport | None:
    readings = [pair.readings for pair in forced if pair.readings is not None]
    if gold is None or not readings:
        return None
    sure, possible = [pair.sure for pair in gold], [pair.possible for pair in gold]
    both = None
    if forced_back:
        back = [pair.readings.this_step for pair in forced_back if pair.readings is not None]
        merged = [
            symmetrise(one.this_step, frozenset((i, j) for j, i in other))
            for one, other in zip(readings, back, strict=True)
        ]
        both = aer(merged, sure, possible)
    return AlignmentReport(
        this_step=aer([reading.this_step for reading in readings], sure, possible),
        shifted=aer([reading.shifted for reading in readings], sure, possible),
        method=method,
        both_directions=both,
    )
