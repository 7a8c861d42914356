"""Tokens as a model says them: greedy search, one step at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from regard.data.text.batches import source_batch
from regard.data.text.tokenizer import BOS, EOS, PAD
from regard.decoding.decoding import Decoding, Request
from regard.decoding.penalties import length_penalty
from regard.inference.translation import one_line
from regard.inference.translator import Translator
from regard.serve.sentences import split_text


@dataclass(frozen=True)
class Spoken:
    """A piece that the model has just said, and the whole text so far."""

    piece: str
    text: str
    probability: float
    score: float  # of the sentence so far: its log-probability with the length penalty
    ended: bool  # whether the sentence ends here


def stream_sentence(translator: Translator, sentence: str) -> Iterator[Spoken]:
    """The likeliest piece at each step; the text is what greedy search gives."""
    settings = translator.search_settings(beam=1, n_best=1)
    source, mask = source_batch([translator.source_ids(sentence)])
    request = Request(settings, bos=BOS, eos=EOS, pad=PAD)
    ids: list[int] = []
    total = 0.0
    with torch.inference_mode():
        decoding = Decoding(translator.model, source.to(translator.device), mask.to(translator.device), request)
    while True:
        with torch.inference_mode():  # not around the yield, where other code runs
            scores = decoding.step()
            token = scores.argmax(-1)  # (1,)
            chosen = scores[0, token]  # (1,)
            ended = int(token) == EOS or int(decoding.limits.greatest) <= decoding.position + 1
            decoding.advance(torch.zeros_like(token), token, chosen, torch.tensor([False], device=token.device))
        ids.append(int(token))
        total += float(chosen)
        text = one_line(translator.target_tokenizer.decode(ids))
        yield Spoken(
            piece=translator.target_tokenizer.piece(ids[-1]),
            text=text if ended else text.rstrip("\ufffd"),  # a character whose last byte has not come yet
            probability=math.exp(float(chosen)),
            score=total / length_penalty(float(len(ids)), settings.length_penalty),
            ended=ended,
        )
        if ended:
            return


def stream_text(translator: Translator, text: str) -> Iterator[Spoken]:
    """The pieces of a whole text, sentence by sentence; the text so far holds what stands between them."""
    before, scores = "", 0.0
    last: Spoken | None = None
    for part in split_text(text):
        if not part.translate:
            before += part.text
            continue
        for spoken in stream_sentence(translator, part.text):
            last = Spoken(spoken.piece, before + spoken.text, spoken.probability, scores + spoken.score, False)
            yield last
        assert last is not None
        before, scores = last.text, last.score
    yield Spoken("", before, 1.0, scores, True)
