"""The results of decoding, from any engine; no torch at run time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from regard.nn.attention.trace import Attention


@dataclass(frozen=True)
class Hypothesis:
    """One translation in token ids, with its log-probability, score and recorded attention."""

    ids: tuple[int, ...]  # without BOS; ends with EOS unless truncated at the maximum length
    log_probability: float  # sum over the tokens
    score: float  # with length and coverage penalty; sorts n-best lists
    finished: bool
    token_log_probabilities: tuple[float, ...]
    attention: Attention | None = None  # by kind, (layers, heads, T, S), S without padding
    alignment: Tensor | None = None  # (T, S)
    attended: tuple[int, ...] | None = None  # most attended source position of each token, EOS excluded
    candidates: tuple[
        tuple[tuple[int, float], ...], ...
    ] = ()  # by step, the most probable ids with their probabilities


@dataclass(frozen=True)
class StreamedToken:
    """The next token of a translation."""

    id: int
    log_probability: float
    score: float  # of the tokens so far, with length and coverage penalty
    ended: bool  # whether this is the last token: EOS, or the maximum length
    attended: int | None = None  # most attended source position, if requested
