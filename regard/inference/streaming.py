"""Streaming translation, piece by piece."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from regard.config.settings import SearchSettings
from regard.config.vocabulary import UNK
from regard.decoding.engines.choice import Engines
from regard.decoding.engines.engine import Sentence
from regard.decoding.text_model import TextModel
from regard.inference.long_lines import source_ids
from regard.inference.results import unknown_words
from regard.inference.translation import LazyTokens, one_line


@dataclass(frozen=True)
class StreamedPiece:
    """The next piece of a translation, and its text so far."""

    piece: str
    text: str
    probability: float
    score: float  # of the translation so far, penalised for length and coverage
    ended: bool  # whether the sentence ends here


def stream_line(model: TextModel, engines: Engines, line: str, settings: SearchSettings) -> Iterator[StreamedPiece]:
    """The pieces of the translation of one line; the last text is the one that `translate` gives."""
    tokens = LazyTokens(partial(model.source_tokenizer.tokens, line))
    ids: list[int] = []
    attended: list[int] = []
    for token in engines.stream(Sentence(source_ids(model, line, settings)), settings):
        ids.append(token.id)
        if token.attended is not None:
            attended.append(token.attended)
        unknown = unknown_words(line, tokens, ids, attended) if attended and UNK in ids else []
        text = one_line(model.target_tokenizer.decode(ids, unknown))
        yield StreamedPiece(
            piece=model.target_tokenizer.piece(token.id),
            text=text if token.ended else text.rstrip("\ufffd"),  # a character whose last byte is still missing
            probability=math.exp(token.log_probability),
            score=token.score,
            ended=token.ended,
        )
