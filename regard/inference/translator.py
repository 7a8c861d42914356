"""Translator: a model with its tokenizers, from text to text."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Literal, overload

import numpy as np
import torch

from regard.config.models import TransformerSettings
from regard.config.settings import Recipe, SearchSettings
from regard.data.text.batches import collate, source_batch
from regard.data.text.corpus import Pair
from regard.data.text.pieces import without_surrogates
from regard.data.text.tokenizer import BOS, EOS, PAD, UNK, Token, Tokenizer
from regard.decoding import search as run_search
from regard.decoding.engines.ctranslate2 import CTranslate2Search, check_possible, fits
from regard.decoding.forced import force
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import Search, changed_settings, chosen_settings, overridden_settings
from regard.decoding.shortlist import Shortlist, read_shortlist
from regard.decoding.tree import BeamTree
from regard.errors import ConfigError
from regard.evaluation.scores import perplexity
from regard.inference.long_lines import Bound, cut_line, cut_tokens, refuse_line
from regard.inference.pickling import reduced
from regard.inference.translation import LazyTokens, Translation, one_line
from regard.look.record import Look
from regard.look.trace import look_at
from regard.models.contract import MakeModel, Model
from regard.models.ensemble import Ensemble
from regard.nn.attention.intervention import Intervention
from regard.nn.linear import Int8Weights
from regard.process import abandon, leave_parents_threads, usable_device
from regard.storage.folder import read_folder

WINDOW = 1024
"""Lines that are read ahead and sorted by length, so that sentences translated together are alike."""


@dataclass(frozen=True)
class PairScore:
    """What a model thinks of a given translation; tokens count the closing </s>."""

    log_probability: float
    tokens: int

    @property
    def perplexity(self) -> float:
        """exp(-log_probability / tokens)."""
        return perplexity(self.log_probability, self.tokens)


@dataclass(frozen=True)
class _Job:
    """A line that needs the model."""

    number: int  # of the line in the stream
    text: str
    ids: list[int]
    prefix: list[int]


class Translator:
    """A trained model, ready to translate.

    Threads: one Translator may be used from any number of threads at once. Translating changes nothing in it or in
    its model, so calls need no lock; each call should be left to finish its own iterator in one thread. Only moving
    the model to another device or changing its weights needs the others to stand still.
    """

    def __init__(
        self,
        model: Model,
        recipe: Recipe,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        *,
        metrics: Mapping[str, Any] | None = None,
        device: str | torch.device = "cpu",
        name: str = "",
        shortlist: Shortlist | None = None,
        folder: Path | None = None,
    ) -> None:
        self.device = usable_device(device)
        self.model = model.to(self.device).eval()
        self.recipe = recipe
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self.metrics: dict[str, Any] = dict(metrics or {})
        self.name = name or recipe.model.kind
        self.shortlist = None if shortlist is None else shortlist.to(self.device)
        self.folder = folder  # with which it can be pickled
        self.parts: tuple[Translator, ...] = ()  # of an ensemble
        self._int8: Int8Weights | None = None  # when they are first asked for
        self._ctranslate2: dict[tuple[bool, bool], CTranslate2Search] = {}  # likewise, by int8 and shortlist
        self._making = Lock()
        self._threads = torch.get_num_threads()
        self._process = os.getpid()

    @classmethod
    def load(
        cls, folder: str | Path, device: str | torch.device = "cpu", *, model: MakeModel | None = None
    ) -> Translator:
        """The model of a folder.

        `model` is needed if the folder holds the weights of a class of your own: the model, or a function that
        builds it for the sizes of the source and target vocabularies.
        """
        device = usable_device(device)
        read = read_folder(folder)
        if model is not None and not isinstance(model, Model):
            model = model(read.source_tokenizer.size, read.target_tokenizer.size)
        return cls(
            read.model(model),
            read.recipe,
            read.source_tokenizer,
            read.target_tokenizer,
            metrics=read.metrics,
            device=device,
            name=read.path.resolve().name,
            shortlist=read_shortlist(read.path, read.source_tokenizer, read.target_tokenizer),
            folder=read.path if model is None else None,
        )

    @classmethod
    def ensemble(cls, translators: Sequence[Translator]) -> Translator:
        """Several models that share their vocabularies as one, with the first one's search settings."""
        first = translators[0]
        for number, other in enumerate(translators[1:], 2):
            for side in ("source_tokenizer", "target_tokenizer"):
                if getattr(other, side) != getattr(first, side):
                    raise ConfigError(
                        f"ensemble: the {side.replace('_', ' ')} of model {number} differs from that of the first: "
                        "train the models with the same vocabularies (`regard train --from`)."
                    )
        model = Ensemble([translator.model for translator in translators])
        tokenizers = first.source_tokenizer, first.target_tokenizer
        name = " + ".join(translator.name for translator in translators)
        joined = cls(model, first.recipe, *tokenizers, metrics=first.metrics, device=first.device, name=name)
        joined.parts = tuple(translators)
        return joined

    def __reduce__(self) -> tuple[Callable[..., Translator], tuple[Any, ...]]:
        """Pickled, it is the folder it was loaded from and its search settings; changed weights are not kept."""
        return reduced(self)

    def _after_fork(self) -> None:
        """In a fork, leave what belongs to the parent's threads: its engines, and a lock that one may hold."""
        if self._process == os.getpid():
            return
        self._process, self._threads = os.getpid(), 1
        self._making = Lock()
        abandon(*self._ctranslate2.values())
        self._ctranslate2 = {}
        leave_parents_threads()

    # --- translating ----------------------------------------------------------------------------------------------

    @overload
    def translate(
        self,
        text: str,
        *,
        search: Search = ...,
        beam: int | None = ...,
        n_best: int | None = ...,
        attention: bool | None = ...,
        candidates: int = ...,
        prefix: str | None = ...,
        intervention: Intervention | None = ...,
    ) -> Translation: ...

    @overload
    def translate(
        self,
        text: list[str] | tuple[str, ...],
        *,
        search: Search = ...,
        beam: int | None = ...,
        n_best: int | None = ...,
        attention: bool | None = ...,
        candidates: int = ...,
        prefix: Sequence[str] | None = ...,
        intervention: Intervention | None = ...,
    ) -> list[Translation]: ...

    def translate(
        self,
        text: str | list[str] | tuple[str, ...],
        *,
        search: Search = None,
        beam: int | None = None,
        n_best: int | None = None,
        attention: bool | None = None,
        candidates: int = 0,
        prefix: str | Sequence[str] | None = None,
        intervention: Intervention | None = None,
    ) -> Translation | list[Translation]:
        """Translate one line, or each of several; attention is recorded for one line unless said otherwise.

        `search` changes the settings of the recipe, such as {"sample": True, "temperature": 0.7}; `beam` and
        `n_best` are short for it. `prefix` forces how a translation begins, in whole words. `candidates` records so
        many of the likeliest pieces at each step. A blank line gives an empty translation.
        """
        alone = isinstance(text, str)
        if isinstance(prefix, str) != alone and prefix is not None:
            raise ConfigError("prefix: give one prefix for one line, and a list of them for a list of lines.")
        translations = self.translate_lines(
            [text] if isinstance(text, str) else text,
            search=self.search_settings(search, beam=beam, n_best=n_best),
            attention=alone if attention is None else attention,
            candidates=candidates,
            prefixes=[prefix] if isinstance(prefix, str) else prefix,
            intervention=intervention,
        )
        return next(translations) if alone else list(translations)

    def translate_lines(
        self,
        lines: Iterable[str],
        *,
        search: Search = None,
        attention: bool = False,
        candidates: int = 0,
        prefixes: Iterable[str] | None = None,
        intervention: Intervention | None = None,
        window: int = WINDOW,
    ) -> Iterator[Translation]:
        """One translation for each line, in order.

        `window` lines are read at a time and sorted by length among themselves, then their translations come out:
        memory stays flat however many lines there are, and window=1 answers each line before it reads the next.
        """
        settings = self.search_settings(search)
        if prefixes is None:
            prefixed: Iterator[tuple[str, str]] = ((line, "") for line in lines)
        else:
            prefixed = _paired(lines, prefixes)
        numbered = enumerate(prefixed)
        while chunk := list(itertools.islice(numbered, max(1, window))):
            done = dict(self._as_done(chunk, settings, attention, candidates, intervention))
            yield from (done[number] for number, _ in chunk)

    def translate_unordered(
        self, lines: Sequence[str], search: Search = None, *, attention: bool = False
    ) -> Iterator[tuple[int, Translation]]:
        """Number and translation of every line, as they get done: lines of similar length at a time.

        A line of more pieces than `search.max_source` raises `LongLine` before anything is translated.
        """
        chunk = [(number, (line, "")) for number, line in enumerate(lines)]
        settings = self.search_settings(search)
        yield from self._as_done(chunk, settings, attention, candidates=0, intervention=None, bound=refuse_line)

    def source_ids(self, text: str, settings: SearchSettings | None = None) -> list[int]:
        """The piece ids of one source line; more than `search.max_source` raise `LongLine`."""
        self._after_fork()
        settings = settings or self.recipe.search
        return refuse_line(self.source_tokenizer.encode(text), settings.max_source, "the sentence")

    def _as_done(
        self,
        chunk: Sequence[tuple[int, tuple[str, str]]],
        settings: SearchSettings,
        attention: bool,
        candidates: int,
        intervention: Intervention | None,
        bound: Bound = cut_line,
    ) -> Iterator[tuple[int, Translation]]:
        """The translations of numbered lines and their prefixes, batch by batch; `bound` meets lines that are long."""
        self._after_fork()
        yield from ((number, _blank(line, attention)) for number, (line, _) in chunk if not line.strip())
        jobs = self._jobs(chunk, settings.max_source, bound)
        if settings.engine == "ctranslate2":
            search = self._ctranslate2_search(settings)
            theirs = [] if attention or candidates or intervention else [job for job in jobs if _fits(job, settings)]
            done = set()
            for place, hypotheses in search([job.ids for job in theirs], settings):
                if self._replaces_unknown(settings) and any(UNK in each.ids for each in hypotheses):
                    continue  # it cannot tell what the unknown word looked at
                done.add(theirs[place].number)
                yield theirs[place].number, self._translation(theirs[place].text, hypotheses, settings)
            jobs = [job for job in jobs if job.number not in done]
        jobs.sort(key=lambda job: len(job.ids), reverse=True)  # the longest first: too little memory shows at once
        while jobs:
            count = max(1, settings.batch_tokens // len(jobs[0].ids))
            batch, jobs = jobs[:count], jobs[count:]
            found = self._search(batch, settings, attention, candidates, intervention)
            for job, hypotheses in zip(batch, found, strict=True):
                yield job.number, self._translation(job.text, hypotheses, settings, intervention)

    def _jobs(self, chunk: Sequence[tuple[int, tuple[str, str]]], most: int, bound: Bound) -> list[_Job]:
        """The lines that are not blank."""
        real = [(number, line, prefix) for number, (line, prefix) in chunk if line.strip()]
        sources = self.source_tokenizer.encode_many([line for _, line, _ in real])
        return [
            _Job(number, line, bound(ids, most, f"line {number + 1}"), self.target_tokenizer.encode_prefix(prefix))
            for (number, line, prefix), ids in zip(real, sources, strict=True)
        ]

    def _search(
        self,
        jobs: Sequence[_Job],
        settings: SearchSettings,
        attention: bool,
        candidates: int,
        intervention: Intervention | None,
        tree: BeamTree | None = None,
    ) -> list[list[Hypothesis]]:
        source, mask = source_batch([job.ids for job in jobs])
        prefix = None
        if any(job.prefix for job in jobs):
            prefix = source_batch([job.prefix for job in jobs])[0].to(self.device)
        return run_search(
            self.model,
            source.to(self.device),
            mask.to(self.device),
            settings,
            prefix=prefix,
            attention=attention,
            candidates=candidates,
            intervention=intervention,
            indices=[job.number for job in jobs],
            pad=PAD,
            bos=BOS,
            eos=EOS,
            unk=UNK if self._replaces_unknown(settings) else None,
            tree=tree,
            shortlist=self._shortlist() if settings.shortlist else None,
            weights=self._int8_weights() if settings.int8 else None,
        )

    def _replaces_unknown(self, settings: SearchSettings) -> bool:
        return settings.replace_unknown and self.target_tokenizer.says_unknown

    def _shortlist(self) -> Shortlist:
        if self.shortlist is None:
            raise ConfigError(
                f"{self.name}: this model has no shortlist: make one with `regard shortlist MODEL`, "
                "or translate without (search.shortlist = false)."
            )
        return self.shortlist

    def _int8_weights(self) -> Int8Weights:
        if self.device.type != "cpu":
            raise ConfigError(f"search.int8 = true: is for processors, not for {self.device}: translate without.")
        if self._int8 is None:
            self._int8 = Int8Weights()
        return self._int8

    def _ctranslate2_search(self, settings: SearchSettings) -> CTranslate2Search:
        """Made when it is first asked for; a model whose weights change afterwards needs a new Translator."""
        check_possible(self.model, self.device, settings)
        sizes = self.recipe.model
        assert isinstance(sizes, TransformerSettings)
        key = settings.int8, settings.shortlist
        with self._making:
            if key not in self._ctranslate2:
                self._ctranslate2[key] = CTranslate2Search(
                    sizes,
                    self.model.state_dict(),
                    self.source_tokenizer,
                    self.target_tokenizer,
                    threads=self._threads,
                    int8=settings.int8,
                    shortlist=self._shortlist() if settings.shortlist else None,
                )
            return self._ctranslate2[key]

    # --- given translations ---------------------------------------------------------------------------------------

    def force(
        self,
        source: str,
        target: str,
        *,
        attention: bool = True,
        candidates: int = 0,
        intervention: Intervention | None = None,
        search: Search = None,
    ) -> Translation:
        """The given translation of a line with what the model thinks of it: attention, candidates, probability.

        Its score is the one that a search with the settings `search` gives the same text.
        """
        settings = self.search_settings(search)
        batch = collate([self.source_ids(source, settings)], [self.target_tokenizer.encode(target)])
        forced = force(
            self.model,
            batch.to(self.device),
            attention=attention,
            candidates=candidates,
            intervention=intervention,
            alpha=settings.length_penalty,
            beta=settings.coverage_penalty,
        )[0]
        again = partial(look_at, self, forced=True, intervention=intervention)
        return self._build(source, target, self.target_tokenizer.tokens(target), forced, look=again)

    def score(self, pairs: Iterable[Pair], *, batch_tokens: int | None = None) -> Iterator[PairScore]:
        """Log-probability and tokens of each given translation, in order; a long side is cut, with a warning."""
        self._after_fork()
        most = batch_tokens or self.recipe.search.batch_tokens
        stream = enumerate(pairs, 1)
        while numbered := list(itertools.islice(stream, WINDOW)):
            chunk = [pair for _, pair in numbered]
            sources = self.source_tokenizer.encode_many([pair.source for pair in chunk])
            targets = self.target_tokenizer.encode_many([pair.target for pair in chunk])
            for side, lines in (("source", sources), ("target", targets)):
                for place, (number, _) in enumerate(numbered):
                    lines[place] = cut_line(lines[place], self.recipe.search.max_source, f"pair {number}, {side}")
            longer = [max(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
            order = sorted(range(len(chunk)), key=lambda place: longer[place], reverse=True)
            scores: dict[int, PairScore] = {}
            while order:
                count = max(1, most // longer[order[0]])
                places, order = order[:count], order[count:]
                batch = collate([sources[place] for place in places], [targets[place] for place in places])
                for place, forced in zip(places, force(self.model, batch.to(self.device)), strict=True):
                    scores[place] = PairScore(forced.log_probability, len(forced.ids))
            yield from (scores[place] for place in range(len(chunk)))

    # --- looking --------------------------------------------------------------------------------------------------

    def look(
        self,
        text: str,
        *,
        reference: str | None = None,
        prefix: str | Sequence[int] | None = None,
        intervention: Intervention | None = None,
        search: Search = None,
        beam: int | None = None,
        candidates: int = 5,
        tree: bool = False,
    ) -> Look:
        """Translate a line, or take its `reference`, and note everything that the model does on the way.

        `prefix` forces how the translation begins, as text or as piece ids. `tree` also notes what the beam search
        kept and dropped.
        """
        text = without_surrogates(text)
        if not text.strip():
            raise ConfigError("the sentence is empty: give some words.")
        if reference is not None:
            if prefix is not None or tree:
                raise ConfigError("a reference is given whole: look at it without a prefix and without the beam.")
            if not reference.strip():
                raise ConfigError("the reference is empty: give the translation to look at, or leave it out.")
            given = self.force(
                text, without_surrogates(reference), attention=False, intervention=intervention, search=search
            )
            return look_at(self, given, candidates=candidates, forced=True, intervention=intervention)
        # every piece may be a candidate here, so there is no shortlist
        settings = changed_settings(self.search_settings(search, beam=beam), {"shortlist": False})
        if tree and settings.sample:
            raise ConfigError("a sampled translation has no beam: look at it without the tree.")
        job = _Job(0, text, self.source_ids(text, settings), self.target_tokenizer.encode_prefix(prefix))
        grown = BeamTree() if tree else None
        found = self._search([job], settings, False, 0, intervention, grown)[0]
        return look_at(
            self,
            self._translation(text, found[:1], settings, intervention),
            candidates=candidates,
            prefix=len(job.prefix),
            intervention=intervention,
            tree=grown,
        )

    # --- settings and results -------------------------------------------------------------------------------------

    def search_settings(
        self, search: Search = None, *, beam: int | None = None, n_best: int | None = None
    ) -> SearchSettings:
        """The recipe's search settings with changes; a larger `n_best` alone widens the beam to it."""
        return chosen_settings(self.recipe.search, search, beam=beam, n_best=n_best)

    def change_search(self, overrides: Sequence[str]) -> None:
        """Translate with other settings from now on, such as "search.int8=true"; what cannot be done is refused now."""
        settings = overridden_settings(self.recipe, overrides)
        if settings.shortlist:
            self._shortlist()
        if settings.int8:
            self._int8_weights()
        if settings.engine == "ctranslate2":
            self._ctranslate2_search(settings)
        self.recipe = self.recipe.model_copy(update={"search": settings})

    def _translation(
        self,
        source: str,
        hypotheses: Sequence[Hypothesis],
        settings: SearchSettings,
        intervention: Intervention | None = None,
    ) -> Translation:
        look = partial(look_at, self, intervention=intervention)
        source_tokens = LazyTokens(lambda: cut_tokens(self.source_tokenizer.tokens(source), settings.max_source))
        built = []
        for hypothesis in hypotheses:
            unknown = _unknown_words(source, source_tokens, hypothesis) if settings.replace_unknown else []
            text = one_line(self.target_tokenizer.decode(hypothesis.ids, unknown))
            tokens = LazyTokens(partial(self.target_tokenizer.decoded_tokens, hypothesis.ids, unknown))
            built.append((text, tokens, hypothesis))
        alternatives = [self._build(source, *each, look=look, source_tokens=source_tokens) for each in built[1:]]
        return self._build(source, *built[0], look=look, source_tokens=source_tokens, alternatives=tuple(alternatives))

    def _build(
        self,
        source: str,
        text: str,
        tokens: Sequence[Token],
        hypothesis: Hypothesis,
        *,
        look: Callable[[Translation], Look],
        source_tokens: Sequence[Token] | None = None,
        alternatives: tuple[Translation, ...] = (),
    ) -> Translation:
        weights = hypothesis.attention
        piece = self.target_tokenizer.piece
        return Translation(
            source=source,
            text=text,
            source_tokens=self.source_tokenizer.tokens(source) if source_tokens is None else source_tokens,
            tokens=tokens,
            score=hypothesis.score,
            log_probability=hypothesis.log_probability,
            finished=hypothesis.finished,
            attention=None if weights is None else {kind: each.cpu().numpy() for kind, each in weights.items()},
            alignment=None if hypothesis.alignment is None else hypothesis.alignment.cpu().numpy(),
            candidates=tuple(
                tuple((piece(number), probability) for number, probability in step) for step in hypothesis.candidates
            ),
            token_log_probabilities=hypothesis.token_log_probabilities,
            alternatives=alternatives,
            look_again=look,
        )


def _fits(job: _Job, settings: SearchSettings) -> bool:
    return not job.prefix and fits(job.ids, settings)


def _blank(line: str, attention: bool) -> Translation:
    return Translation(line, "", alignment=np.zeros((0, 0)) if attention else None)


def _unknown_words(source: str, source_tokens: Sequence[Token], hypothesis: Hypothesis) -> list[str]:
    """For each <unk> the source word it attended to most (Luong et al. 2015); none without attention."""
    if UNK not in hypothesis.ids:
        return []
    attended: Sequence[int]
    if hypothesis.attended is not None:
        attended = hypothesis.attended
    elif hypothesis.alignment is not None:
        attended = np.asarray(hypothesis.alignment[:, :-1].argmax(-1).cpu()).tolist()
    else:
        return []
    words = source.split()
    replaced = []
    for number, place in zip(hypothesis.ids, attended, strict=True):
        if number == UNK:
            word = source_tokens[place].word
            replaced.append("<unk>" if word is None else words[word])
    return replaced


def _paired(lines: Iterable[str], prefixes: Iterable[str]) -> Iterator[tuple[str, str]]:
    missing: Literal[False] = False
    for number, (line, prefix) in enumerate(itertools.zip_longest(lines, prefixes, fillvalue=missing), 1):
        if line is missing or prefix is missing:
            fewer = "lines" if line is missing else "prefixes"
            raise ConfigError(f'prefix: the {fewer} end before number {number}: give one prefix (or "") a line.')
        yield line, prefix
