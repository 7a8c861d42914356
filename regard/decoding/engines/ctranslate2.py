"""CTranslate2 as decoding backend: the same translations of a Transformer, faster, above all in int8.

Its beam search matches `beam.py` except for the length penalty log P / |Y|^exponent. So it runs with the exponent
closest to GNMT's penalty and returns its whole beam, which is re-sorted here by GNMT's score. It returns no attention,
no candidates and no token probabilities. Its softmax excludes <pad> and <s>.

Threads work on different batches, never on one sentence. That is the fastest in int8. Two threads on a single
sentence in float32 would be faster, but `intra_threads` changes the threads of torch in the same process, and with them
its results.

The converted model is kept beside the model (`storage/compiled.py`); with it, nothing here imports torch.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from regard.config.models import TransformerSettings
from regard.config.settings import SearchSettings
from regard.config.vocabulary import EOS
from regard.data.text.tokenizer import Tokenizer
from regard.decoding.engines.batches import even_batches
from regard.decoding.engines.ctranslate2_file import MAX_POSITIONS, all_pieces, import_ctranslate2, is_transformer
from regard.decoding.engines.engine import Extras, OnceMade, Sentence, maximum_length
from regard.decoding.hypothesis import Hypothesis, StreamedToken
from regard.decoding.penalties import length_penalty
from regard.decoding.shortlist import Shortlist
from regard.decoding.text_model import TextModel
from regard.machine import processor
from regard.storage.reading import TOKENIZER_BYTES, check_regular

SHORT_STEPS = 1024
"""Hypotheses times decoding steps up to which waiting does not hear Ctrl-C: hearing it takes 0.1 ms longer."""
MAP = "vmap.txt"  # the shortlist in CTranslate2's format
ROWS = 96
"""Maximum hypotheses in a batch: among the fastest sizes, greedy or beam, with or without a shortlist."""

CANNOT = {
    "sample": "sample",
    "coverage_penalty": "apply a coverage penalty",
    "min_length_ratio": "apply a minimum length per sentence",
    "no_repeat_ngram": "block n-grams as Regard does",
}
"""Settings that CTranslate2 lacks or defines differently; supported only if 0."""


class CTranslate2Engine:
    """Decodes with a CTranslate2 copy of the model, one for each kind of weights."""

    def __init__(self, model: TextModel, made: OnceMade) -> None:
        self._model = model
        self._made = made

    def why_not(self, settings: SearchSettings) -> str | None:
        if not self._is_transformer():
            return "it supports a single Transformer only"
        if self._model.device != "cpu":
            return f"it runs on the CPU, not on {self._model.device}"
        wanted = next((name for name in CANNOT if getattr(settings, name)), None)
        return None if wanted is None else f"it cannot {CANNOT[wanted]} (search.{wanted})"

    def prepare(self, settings: SearchSettings) -> None:
        self._copy(settings)

    def is_open(self, settings: SearchSettings) -> bool:
        return self._key(settings) in self._made

    def takes(self, sentence: Sentence, extras: Extras, settings: SearchSettings) -> bool:
        longest = max(len(sentence.ids), maximum_length(sentence.ids, settings))
        return not extras and not sentence.prefix and longest <= MAX_POSITIONS

    def search(
        self, sentences: Sequence[Sentence], settings: SearchSettings, extras: Extras
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        return self._copy(settings).search([sentence.ids for sentence in sentences], settings)

    def streams(self, settings: SearchSettings) -> bool:
        return not settings.shortlist  # with a vocabulary map it returns indices into the map as token ids

    def stream(self, sentence: Sentence, settings: SearchSettings) -> Iterator[StreamedToken]:
        return self._copy(settings).stream(sentence.ids, settings)

    def _is_transformer(self) -> bool:
        if self._model.settings is not None:
            return self._model.settings.kind == "transformer"
        return self._model.model.transformer_weights() is not None

    def _copy(self, settings: SearchSettings) -> CTranslate2Model:
        return self._made.get(self._key(settings), lambda: self._open(settings))

    def _key(self, settings: SearchSettings) -> Hashable:
        return "ctranslate2", settings.int8 is True, settings.shortlist

    def _open(self, settings: SearchSettings) -> CTranslate2Model:
        """Open the converted model; convert it first, if there is none yet."""
        import_ctranslate2()
        processor.use("ctranslate2", 'search.engine = "ctranslate2"', 'use search.engine = "torch"')
        model, shortlist, int8 = self._model, self._model.shortlist_for(settings), settings.int8 is True
        name = f"ctranslate2-{'int8' if int8 else 'float32'}{'' if shortlist is None else '-shortlist'}"

        def write(folder: Path) -> None:
            from regard.decoding.engines.ctranslate2_spec import transformer_spec

            weights = model.model.transformer_weights()
            assert weights is not None  # checked by `why_not`
            spec = transformer_spec(weights, model.source_tokenizer, model.target_tokenizer)
            spec.optimize(quantization="int8" if int8 else None)  # equal weights are stored once
            spec.save(str(folder))
            if shortlist is not None:
                mapped = vocabulary_map(shortlist, model.source_tokenizer, model.target_tokenizer)
                (folder / MAP).write_text(mapped, "utf-8")

        def check(folder: Path) -> bool:
            own, sides = model.settings, (model.source_tokenizer, model.target_tokenizer)
            return (
                isinstance(own, TransformerSettings)
                and (shortlist is None or check_regular(folder / MAP) < TOKENIZER_BYTES)
                and is_transformer(folder, own, *sides, int8=int8)
            )

        with model.compiled.opened(name, write, check, shortlist=shortlist is not None) as folder:
            return CTranslate2Model(
                folder,
                model.source_tokenizer,
                model.target_tokenizer,
                threads=model.threads,
                int8=int8,
                shortlist=shortlist is not None,
            )


def _close(opened: list[Any], home: int) -> None:
    """Drop the model before the interpreter ends.

    A thread of CTranslate2 keeps the callback of its last stream. If it released it during the interpreter's shutdown,
    the process would abort. A forked process has none of these threads to wait for.

    Dropping waits for the batches that were started. After Ctrl-C in the middle a thread waits for them, which the
    interpreter waits for in turn, unless it has ended its threads already.
    """
    if os.getpid() != home:
        return
    busy = any(each.num_active_batches + each.num_queued_batches for each in opened)
    if busy and threading.main_thread().is_alive():
        threading.Thread(target=opened.clear).start()
    else:
        opened.clear()


class CTranslate2Model:
    """A Transformer in CTranslate2; thread-safe."""

    def __init__(
        self, folder: Path, source: Tokenizer, target: Tokenizer, *, threads: int, int8: bool, shortlist: bool
    ) -> None:
        """Open a converted model; its files are not needed afterwards."""
        opened = import_ctranslate2().Translator(
            str(folder),
            compute_type="int8" if int8 else "float32",
            inter_threads=threads,
            intra_threads=1,
            max_queued_batches=-1,  # else submitting would block, deaf to Ctrl-C
        )
        self._ahead = 2 * threads
        self._opened = [opened]
        weakref.finalize(self, _close, self._opened, os.getpid())
        self._uses_map = shortlist
        self._pieces = all_pieces(source)
        self._numbers = {piece: number for number, piece in enumerate(all_pieces(target))}

    def search(
        self, sentences: Sequence[Sequence[int]], settings: SearchSettings
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yield index and n-best list of each sentence of source ids, as sentences finish."""
        again = []
        wait = _wait_at_once if _is_short(sentences, settings) else _wait
        for places, results in self._started(even_batches(sentences, settings, ROWS), sentences, settings):
            longest = sentences[places[0]]
            for place, result in zip(places, results, strict=True):
                found, maximum = wait(result), maximum_length(sentences[place], settings)
                too_long = any(len(pieces) >= maximum for pieces in found.hypotheses)
                if too_long and maximum < maximum_length(longest, settings):
                    # it exceeded its own maximum length, since a batch has one for all: search again, alone
                    again.append([place])
                else:
                    yield place, self._hypotheses(found, sentences[place], longest, settings)
        for (place,), (result,) in self._started(again, sentences, settings):
            yield place, self._hypotheses(wait(result), sentences[place], sentences[place], settings)

    def _started(
        self, batches: Iterable[list[int]], sentences: Sequence[Sequence[int]], settings: SearchSettings
    ) -> Iterator[tuple[list[int], list[Any]]]:
        """Places and futures of each batch. Few are started ahead: what is started cannot be stopped."""
        started: deque[tuple[list[int], list[Any]]] = deque()
        for places in batches:
            started.append((places, self._start([sentences[place] for place in places], settings)))
            if len(started) > self._ahead:
                yield started.popleft()
        yield from started

    def _start(self, sentences: Sequence[Sequence[int]], settings: SearchSettings) -> list[Any]:
        """Submit the sentences sorted by length, longest first; returns futures."""
        results: list[Any] = self._opened[0].translate_batch(
            [[self._pieces[number] for number in sentence] for sentence in sentences],
            beam_size=settings.beam,
            num_hypotheses=settings.beam if settings.length_penalty else settings.n_best,
            length_penalty=exponent(len(sentences[0]), settings.length_penalty),
            min_decoding_length=0,
            max_decoding_length=maximum_length(sentences[0], settings),
            max_input_length=0,  # no silent truncation; `search.max_source` truncates before
            use_vmap=self._uses_map,
            return_scores=True,
            asynchronous=True,
        )
        return results

    def stream(self, sentence: Sequence[int], settings: SearchSettings) -> Iterator[StreamedToken]:
        """Stream the tokens of greedy search."""
        maximum = maximum_length(sentence, settings)
        steps = self._opened[0].generate_tokens(
            [self._pieces[number] for number in sentence],
            min_decoding_length=0,
            max_decoding_length=maximum,
            max_input_length=0,
            use_vmap=self._uses_map,
            return_log_prob=True,
        )
        total = 0.0
        with closing(steps):  # closing this generator stops the search
            for count, step in enumerate(steps, 1):
                total += step.log_prob
                yield StreamedToken(
                    id=self._numbers[step.token],
                    log_probability=step.log_prob,
                    score=total / length_penalty(float(count), settings.length_penalty),
                    ended=step.is_last,
                )

    def _hypotheses(
        self, result: Any, sentence: Sequence[int], longest: Sequence[int], settings: SearchSettings
    ) -> list[Hypothesis]:
        """Sort by GNMT's score; `longest` is the longest sentence of the batch, which set the exponent."""
        maximum = maximum_length(sentence, settings)
        found = [
            self._hypothesis(pieces, score, maximum, len(longest), settings.length_penalty)
            for pieces, score in zip(result.hypotheses, result.scores, strict=True)
        ]
        found.sort(key=lambda each: (not each.finished, -each.score))
        return found[: settings.n_best]

    def _hypothesis(self, pieces: Sequence[str], score: float, maximum: int, longest: int, alpha: float) -> Hypothesis:
        finished = len(pieces) < maximum
        ids = [*(self._numbers[piece] for piece in pieces), *([EOS] if finished else [])]
        total = score * len(ids) ** exponent(longest, alpha)
        return Hypothesis(
            ids=tuple(ids),
            log_probability=total,
            score=total / length_penalty(float(len(ids)), alpha),
            finished=finished,
            token_log_probabilities=(),
        )


def _is_short(sentences: Sequence[Sequence[int]], settings: SearchSettings) -> bool:
    """Whether the request takes a fraction of a second at most, like a single sentence of usual length."""
    return settings.beam * sum(maximum_length(sentence, settings) for sentence in sentences) <= SHORT_STEPS


def _wait_at_once(result: Any) -> Any:
    return result.result()


def _wait(result: Any) -> Any:
    """The result of a future; asleep in between, because CTranslate2's own waiting does not hear Ctrl-C."""
    begun = time.monotonic()
    while not result.done():
        time.sleep(min((time.monotonic() - begun) / 32, 0.05))
    return result.result()


def exponent(length: int, alpha: float) -> float:
    """The exponent of |Y| that matches the slope of GNMT's ((5 + |Y|) / 6)^alpha at this length."""
    return alpha * length / (5 + length)


def vocabulary_map(shortlist: Shortlist, source: Tokenizer, target: Tokenizer) -> str:
    """A shortlist in CTranslate2's format: source token, tab, target tokens; a line without source always applies."""
    rows = [("", shortlist.common.tolist())]
    rows += [(source.piece(number), sorted(set(row))) for number, row in enumerate(shortlist.likely.tolist())]
    return "".join(f"{piece}\t{' '.join(target.piece(number) for number in row)}\n" for piece, row in rows)
