"""A whole text as a stream of pieces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from regard.inference.streaming import StreamedPiece
from regard.inference.translator import Translator
from regard.serve.sentences import split_text


def stream_text(translator: Translator, text: str) -> Iterator[StreamedPiece]:
    """The pieces of a text, sentence by sentence; the text so far includes the white space between sentences."""
    before, scores = "", 0.0
    last: StreamedPiece | None = None
    for part in split_text(text):
        if not part.translate:
            before += part.text
            continue
        for piece in translator.stream(part.text):
            last = replace(piece, text=before + piece.text, score=scores + piece.score, ended=False)
            yield last
        assert last is not None
        before, scores = last.text, last.score
    yield StreamedPiece("", before, 1.0, scores, True)
