"""Lines longer than `search.max_source` pieces: truncated with a warning in a stream, an error alone.

Time and memory of attention grow quadratically with the length. In a stream, one overlong line must not delay the
others, so it is truncated; the caller of a single line can shorten it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

from regard.config.settings import SearchSettings
from regard.config.vocabulary import EOS
from regard.data.text.tokenizer import Token
from regard.decoding.text_model import TextModel
from regard.errors import LongLine

Bound = Callable[[list[int], int, str], list[int]]
"""Handles an overlong line: its ids, the maximum length, and its location for messages."""


class LongLineWarning(UserWarning):
    """A line was cut at `search.max_source`."""


def cut_line(ids: list[int], most: int, where: str) -> list[int]:
    """Truncate to `most` ids, EOS last, with a warning."""
    if len(ids) <= most:
        return ids
    message = f"{where}: {len(ids):,} subwords, cut to search.max_source = {most}."
    # without a registry: every line is reported, and memory stays constant
    warnings.warn_explicit(message, LongLineWarning, "regard", 1, module=__name__, registry=None)
    return [*ids[: most - 1], EOS]


def refuse_line(ids: list[int], most: int, where: str) -> list[int]:
    """The ids; raises if there are more than `most`."""
    if len(ids) > most:
        raise LongLine(
            f"{where}: {len(ids):,} subwords are more than search.max_source = {most}: shorten it, or raise the "
            "setting."
        )
    return ids


def source_ids(model: TextModel, text: str, settings: SearchSettings) -> list[int]:
    """The piece ids of one source line; more than `search.max_source` raise `LongLine`."""
    return refuse_line(model.source_tokenizer.encode(text), settings.max_source, "the sentence")


def cut_tokens(tokens: tuple[Token, ...], most: int) -> tuple[Token, ...]:
    """The tokens of `cut_line`."""
    return tokens if len(tokens) <= most else (*tokens[: most - 1], tokens[-1])
