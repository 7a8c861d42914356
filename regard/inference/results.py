"""Translations put together from the hypotheses of a search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from regard.inference.translation import LazyTokens, Translation, one_line

if TYPE_CHECKING:
    from regard.look.record import Look
    from regard.nn.attention.intervention import Intervention


@dataclass(frozen=True)
class Results:
    """Builds translations of one model, each with a callback for its look record."""

    model: TextModel

    def blank(self, line: str, attention: bool) -> Translation:
        """The translation of a line without words."""
        return Translation(line, "", alignment=np.zeros((0, 0)) if attention else None)

    def found(
        self,
        source: str,
        hypotheses: Sequence[Hypothesis],
        settings: SearchSettings,
        intervention: Intervention | None = None,
    ) -> Translation:
        """The first hypothesis of a search, the others after it in `n_best`."""
        target = self.model.target_tokenizer
        look = partial(_look_at, self.model, intervention=intervention)
        read = self.model.source_tokenizer.tokens
        source_tokens = LazyTokens(lambda: cut_tokens(read(source), settings.max_source))
        built = []
        for hypothesis in hypotheses:
            unknown = _unknown_words(source, source_tokens, hypothesis) if settings.replace_unknown else []
            text = one_line(target.decode(hypothesis.ids, unknown))
            tokens = LazyTokens(partial(target.decoded_tokens, hypothesis.ids, unknown))
            built.append((text, tokens, hypothesis))
        further = tuple(self._build(source, source_tokens, *each, look=look) for each in built[1:])
        return self._build(source, source_tokens, *built[0], look=look, others=further)

    def given(
        self, source: str, target: str, hypothesis: Hypothesis, intervention: Intervention | None = None
    ) -> Translation:
        """A translation by forced decoding."""
        look = partial(_look_at, self.model, forced=True, intervention=intervention)
        tokens = self.model.target_tokenizer.tokens(target)
        return self._build(source, self.model.source_tokenizer.tokens(source), target, tokens, hypothesis, look=look)

    def _build(
        self,
        source: str,
        source_tokens: Sequence[Token],
        text: str,
        tokens: Sequence[Token],
        hypothesis: Hypothesis,
        *,
        look: Callable[[Translation], Look],
        others: tuple[Translation, ...] = (),
    ) -> Translation:
        weights = hypothesis.attention
        piece = self.model.target_tokenizer.piece
        return Translation(
            source=source,
            text=text,
            source_tokens=source_tokens,
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
            _others=others,
            look_again=look,
        )


def _look_at(
    model: TextModel, translation: Translation, *, forced: bool = False, intervention: Intervention | None = None
) -> Look:
    """The look record of a translation; it alone imports torch."""
    from regard.look.trace import look_at

    return look_at(model, translation, forced=forced, intervention=intervention)


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
