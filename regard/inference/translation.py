"""A translation with its score, tokens, attention and alignment; look, evaluation and server all use it.

As JSON, one line for each sentence (`Translation.to_dict`):

    source            the line as given
    text              its translation
    score             log-probability with the length and coverage penalties; the order of n-best lists
    log_probability   of the whole translation, natural logarithm
    finished          false if it was cut at the maximum length
    tokens            the pieces of the translation, the closing </s> included
    alignment         links between words as "source-target", counted from 0; null without attention, or if not wanted
    n_best            the best translations, this one first: text, score, log_probability, finished
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from regard.errors import ConfigError, NoAttention
from regard.evaluation.alignment import format_links, links, word_attention
from regard.inference.representation import result_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.data.text.tokenizer import Token
    from regard.look.record import Look
    from regard.nn.attention.intervention import Kind

Weights = npt.NDArray[np.floating[Any]]
Candidate = tuple[str, float]
"""A piece and its probability."""

# every line separator of Python and editors
_LINE_ENDS = re.compile("[\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")


class LazyTokens(Sequence["Token"]):
    """Tokens computed on first access: translating a file rarely needs them."""

    def __init__(self, find: Callable[[], tuple[Token, ...]]) -> None:
        self._find = find

    @cached_property
    def _tokens(self) -> tuple[Token, ...]:
        return self._find()

    @overload
    def __getitem__(self, place: int) -> Token: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Token, ...]: ...

    def __getitem__(self, place: int | slice) -> Token | tuple[Token, ...]:
        return self._tokens[place]

    def __len__(self) -> int:
        return len(self._tokens)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._tokens == tuple(other)

    def __hash__(self) -> int:
        return hash(self._tokens)

    def __repr__(self) -> str:
        return repr(self._tokens)


@dataclass(frozen=True)
class Attended:
    """The attention of a translation; None if the model has none."""

    attention: Mapping[Kind, Weights] | None = None  # (layers, heads, T, S) each
    alignment: Weights | None = None  # (T, S)


@dataclass(frozen=True, repr=False)
class Translation:
    """One sentence and its translation; T pieces of the translation, S of the source, both with the closing </s>.

    Attention that the search did not record is computed at first access, by forced decoding.
    """

    source: str
    text: str  # never contains a line separator
    source_tokens: Sequence[Token] = ()
    tokens: Sequence[Token] = ()
    score: float = 0.0
    log_probability: float = 0.0
    finished: bool = True  # False if it was cut at the maximum length
    recorded: Attended | None = field(default=None, compare=False)  # by the search
    candidates: tuple[tuple[Candidate, ...], ...] = ()  # the likeliest pieces at each step
    token_log_probabilities: tuple[float, ...] = ()
    _others: tuple[Translation, ...] = ()  # of `n_best`, after this one
    attend_again: Callable[[Translation], Attended] | None = field(default=None, compare=False)
    look_again: Callable[[Translation], Look] | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return result_line("Translation", [self.source, self.text], self.score, self.finished, len(self.n_best))

    @cached_property
    def _attended(self) -> Attended:
        if self.recorded is not None:
            return self.recorded
        return Attended() if self.attend_again is None else self.attend_again(self)

    @property
    def attention(self) -> Mapping[Kind, Weights] | None:
        """Attention weights by kind, (layers, heads, T, S) each; None if the model has no attention."""
        return self._attended.attention

    @property
    def alignment(self) -> Weights | None:
        """The map (T, S) that words are aligned by; None if the model has no attention."""
        return self._attended.alignment

    @property
    def source_words(self) -> tuple[str, ...]:
        """The white-space words of the source."""
        return tuple(self.source.split())

    @property
    def n_best(self) -> tuple[Translation, ...]:
        """The best translations, this one first; as many as `n_best` asked for."""
        return (self, *self._others)

    @property
    def words(self) -> tuple[str, ...]:
        """The white-space words of the translation."""
        return tuple(self.text.split())

    def word_alignment(self) -> npt.NDArray[np.float64]:
        """Attention between words (W_t, W_s): summed over a source word's pieces, averaged over a target word's."""
        if self.alignment is None:
            raise NoAttention(
                "this translation has no attention: use a model that has it (see `regard architectures`)."
            )
        return word_attention(
            self.alignment,
            [token.word for token in self.source_tokens],
            [token.word for token in self.tokens],
            source_length=len(self.source_words),
            target_length=len(self.words),
        )

    def links(self, method: str = "argmax", threshold: float = 0.5) -> frozenset[tuple[int, int]]:
        """Links (source word, target word) read from the attention; methods as in `regard.evaluation.alignment`."""
        return links(self.word_alignment(), method, threshold)

    def look(self) -> Look:
        """The look record, for every view; the model force-decodes the translation once more."""
        if not self.tokens:
            raise ConfigError("the translation is empty: there is nothing to look at.")
        if self.look_again is None:
            raise ConfigError("there is no model behind this translation: look at the one that `translate` returned.")
        return self.look_again(self)

    def plot(
        self,
        *,
        kind: Kind | None = None,
        layer: int | None = None,
        head: int | None = None,
        average: bool = False,
        pieces: bool = False,
        entropy: bool = False,
        title: str | None = None,
        font: str | Path | None = None,
    ) -> Figure:
        """The attention as a matplotlib figure, of words or `pieces`; a model without attention shows its one vector.

        Without a choice it is the alignment. `kind`, `layer` and `head` choose maps; `average` takes the mean of
        each layer's heads. `entropy` adds the entropy of each row, in bits, and the sum of each column.
        """
        from regard.look.maps import Choice
        from regard.look.views.heatmap import attention_figure

        choice = Choice(kind, layer, head, average, pieces)
        return attention_figure(self.look(), choice, measures=entropy, title=title, font=font)

    def save(
        self,
        path: str | Path,
        *,
        kind: Kind | None = None,
        layer: int | None = None,
        head: int | None = None,
        average: bool = False,
        pieces: bool = False,
        entropy: bool = False,
        title: str | None = None,
        font: str | Path | None = None,
    ) -> Path:
        """Write what `plot` draws as .png, .svg or .pdf, the steps of attention as .gif, or the page as .html."""
        from regard.look.maps import Choice
        from regard.look.views.pictures import check_picture_path
        from regard.look.views.save import FORMATS, save_looks

        check_picture_path(path, FORMATS)
        choice = Choice(kind, layer, head, average, pieces)
        return save_looks([self.look()], path, choice, measures=entropy, title=title, font=font)

    def _repr_html_(self) -> str | None:
        """Ribbons, for a notebook; None, which shows the plain text, where there is nothing to look at."""
        return None if self.look_again is None or not self.tokens else self.look()._repr_html_()

    def __getstate__(self) -> dict[str, Any]:
        """The state for pickling and copying, without the callbacks to the model."""
        found = {"source_tokens": tuple(self.source_tokens), "tokens": tuple(self.tokens)}
        return {**self.__dict__, **found, "attend_again": None, "look_again": None}

    def to_dict(self, *, alignment: bool = True) -> dict[str, Any]:
        """Plain values for JSON, as described at the top of this file."""
        return {
            "source": self.source,
            "text": self.text,
            "score": self.score,
            "log_probability": self.log_probability,
            "finished": self.finished,
            "tokens": [token.text for token in self.tokens],
            "alignment": format_links(self.links()) if alignment and self.alignment is not None else None,
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


def one_line(text: str) -> str:
    """The text with line separators replaced by spaces; its length and words stay the same."""
    return _LINE_ENDS.sub(" ", text)
