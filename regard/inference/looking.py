"""The look record of one sentence, by search or by forced decoding of a reference."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.config.settings import SearchSettings
from regard.data.text.parallel import Pair
from regard.data.text.pieces import without_surrogates
from regard.data.text.sources import described_toy, trained_on
from regard.decoding.engines.choice import Engines
from regard.decoding.engines.engine import Extras, Sentence
from regard.decoding.search_settings import changed_settings
from regard.decoding.text_model import TextModel
from regard.decoding.tree import BeamTree
from regard.errors import ConfigError
from regard.inference.long_lines import source_ids
from regard.inference.results import Results
from regard.inference.scoring import force_pair
from regard.look.record import Gold, Look
from regard.look.trace import PARTS, Part, look_at
from regard.nn.attention.intervention import Intervention


@dataclass(frozen=True)
class Looker:
    """Looks at how one model translates a sentence."""

    model: TextModel
    engines: Engines
    results: Results
    metrics: Mapping[str, Any]  # they name the training text

    def look(
        self,
        text: str,
        settings: SearchSettings,
        *,
        reference: str | None,
        prefix: str | Sequence[int] | None,
        intervention: Intervention | None,
        candidates: int,
        tree: bool,
        parts: Collection[Part] | None,
    ) -> Look:
        """The record of the `reference`, or of the translation found by a search; `tree` adds the beam."""
        text = without_surrogates(text)
        if not text.strip():
            raise ConfigError("the sentence is empty: give some words.")
        self.engines.after_fork()
        parts = PARTS if parts is None else parts
        if reference is None:
            found = self._at_translation(text, settings, prefix, intervention, candidates, tree, parts)
            return with_gold(found, self.metrics)
        if prefix is not None or tree:
            raise ConfigError("a reference is given whole: look at it without a prefix and without the beam.")
        pair = Pair(text, without_surrogates(reference))
        return with_gold(self._at_reference(pair, settings, intervention, candidates, parts), self.metrics)

    def _at_reference(
        self,
        pair: Pair,
        settings: SearchSettings,
        intervention: Intervention | None,
        candidates: int,
        parts: Collection[Part],
    ) -> Look:
        if not pair.target.strip():
            raise ConfigError("the reference is empty: give the translation to look at, or leave it out.")
        forced = force_pair(self.model, pair, settings, Extras(intervention=intervention))
        given = self.results.given(pair.source, pair.target, forced, intervention)
        return look_at(self.model, given, candidates=candidates, forced=True, intervention=intervention, parts=parts)

    def _at_translation(
        self,
        text: str,
        settings: SearchSettings,
        prefix: str | Sequence[int] | None,
        intervention: Intervention | None,
        candidates: int,
        tree: bool,
        parts: Collection[Part],
    ) -> Look:
        if tree and settings.sample:
            raise ConfigError("a sampled translation has no beam: look at it without the tree.")
        # every piece may be a candidate here, so there is no shortlist; and the search must be our own
        settings = changed_settings(settings, {"shortlist": False, "engine": "torch"})
        begun = self.model.target_tokenizer.encode_prefix(prefix)
        grown = BeamTree() if tree else None
        sentence = Sentence(source_ids(self.model, text, settings), begun)
        ((_, found),) = self.engines.search([sentence], settings, Extras(intervention=intervention, tree=grown))
        return look_at(
            self.model,
            self.results.found(text, found[:1], settings, intervention),
            candidates=candidates,
            prefix=len(begun),
            intervention=intervention,
            tree=grown,
            parts=parts,
        )


def with_gold(look: Look, metrics: Mapping[str, Any]) -> Look:
    """The record with the gold links of its source, if the training text is an embedded corpus that has it."""
    corpus = described_toy(trained_on(metrics))
    pair = None if corpus is None else corpus.find(look.source.text.strip())
    if pair is None:
        return look
    gold = Gold(target=pair.target, sure=list(pair.sure), possible=sorted({*pair.sure, *pair.possible}))
    return look.model_copy(update={"gold": gold})
