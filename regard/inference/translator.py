"""Translator: a model with its tokenizers, from text to text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from regard.config.settings import Recipe, SearchSettings
from regard.data.text.hashes import Fingerprint
from regard.data.text.overlap import load_fingerprint
from regard.data.text.parallel import Pair
from regard.data.text.tokenizer import Tokenizer
from regard.decoding.engines.choice import Engines
from regard.decoding.engines.engine import Extras
from regard.decoding.search_settings import SearchChanges, chosen_settings, overridden_settings
from regard.decoding.shortlist import Shortlist
from regard.decoding.text_model import LazyModel, TextModel, join_models
from regard.errors import ConfigError
from regard.inference.box import model_folder
from regard.inference.folder import read_folder
from regard.inference.lines import WINDOW, Lines, given_lines, numbered_lines
from regard.inference.long_lines import refuse_line
from regard.inference.pickling import reduced
from regard.inference.representation import translator_line
from regard.inference.results import Results
from regard.inference.streaming import StreamedPiece, stream_line
from regard.inference.translation import Translation
from regard.process import device_name
from regard.storage.compiled import Compiled

if TYPE_CHECKING:
    import torch

    from regard.evaluation.alignment import GoldLinks
    from regard.evaluation.report import Progress, Report
    from regard.evaluation.test_set import TestText
    from regard.inference.scoring import PairScore
    from regard.inference.vectors import Move
    from regard.look.record import Look
    from regard.look.trace import Part
    from regard.models.contract import MakeModel, Model
    from regard.nn.attention.intervention import Intervention


class Translator:
    """A trained model, ready to translate.

    A Translator is thread-safe: translating does not modify it or its model, so calls need no lock. Consume each
    iterator in one thread. Moving the model to another device or changing its weights needs exclusive access.

    The torch model is read when it is first needed: for attention, sampling, forced decoding, or the torch engine.
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
        seen_words: Fingerprint | None = None,
    ) -> None:
        device = device_name(device)
        placed = model.to(device).eval()
        named, sides = name or recipe.model.kind, (source_tokenizer, target_tokenizer)
        text_model = TextModel(LazyModel(lambda: placed), *sides, device, named, shortlist, seen_words)
        self._begin(text_model, recipe, metrics, folder)

    def _begin(
        self, model: TextModel, recipe: Recipe, metrics: Mapping[str, Any] | None, folder: Path | None = None
    ) -> None:
        self.recipe = recipe
        self.metrics: dict[str, Any] = dict(metrics or {})
        self.folder = folder  # with which it can be pickled
        self.parts: tuple[Translator, ...] = ()  # of an ensemble
        self._assemble(model)

    def _assemble(self, model: TextModel) -> None:
        self._model = model
        self._engines, self._results = Engines(model), Results(model)
        self._lines = Lines(model, self._engines, self._results)

    @classmethod
    def load(
        cls, folder: str | Path, device: str | torch.device = "cpu", *, model: MakeModel | None = None
    ) -> Translator:
        """The model of a folder, or an installed one such as "de-en".

        `model` is needed if the folder holds the weights of a class of your own: the model, or a function that
        builds it for the sizes of the source and target vocabularies.
        """
        loaded, read = cls.__new__(cls), read_folder(model_folder(folder))
        loaded._begin(read.text_model(device, model), read.recipe, read.metrics, read.path if model is None else None)
        return loaded

    @classmethod
    def ensemble(cls, translators: Sequence[Translator]) -> Translator:
        """An ensemble of models with the same vocabularies, with the search settings of the first."""
        joined, first = cls.__new__(cls), translators[0]
        joined._begin(join_models([each._model for each in translators]), first.recipe, first.metrics)
        joined.parts = tuple(translators)
        return joined

    def __repr__(self) -> str:
        return translator_line(self._model, self.recipe, self._engines.described(self.recipe.search), len(self.parts))

    def __reduce__(self) -> tuple[Callable[..., Translator], tuple[Any, ...]]:
        """A pickle holds the model folder's path and the search settings, never weights."""
        return reduced(self)

    # --- translating ----------------------------------------------------------------------------------------------

    @overload
    def translate(
        self,
        text: str,
        *,
        search: SearchChanges = ...,
        beam: int | None = ...,
        n_best: int | None = ...,
        attention: bool = ...,
        candidates: int = ...,
        prefix: str | None = ...,
        intervention: Intervention | None = ...,
    ) -> Translation: ...

    @overload
    def translate(
        self,
        text: list[str] | tuple[str, ...],
        *,
        search: SearchChanges = ...,
        beam: int | None = ...,
        n_best: int | None = ...,
        attention: bool = ...,
        candidates: int = ...,
        prefix: Sequence[str] | None = ...,
        intervention: Intervention | None = ...,
    ) -> list[Translation]: ...

    def translate(
        self,
        text: str | list[str] | tuple[str, ...],
        *,
        search: SearchChanges = None,
        beam: int | None = None,
        n_best: int | None = None,
        attention: bool = False,
        candidates: int = 0,
        prefix: str | Sequence[str] | None = None,
        intervention: Intervention | None = None,
    ) -> Translation | list[Translation]:
        """Translate one line or several, with the fastest engine that supports what is asked for.

        `search` overrides the search settings of the recipe, such as {"sample": True, "temperature": 0.7}; `beam` and
        `n_best` are shortcuts. `prefix` is a target prefix of whole words. `candidates` is the number of most probable
        pieces recorded at each step. A blank line gives an empty translation. `attention` records it in the search.
        """
        alone = isinstance(text, str)
        if isinstance(prefix, str) != alone and prefix is not None:
            raise ConfigError("prefix: give one prefix for one line, and a list of them for a list of lines.")
        translations = self.translate_lines(
            given_lines(text),
            search=self.search_settings(search, beam=beam, n_best=n_best),
            attention=attention,
            candidates=candidates,
            prefixes=[prefix] if isinstance(prefix, str) else prefix,
            intervention=intervention,
        )
        return next(translations) if alone else list(translations)

    def translate_lines(
        self,
        lines: Iterable[str],
        *,
        search: SearchChanges = None,
        attention: bool = False,
        candidates: int = 0,
        prefixes: Iterable[str] | None = None,
        intervention: Intervention | None = None,
        window: int = WINDOW,
    ) -> Iterator[Translation]:
        """One translation for each line, in order.

        `window` lines are read at a time, sorted by length and translated, so memory stays constant. With window=1
        each line is translated before the next is read.
        """
        extras = Extras(attention, candidates, intervention)
        return self._lines.in_order(lines, prefixes, self.search_settings(search), extras, window)

    def translate_unordered(
        self, lines: Sequence[str], search: SearchChanges = None, *, attention: bool = False
    ) -> Iterator[tuple[int, Translation]]:
        """Number and translation of every line as they complete, in batches of similar length.

        A line longer than `search.max_source` pieces raises `LongLine` before anything is translated.
        """
        return self._lines.as_done(numbered_lines(lines), self.search_settings(search), Extras(attention), refuse_line)

    def stream(self, text: str, *, search: SearchChanges = None) -> Iterator[StreamedPiece]:
        """Stream the pieces of the translation of one line, by greedy search or sampling."""
        return stream_line(self._model, self._engines, text, self.search_settings(search, beam=1, n_best=1))

    # --- given translations ---------------------------------------------------------------------------------------

    def force(
        self,
        source: str,
        target: str,
        *,
        attention: bool = True,
        candidates: int = 0,
        intervention: Intervention | None = None,
        search: SearchChanges = None,
    ) -> Translation:
        """Forced decoding of a given translation: attention, candidates and log-probability.

        Its score equals that of a search with the settings `search` for the same text.
        """
        from regard.inference.scoring import force_pair

        self._engines.after_fork()
        extras = Extras(attention, candidates, intervention)
        forced = force_pair(self._model, Pair(source, target), self.search_settings(search), extras)
        return self._results.given(source, target, forced, intervention)

    @overload
    def score(self, source: str, target: str) -> PairScore: ...

    @overload
    def score(self, source: list[str] | tuple[str, ...], target: list[str] | tuple[str, ...]) -> list[PairScore]: ...

    def score(
        self, source: str | list[str] | tuple[str, ...], target: str | list[str] | tuple[str, ...]
    ) -> PairScore | list[PairScore]:
        """Log-probability, tokens and perplexity of a given translation, or of each of several."""
        from regard.inference.scoring import matched_pairs

        scores = list(self.score_pairs(matched_pairs(source, target)))
        return scores[0] if isinstance(source, str) else scores

    def score_pairs(self, pairs: Iterable[Pair], *, batch_tokens: int | None = None) -> Iterator[PairScore]:
        """Score pairs lazily, in order; an overlong side is truncated with a warning."""
        from regard.inference.scoring import score_pairs

        self._engines.after_fork()
        settings = self.recipe.search
        return score_pairs(self._model, pairs, batch_tokens or settings.batch_tokens, settings.max_source)

    def evaluate(
        self,
        source: TestText,
        reference: TestText | Sequence[Sequence[str]] | None = None,
        *,
        gold_alignments: str | Path | Sequence[GoldLinks] | None = None,
        split: str | None = None,
        search: SearchChanges = None,
        beam: int | None = None,
        tokenize: str | None = None,
        lowercase: bool = False,
        links: str = "argmax",
        backward: Translator | None = None,
        perplexity: bool = True,
        on_progress: Progress | None = None,
    ) -> Report:
        """Translate a test set and score it, with the options and the report of `regard evaluate`.

        `source` and `reference` are lists of sentences or names of files; several references are a list of lists.
        Instead, one TSV file, or "toy:phrases:en-fr:500": 500 sentences of a `split` (test), with gold links.
        """
        from regard.evaluation.report import evaluate, no_progress
        from regard.evaluation.test_set import given_test_set

        test = given_test_set(source, reference, gold_alignments, split)
        return evaluate(
            self,
            test.sources,
            test.references,
            gold=test.gold,
            search=self.search_settings(search, beam=beam),
            tokenize=tokenize,
            lowercase=lowercase,
            method=links,
            backward=backward,
            likelihood=perplexity,
            training=None if self.folder is None else load_fingerprint(self.folder),
            on_progress=on_progress or no_progress,
        )

    # --- looking --------------------------------------------------------------------------------------------------

    def look(
        self,
        text: str,
        *,
        reference: str | None = None,
        prefix: str | Sequence[int] | None = None,
        intervention: Intervention | None = None,
        search: SearchChanges = None,
        beam: int | None = None,
        candidates: int = 5,
        tree: bool = False,
        parts: Collection[Part] | None = None,
    ) -> Look:
        """The look record of translating a line, or of forced decoding of its `reference`.

        `prefix` is a target prefix, as text or as piece ids. `tree` also records the hypotheses that the beam search
        kept and pruned. `parts` of a long sentence's record can be left out: the maps of all heads of a kind of
        attention, and the arithmetic of the steps; by default it has all.
        """
        from regard.inference.looking import Looker

        return Looker(self._model, self._engines, self._results, self.metrics).look(
            text,
            self.search_settings(search, beam=beam),
            reference=reference,
            prefix=prefix,
            intervention=intervention,
            candidates=candidates,
            tree=tree,
            parts=parts,
        )

    def vector_moves(self, text: str, others: Sequence[str]) -> list[Move]:
        """How far the fixed vector of a model without attention moves from `text` to each of the others."""
        from regard.inference.vectors import vector_moves

        return vector_moves(self._model, text, others, self.recipe.search)

    def search_settings(
        self, search: SearchChanges = None, *, beam: int | None = None, n_best: int | None = None
    ) -> SearchSettings:
        """The recipe's search settings with overrides; an `n_best` above the beam widens the beam."""
        return chosen_settings(self.recipe.search, search, beam=beam, n_best=n_best)

    def prepare(self) -> None:
        """Open the engine of the search settings now, which the first translation does otherwise."""
        self._engines.prepare(self.recipe.search)

    def use_workers(self, count: int) -> None:
        """Translate many lines in `count` workers of one thread each: replicas of a compiled engine, or processes."""
        if count < 1:
            raise ConfigError(f"workers = {count}: at least one is needed.")
        self._assemble(replace(self._model, threads=count, workers=count))

    def change_search(self, overrides: Sequence[str]) -> None:
        """Override the search settings permanently, such as "search.int8=true"; unsupported ones raise."""
        settings = overridden_settings(self.recipe, overrides)
        self._engines.prepare(settings)
        self.recipe = self.recipe.model_copy(update={"search": settings})

    @property
    def model(self) -> Model:
        """The model, whose weights may be changed before the first translation: "auto" selects torch from now on."""
        model = self.read_only_model
        self._model.compiled.forget()
        return model

    @property
    def read_only_model(self) -> Model:
        """The model, in evaluation mode, whose weights must not be changed: the engine stays the same."""
        return self._model.model

    @property
    def source_tokenizer(self) -> Tokenizer:
        """The tokenizer of the source language."""
        return self._model.source_tokenizer

    @property
    def target_tokenizer(self) -> Tokenizer:
        """The tokenizer of the target language."""
        return self._model.target_tokenizer

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        import torch

        return torch.device(self._model.device)

    @property
    def name(self) -> str:
        """The name of the model folder, or the kind of the model."""
        return self._model.name

    @property
    def shortlist(self) -> Shortlist | None:
        """The shortlist of the model folder."""
        return self._model.shortlist

    @shortlist.setter
    def shortlist(self, shortlist: Shortlist | None) -> None:
        self._assemble(replace(self._model, shortlist=shortlist, compiled=Compiled()))
