"""Search by CTranslate2: the same translations of a Transformer, quicker, above all in eight bits.

Its beam search keeps and ends hypotheses by the rules of `beam.py`, but for the penalty of length, which it has as
log P / |Y|^exponent. So it is asked for as many as it keeps, by the exponent that comes closest, and GNMT's score puts
them in order here. It gives no attention, candidates or probabilities of
single tokens. Probabilities are those among the pieces that can be said, so without the little that <pad> and <s> have.

One sentence is never shared between threads, groups of sentences are: that was quickest in every case measured.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard import processor
from regard.config.models import TransformerSettings
from regard.config.settings import SearchSettings
from regard.data.text.tokenizer import EOS, Tokenizer
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.penalties import length_penalty
from regard.decoding.shortlist import Shortlist
from regard.errors import ConfigError
from regard.interop.ctranslate2 import MAX_POSITIONS, import_ctranslate2, transformer_spec
from regard.models.contract import Model
from regard.models.transformer import Transformer

ROWS = 96
"""Hypotheses that are searched together: among the quickest, greedy or beam, with a shortlist or without."""

CANNOT = {
    "sample": "draw at random",
    "coverage_penalty": "penalise coverage",
    "min_length_ratio": "keep a least length for each sentence",
    "no_repeat_ngram": "block n-grams as Regard does",
}
"""What settings ask for unless they are 0, and CTranslate2 does not do, or does otherwise."""


class CTranslate2Search:
    """A Transformer inside CTranslate2. Any number of threads may search with it at once."""

    def __init__(
        self,
        settings: TransformerSettings,
        tensors: Mapping[str, Tensor],
        source: Tokenizer,
        target: Tokenizer,
        *,
        threads: int,
        int8: bool,
        shortlist: Shortlist | None,
    ) -> None:
        ctranslate2 = import_ctranslate2()
        processor.use("ctranslate2", 'search.engine = "ctranslate2"', 'use search.engine = "torch"')
        spec = transformer_spec(settings, tensors, source, target)
        with tempfile.TemporaryDirectory(prefix="regard-") as folder:
            spec.save(folder)
            if shortlist is not None:
                Path(folder, "vmap.txt").write_text(vocabulary_map(shortlist, source, target), "utf-8")
            self._translator = ctranslate2.Translator(
                folder, compute_type="int8" if int8 else "float32", inter_threads=threads, intra_threads=1
            )
        self._uses_map = shortlist is not None
        self._pieces = [source.piece(number) for number in range(source.size)]
        self._numbers = {target.piece(number): number for number in range(target.size)}

    def __call__(
        self, sentences: Sequence[Sequence[int]], settings: SearchSettings
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Place and hypotheses of each sentence of source ids, the best first, as they get done."""
        order = sorted(range(len(sentences)), key=lambda place: len(sentences[place]), reverse=True)
        started = []
        while order:
            most = max(1, ROWS // settings.beam)
            count = min(most, max(1, settings.batch_tokens // len(sentences[order[0]])))
            places, order = order[:count], order[count:]
            started.append((places, self._start([sentences[place] for place in places], settings)))
        again = []
        for places, results in started:
            longest = sentences[places[0]]
            for place, result in zip(places, results, strict=True):
                found, greatest = result.result(), greatest_length(sentences[place], settings)
                too_long = any(len(pieces) >= greatest for pieces in found.hypotheses)
                if too_long and greatest < greatest_length(longest, settings):
                    # it went on as far as the longest sentence beside it may: once more, alone
                    again.append((place, self._start([sentences[place]], settings)[0]))
                else:
                    yield place, self._hypotheses(found, sentences[place], longest, settings)
        for place, result in again:
            yield place, self._hypotheses(result.result(), sentences[place], sentences[place], settings)

    def _start(self, sentences: Sequence[Sequence[int]], settings: SearchSettings) -> list[Any]:
        """Sentences of similar length, the longest first, as results to wait for."""
        results: list[Any] = self._translator.translate_batch(
            [[self._pieces[number] for number in sentence] for sentence in sentences],
            beam_size=settings.beam,
            num_hypotheses=settings.beam if settings.length_penalty else settings.n_best,
            length_penalty=exponent(len(sentences[0]), settings.length_penalty),
            min_decoding_length=0,
            max_decoding_length=greatest_length(sentences[0], settings),
            max_input_length=0,  # it would cut in silence; `search.max_source` has cut already
            use_vmap=self._uses_map,
            return_scores=True,
            asynchronous=True,
        )
        return results

    def _hypotheses(
        self, result: Any, sentence: Sequence[int], longest: Sequence[int], settings: SearchSettings
    ) -> list[Hypothesis]:
        """By GNMT's score; `longest` is the sentence that the search was told the length of."""
        greatest = greatest_length(sentence, settings)
        found = [
            self._hypothesis(pieces, score, greatest, len(longest), settings.length_penalty)
            for pieces, score in zip(result.hypotheses, result.scores, strict=True)
        ]
        found.sort(key=lambda each: (not each.finished, -each.score))
        return found[: settings.n_best]

    def _hypothesis(self, pieces: Sequence[str], score: float, greatest: int, longest: int, alpha: float) -> Hypothesis:
        finished = len(pieces) < greatest
        ids = [*(self._numbers[piece] for piece in pieces), *([EOS] if finished else [])]
        total = score * len(ids) ** exponent(longest, alpha)
        return Hypothesis(
            ids=tuple(ids),
            log_probability=total,
            score=total / length_penalty(float(len(ids)), alpha),
            finished=finished,
            token_log_probabilities=(),
        )


def exponent(length: int, alpha: float) -> float:
    """How steeply GNMT's ((5 + |Y|) / 6)^alpha rises at this length, as the exponent of |Y|."""
    return alpha * length / (5 + length)


def greatest_length(sentence: Sequence[int], settings: SearchSettings) -> int:
    """The tokens that its translation may have, as in `constraints.py`."""
    return int(settings.max_length_ratio * len(sentence)) + settings.max_length_extra


def fits(sentence: Sequence[int], settings: SearchSettings) -> bool:
    """Whether CTranslate2 has positions enough for a sentence and its translation."""
    return max(len(sentence), greatest_length(sentence, settings)) <= MAX_POSITIONS


def check_possible(model: Model, device: torch.device, settings: SearchSettings) -> None:
    """Raise with one line if CTranslate2 cannot search with this model by these settings."""
    why = None
    if not isinstance(model, Transformer):
        why = "it takes one Transformer alone"
    elif device.type != "cpu":
        why = f"it is for processors here, not for {device}"
    else:
        wanted = [name for name in CANNOT if getattr(settings, name)]
        if wanted:
            why = f"it cannot {CANNOT[wanted[0]]} (search.{wanted[0]})"
    if why is not None:
        raise ConfigError(f'search.engine = "ctranslate2": {why}: use search.engine = "torch".')


def vocabulary_map(shortlist: Shortlist, source: Tokenizer, target: Tokenizer) -> str:
    """A shortlist as CTranslate2 reads it: source piece, tab, target pieces; the line without a source is for all."""
    rows = [("", shortlist.common.tolist())]
    rows += [(source.piece(number), sorted(set(row))) for number, row in enumerate(shortlist.likely.tolist())]
    return "".join(f"{piece}\t{' '.join(target.piece(number) for number in row)}\n" for piece, row in rows)
