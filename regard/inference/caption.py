"""A caption with its score, tokens and attention.

As JSON (`Caption.to_dict`):

    text              the caption
    score             log-probability with the length penalty; the order of n-best lists
    log_probability   of the whole caption, natural logarithm
    finished          false if it was cut at the maximum length
    tokens            its pieces, the closing </s> included
    words             its white-space words
    grid              rows and columns of the attended cells
    attention         the cell weights of each word, row by row; null without attention
    n_best            the best captions, this one first: text, score, log_probability, finished
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.data.images.pixels import Pixels
from regard.data.text.tokenizer import Token
from regard.errors import NoAttention
from regard.evaluation.alignment import word_attention
from regard.inference.representation import result_line
from regard.inference.translation import Candidate, Weights


@dataclass(frozen=True, repr=False)
class Caption:
    """An image and its caption; T pieces, </s> included."""

    image: Pixels = field(compare=False, repr=False)  # (H, W, 3), or (H, W) if it is grey; as the user gave it
    text: str
    tokens: tuple[Token, ...] = ()
    score: float = 0.0
    log_probability: float = 0.0
    finished: bool = True  # False if it was cut at the maximum length
    attention: Weights | None = field(default=None, compare=False, repr=False)  # (T, rows, columns)
    candidates: tuple[tuple[Candidate, ...], ...] = ()  # the likeliest pieces at each step
    token_log_probabilities: tuple[float, ...] = ()
    _others: tuple[Caption, ...] = ()  # of `n_best`, after this one

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return result_line("Caption", [self.text], self.score, self.finished, len(self.n_best))

    @property
    def n_best(self) -> tuple[Caption, ...]:
        """The best captions, this one first; as many as `n_best` asked for."""
        return (self, *self._others)

    @property
    def words(self) -> tuple[str, ...]:
        """The white-space words."""
        return tuple(self.text.split())

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the attended cells."""
        return self._maps().shape[1], self._maps().shape[2]

    def word_attention(self) -> npt.NDArray[np.float64]:
        """Attention maps of the words (W, rows, columns): the mean over the word's pieces."""
        maps = self._maps()
        flat = maps.reshape(maps.shape[0], -1)  # (T, S)
        cells = list(range(flat.shape[1]))
        by_word = word_attention(
            flat,
            cells,
            [token.word for token in self.tokens],
            source_length=len(cells),
            target_length=len(self.words),
        )
        return by_word.reshape(-1, *maps.shape[1:])

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, as described at the top of this file."""
        looked = None if self.attention is None else self.word_attention().reshape(len(self.words), -1)
        return {
            "text": self.text,
            "score": self.score,
            "log_probability": self.log_probability,
            "finished": self.finished,
            "tokens": [token.text for token in self.tokens],
            "words": list(self.words),
            "grid": None if self.attention is None else list(self.grid),
            "attention": None if looked is None else [[float(f"{weight:.6g}") for weight in row] for row in looked],
            "n_best": [
                {
                    "text": each.text,
                    "score": each.score,
                    "log_probability": each.log_probability,
                    "finished": each.finished,
                }
                for each in self.n_best
            ],
        }

    def _maps(self) -> Weights:
        if self.attention is None:
            raise NoAttention("this caption has no attention: caption the image with attention=True.")
        return self.attention
