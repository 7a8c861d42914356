"""Lines of text into translations, a window of lines at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from regard.config.settings import SearchSettings
from regard.decoding.engines.choice import Engines
from regard.decoding.engines.engine import Extras, Sentence
from regard.decoding.text_model import TextModel
from regard.errors import ConfigError, DataError, RegardError
from regard.inference.long_lines import Bound, cut_line
from regard.inference.results import Results
from regard.inference.translation import Translation

WINDOW = 1024
"""Lines read ahead and sorted by length, so that a batch has sentences of similar length."""

Line = tuple[int, str, str]
"""The number of a line in the stream, its text, and the prefix of its translation."""


@dataclass(frozen=True)
class Lines:
    """Translates lines with the engines of one model."""

    model: TextModel
    engines: Engines
    results: Results

    def in_order(
        self,
        lines: Iterable[str],
        prefixes: Iterable[str] | None,
        settings: SearchSettings,
        extras: Extras,
        window: int = WINDOW,
    ) -> Iterator[Translation]:
        """One translation for each line, in order; `window` lines are read at a time.

        If a line or prefix cannot be read, that is raised after the translations of the lines before it.
        """
        errors: list[RegardError] = []
        numbered = _until_error(numbered_lines(lines, prefixes), errors)
        while chunk := list(itertools.islice(numbered, max(1, window))):
            done = dict(self.as_done(chunk, settings, extras))
            yield from (done[number] for number, _, _ in chunk)
        if errors:
            raise errors[0]

    def as_done(
        self, chunk: Iterable[Line], settings: SearchSettings, extras: Extras, bound: Bound = cut_line
    ) -> Iterator[tuple[int, Translation]]:
        """Number and translation of each line as they complete: blank lines first, then batches of similar length.

        `bound` handles lines longer than `search.max_source`.
        """
        real = []
        for line in chunk:
            if line[1].strip():
                real.append(line)
            else:
                yield line[0], self.results.blank(line[1])
        sentences = self._sentences(real, settings.max_source, bound)
        for place, hypotheses in self.engines.search(sentences, settings, extras):
            number, text, _ = real[place]
            yield number, self.results.found(text, hypotheses, settings, extras.intervention)

    def _sentences(self, lines: Sequence[Line], most: int, bound: Bound) -> list[Sentence]:
        sources = self.model.source_tokenizer.encode_many([text for _, text, _ in lines])
        prefix = self.model.target_tokenizer.encode_prefix
        return [
            Sentence(bound(ids, most, f"line {number + 1}"), prefix(given), number)
            for (number, _, given), ids in zip(lines, sources, strict=True)
        ]


def given_lines(text: object) -> Iterable[str]:
    """One line as a list, or several lines; each is checked when it is read."""
    if isinstance(text, str):
        return [text]
    if isinstance(text, bytes) or not isinstance(text, Iterable):
        kind = type(text).__name__
        raise DataError(f"{kind} is not text: give a line, of type str, or a list of lines.")
    return text


def numbered_lines(lines: Iterable[str], prefixes: Iterable[str] | None = None) -> Iterator[Line]:
    """Lines with their numbers and prefixes; both must have the same length."""
    if prefixes is None:
        yield from ((number, _text(line, number), "") for number, line in enumerate(lines))
        return
    missing: Literal[False] = False
    for number, (line, prefix) in enumerate(itertools.zip_longest(lines, prefixes, fillvalue=missing)):
        if line is missing or prefix is missing:
            fewer = "lines" if line is missing else "prefixes"
            raise ConfigError(f'prefix: the {fewer} end before number {number + 1}: give one prefix (or "") a line.')
        yield number, _text(line, number), _text(prefix, number)


def _text(given: object, number: int) -> str:
    if not isinstance(given, str):
        raise DataError(f"line {number + 1}: is of type {type(given).__name__}: give text, of type str.")
    return given


def _until_error(lines: Iterable[Line], errors: list[RegardError]) -> Iterator[Line]:
    """The lines before the first that cannot be read; the error is kept."""
    try:
        yield from lines
    except RegardError as error:
        errors.append(error)
