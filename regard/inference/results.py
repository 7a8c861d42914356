"""Translations put together from the hypotheses of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from regard.config.settings import SearchSettings
from regard.config.vocabulary import UNK
from regard.data.text.tokenizer import Token
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.text_model import TextModel
from regard.inference.long_lines import cut_tokens
from regard.inference.translation import Attended, LazyTokens, Translation, one_line

if TYPE_CHECKING:
    from regard.look.record import Look
    from regard.nn.attention.intervention import Intervention


@dataclass(frozen=True)
class Results:
    """Builds translations of one model, each with a callback for its look record."""

    model: TextModel

    def blank(self, line: str) -> Translation:
        """The translation of a line without words."""
        return Translation(line, "", recorded=Attended(alignment=np.zeros((0, 0))))

    def found(
        self,
        source: str,
        hypotheses: Sequence[Hypothesis],
        settings: SearchSettings,
        intervention: Intervention | None = None,
    ) -> Translation:
        """The first hypothesis of a search, the others after it in `n_best`."""
        target = self.model.target_tokenizer
        again = Again(self.model, intervention)
        read = self.model.source_tokenizer.tokens
        source_tokens = LazyTokens(lambda: cut_tokens(read(source), settings.max_source))
        built = []
        for hypothesis in hypotheses:
            unknown = _unknown_words(source, source_tokens, hypothesis) if settings.replace_unknown else []
            text = one_line(target.decode(hypothesis.ids, unknown))
            tokens = LazyTokens(partial(target.decoded_tokens, hypothesis.ids, unknown))
            built.append((text, tokens, hypothesis))
        further = tuple(self._build(source, source_tokens, *each, again=again) for each in built[1:])
        return self._build(source, source_tokens, *built[0], again=again, others=further)

    def given(
        self, source: str, target: str, hypothesis: Hypothesis, intervention: Intervention | None = None
    ) -> Translation:
        """A translation by forced decoding."""
        again = Again(self.model, intervention, forced=True)
        tokens = self.model.target_tokenizer.tokens(target)
        return self._build(source, self.model.source_tokenizer.tokens(source), target, tokens, hypothesis, again=again)

    def _build(
        self,
        source: str,
        source_tokens: Sequence[Token],
        text: str,
        tokens: Sequence[Token],
        hypothesis: Hypothesis,
        *,
        again: Again,
        others: tuple[Translation, ...] = (),
    ) -> Translation:
        piece = self.model.target_tokenizer.piece
        return Translation(
            source=source,
            text=text,
            source_tokens=source_tokens,
            tokens=tokens,
            score=hypothesis.score,
            log_probability=hypothesis.log_probability,
            finished=hypothesis.finished,
            recorded=None if hypothesis.attention is None else attended(hypothesis),
            candidates=tuple(
                tuple((piece(number), probability) for number, probability in step) for step in hypothesis.candidates
            ),
            token_log_probabilities=hypothesis.token_log_probabilities,
            _others=others,
            attend_again=again.attend,
            look_again=again.look,
        )


@dataclass(frozen=True)
class Again:
    """Forced decoding of a translation that was found or given before; it alone imports torch."""

    model: TextModel
    intervention: Intervention | None = None
    forced: bool = False  # the text was given

    def attend(self, translation: Translation) -> Attended:
        """The attention of a translation."""
        from regard.data.text.batches import collate
        from regard.decoding.forced import force

        if not translation.tokens:
            return Attended()
        sides = translation.source_tokens, translation.tokens
        batch = collate(*([[token.id for token in side]] for side in sides)).to(self.model.device)
        (found,) = force(self.model.model, batch, attention=True, intervention=self.intervention)
        return attended(found)

    def look(self, translation: Translation) -> Look:
        """The look record of a translation."""
        from regard.look.trace import look_at

        return look_at(self.model, translation, forced=self.forced, intervention=self.intervention)


def attended(hypothesis: Hypothesis) -> Attended:
    """The attention of a hypothesis as arrays."""
    weights, alignment = hypothesis.attention, hypothesis.alignment
    return Attended(
        None if weights is None else {kind: each.cpu().numpy() for kind, each in weights.items()},
        None if alignment is None else alignment.cpu().numpy(),
    )


def unknown_words(source: str, tokens: Sequence[Token], ids: Sequence[int], attended: Sequence[int]) -> list[str]:
    """For each <unk> the source word it attended to most (Luong et al. 2015)."""
    words = source.split()
    replaced = []
    for number, place in zip(ids, attended, strict=True):
        if number == UNK:
            word = tokens[place].word
            replaced.append("<unk>" if word is None else words[word])
    return replaced


def _unknown_words(source: str, source_tokens: Sequence[Token], hypothesis: Hypothesis) -> list[str]:
    """Those of a hypothesis; none without attention."""
    if UNK not in hypothesis.ids:
        return []
    if hypothesis.attended is not None:
        return unknown_words(source, source_tokens, hypothesis.ids, hypothesis.attended)
    if hypothesis.alignment is None:
        return []
    attended = np.asarray(hypothesis.alignment[:, :-1].argmax(-1).cpu()).tolist()
    return unknown_words(source, source_tokens, hypothesis.ids, attended)
