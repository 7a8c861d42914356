"""Lines of more pieces than `search.max_source`: cut with a warning in a stream, refused alone.

Time and memory of attention grow with the square of a line. In a stream of lines one line that is far too long must
not hold up the others, so it is cut; whoever asks for a single one can mend it.
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
"""What meets the ids of a line, the most there may be, and where the line stands."""


class LongLineWarning(UserWarning):
    """A line was cut at `search.max_source`."""


def cut_line(ids: list[int], most: int, where: str) -> list[int]:
    """The first `most` ids, EOS as the last; a warning names the line if any are left out."""
    if len(ids) <= most:
        return ids
    message = f"{where}: {len(ids):,} pieces, cut to search.max_source = {most}."
    # without a registry: every line is told, and a long stream fills no memory
    warnings.warn_explicit(message, LongLineWarning, "regard", 1, module=__name__, registry=None)
    return [*ids[: most - 1], EOS]


def refuse_line(ids: list[int], most: int, where: str) -> list[int]:
    """The ids, unless they are too many."""
    if len(ids) > most:
        raise LongLine(
            f"{where}: {len(ids):,} pieces are more than search.max_source = {most}: shorten it, or raise the setting."
        )
    return ids


def source_ids(model: TextModel, text: str, settings: SearchSettings) -> list[int]:
    """The piece ids of one source line; more than `search.max_source` raise `LongLine`."""
    return refuse_line(model.source_tokenizer.encode(text), settings.max_source, "the sentence")


def cut_tokens(tokens: tuple[Token, ...], most: int) -> tuple[Token, ...]:
    """The tokens of `cut_line`."""
    return tokens if len(tokens) <= most else (*tokens[: most - 1], tokens[-1])
