"""Greedy search: the most probable token at each step; and the loop it shares with sampling."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from regard.decoding.decoding import Decoding
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.record import Ending
from regard.decoding.top_k import best

Choose = Callable[[Tensor, Decoding], Tensor]
"""From log-probabilities (N, V) to one token for each row (N,)."""


def greedy_search(decoding: Decoding) -> list[list[Hypothesis]]:
    """One hypothesis per sentence."""
    return walk(decoding, most_probable)


def most_probable(scores: Tensor, _: Decoding) -> Tensor:
    """The most probable token (N,) of each row."""
    return best(scores, 1)[1].squeeze(1)


def walk(decoding: Decoding, choose: Choose, rows: int = 1) -> list[list[Hypothesis]]:
    """Decode `rows` independent hypotheses per sentence until EOS or the maximum length."""
    endings: list[list[Ending]] = [[] for _ in range(decoding.memory.sentences * rows)]
    if rows > 1:
        decoding.widen(rows)
    walking = torch.ones(decoding.memory.sentences, rows, dtype=torch.bool, device=decoding.token.device)
    while decoding.memory.sentences:
        scores = decoding.step()
        token = choose(scores, decoding)
        chosen = scores.gather(1, token.unsqueeze(1)).squeeze(1)  # (N,)
        ended = (token == decoding.request.eos).view_as(walking)
        cut = (decoding.limits.maximum <= decoding.position + 1).unsqueeze(1)
        for sentence, path in ((ended | cut) & walking).nonzero().tolist():
            ending = _ending(decoding, sentence, sentence * rows + path, token, chosen)
            endings[int(decoding.sentence[sentence]) * rows + path].append(ending)
        walking = walking & ~ended & ~cut
        stay = decoding.advance(torch.arange(token.size(0), device=token.device), token, chosen, ~walking.any(1))
        if stay is not None:
            walking = walking.index_select(0, stay)
    paths = [end for ends in endings for end in ends]  # one each
    return decoding.hypotheses([paths[first : first + rows] for first in range(0, len(paths), rows)])


def _ending(decoding: Decoding, sentence: int, row: int, token: Tensor, chosen: Tensor) -> Ending:
    penalty = decoding.coverage_penalty(*torch.tensor([[sentence], [row]], device=token.device))
    return Ending(
        step=decoding.position,
        row=row,
        token=int(token[row]),
        log_probability=float(chosen[row]),
        score=0.0,  # not ranked
        finished=int(token[row]) == decoding.request.eos,
        coverage_penalty=float(penalty),
    )
