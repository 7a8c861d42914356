"""Test sets: files, sentences, or an embedded corpus with gold links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from regard.data.lines import read_lines
from regard.data.text.parallel import TabbedFile, read_pairs
from regard.data.text.sources import parse_toy
from regard.errors import ConfigError, DataError
from regard.evaluation.alignment import GoldLinks, check_bounds, read_links

if TYPE_CHECKING:
    from regard.data.toy import ToyCorpus

FilePath = str | PathLike[str]
TestText = FilePath | Sequence[str]
"""A file, or its sentences."""

TOY_SPLIT, TOY_COUNT = "test", 500


@dataclass(frozen=True)
class TestSet:
    """Sources, references (one list for each reference text) and gold links between source and first reference."""

    description: str
    sources: list[str]
    references: list[list[str]]
    gold: list[GoldLinks] | None = None


def given_test_set(
    source: TestText,
    reference: TestText | Sequence[Sequence[str]] | None = None,
    gold: FilePath | Sequence[GoldLinks] | None = None,
    split: str | None = None,
) -> TestSet:
    """The test set that a Python caller names."""
    if isinstance(source, str) and source.startswith("toy:"):
        if reference is not None or gold is not None:
            raise ConfigError(f"{source} has its own references and gold links: remove reference and gold.")
        corpus, count = parse_toy(source)
        return toy_test_set(corpus, split or TOY_SPLIT, count or TOY_COUNT)
    if split is not None:
        raise ConfigError('split: only an embedded corpus has splits, such as "toy:phrases:en-fr": leave it out.')
    if isinstance(source, str | PathLike):
        if reference is not None and not isinstance(reference, str | PathLike):
            raise ConfigError("the source is a file and the reference a list: give two files, or two lists.")
        test = read_test_set(Path(source), [] if reference is None else [Path(reference)])
    else:
        test = TestSet("sentences from Python", list(source), _streams(reference))
    return TestSet(test.description, test.sources, test.references, _gold(gold))


def _streams(reference: TestText | Sequence[Sequence[str]] | None) -> list[list[str]]:
    if reference is None or isinstance(reference, str | PathLike):
        raise ConfigError("the source is a list of sentences: give the reference as a list too.")
    sentences = [each for each in reference if isinstance(each, str)]
    texts = [list(each) for each in reference if not isinstance(each, str)]
    if sentences and texts:
        raise ConfigError("the reference mixes sentences and lists: give one list, or a list of lists.")
    return texts or [sentences]


def _gold(gold: FilePath | Sequence[GoldLinks] | None) -> list[GoldLinks] | None:
    if gold is None:
        return None
    return read_links(Path(gold)) if isinstance(gold, str | PathLike) else list(gold)


def read_test_set(
    source: Path | TabbedFile, references: Sequence[Path], gold: Path | None = None, *, one_based: bool = False
) -> TestSet:
    """The test set of files; without a reference, the source is a TSV with both sides."""
    pairs = list(read_pairs(source, references[0] if references else None))
    sources = [pair.source for pair in pairs]
    streams = [[pair.target for pair in pairs]]
    for path in references[1:]:
        streams.append(list(read_lines(path)))
        check_lines(path, len(streams[-1]), source.name, len(sources))
    found = None
    if gold is not None:
        found = read_links(gold, one_based=one_based)
        check_bounds(found, sources, streams[0], where=str(gold))
    return TestSet(", ".join(path.name for path in (source, *references)), sources, streams, found)


def toy_test_set(corpus: ToyCorpus, split: str, count: int) -> TestSet:
    """`count` sentences of a split of an embedded corpus, with gold links."""
    pairs = list(corpus.generate(split, count))
    return TestSet(
        f"embedded corpus {corpus.name} {corpus.pair}, {split}",
        [pair.source for pair in pairs],
        [[pair.target for pair in pairs]],
        [GoldLinks(frozenset(pair.sure), frozenset(pair.possible) | frozenset(pair.sure)) for pair in pairs],
    )


def check_lines(path: Path, lines: int, other: Path | str, other_lines: int) -> None:
    """Raise if two files have different numbers of lines."""
    if lines != other_lines:
        raise DataError(
            f"{path} has {lines} lines but {other} has {other_lines}: line n of one must belong to line n of the other."
        )
