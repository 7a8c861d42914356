"""Word alignments: reading, scoring, and extraction from attention.

A link (i, j) joins source word i and target word j, both counted from 0; words are white-space tokens.
Alignment error rate as in Och and Ney (2003), with S the sure links, P ⊇ S the possible ones, A the system's:

    AER = 1 − (|A∩S| + |A∩P|) / (|A| + |S|)      precision = |A∩P| / |A|      recall = |A∩S| / |S|
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.data.lines import read_lines
from regard.errors import ConfigError, DataError, did_you_mean

Links = frozenset[tuple[int, int]]
Weights = npt.NDArray[np.floating[Any]]

_LINK = re.compile(r"([0-9]{1,9})([-p])([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class GoldLinks:
    """The gold links of one sentence pair; `possible` contains `sure`."""

    sure: Links
    possible: Links


@dataclass(frozen=True, slots=True)
class AlignmentScore:
    """Corpus-level scores between 0 and 1, and the number of scored links."""

    aer: float
    precision: float
    recall: float
    links: int

    def to_dict(self) -> dict[str, float | int]:
        """Plain values for metrics.json."""
        return asdict(self)


def parse_links(line: str, *, one_based: bool = False, where: str = "alignment") -> GoldLinks:
    """Read one line of `i-j` (sure) and `ipj` (possible only) links; `where` opens the error message."""
    sure, possible = set(), set()
    first = 1 if one_based else 0
    for token in line.split():
        match = _LINK.fullmatch(token)
        if match is None:
            raise DataError(
                f"{where}: {token[:40]!r} is not a link: write i-j (or ipj for a possible link), "
                "with i the source word and j the target word."
            )
        i, j = int(match[1]) - first, int(match[3]) - first
        if i < 0 or j < 0:
            raise DataError(f"{where}: {token!r} in a file declared to count from 1: read it as counting from 0.")
        possible.add((i, j))
        if match[2] == "-":
            sure.add((i, j))
    return GoldLinks(frozenset(sure), frozenset(possible))


def read_links(path: str | Path, *, one_based: bool = False) -> list[GoldLinks]:
    """Read a file of links, one sentence per line, in Pharaoh or talp form, plain or gzip.

    In a Pharaoh file every link is sure, so `sure` and `possible` are equal.
    """
    path = Path(path)
    return [
        parse_links(line, one_based=one_based, where=f"{path}, line {number}")
        for number, line in enumerate(read_lines(path), start=1)
    ]


def format_links(links: Links) -> str:
    """Pharaoh form, sorted: `0-0 1-2`."""
    return " ".join(f"{i}-{j}" for i, j in sorted(links))


def check_bounds(
    gold: Sequence[GoldLinks], sources: Sequence[str], targets: Sequence[str], *, where: str = "alignments"
) -> None:
    """Raise unless there is one line of links per sentence pair and each link is within its sentences."""
    if not len(gold) == len(sources) == len(targets):
        raise DataError(
            f"{where}: {len(gold)} lines of links for {len(sources)} source and {len(targets)} target "
            "sentences: each pair needs one line, empty if it has no link."
        )
    for number, (pair, source, target) in enumerate(zip(gold, sources, targets, strict=True), start=1):
        source_length, target_length = len(source.split()), len(target.split())
        for i, j in sorted(pair.possible):
            if i >= source_length or j >= target_length:
                raise DataError(
                    f"{where}, line {number}: link {i}-{j} (counted from 0) lies outside sentences of "
                    f"{source_length} and {target_length} words: check which side comes first, whether the "
                    "file counts from 1, and that the text is tokenised as the links were."
                )


def aer(hypothesis: Sequence[Links], sure: Sequence[Links], possible: Sequence[Links]) -> AlignmentScore:
    """Corpus-level alignment error rate, precision and recall.

    Sure links always count as possible. Without gold and system links AER is 0; with gold links and no system link,
    precision and recall are 0.
    """
    if not len(hypothesis) == len(sure) == len(possible):
        raise DataError(
            f"links of {len(hypothesis)} sentences against {len(sure)} sure and {len(possible)} possible "
            "ones: each sentence needs one line in each."
        )
    if not hypothesis:
        raise DataError("there are no sentences to score: give at least one.")
    found = in_sure = in_possible = all_sure = 0
    for a, s, p in zip(hypothesis, sure, possible, strict=True):
        found += len(a)
        in_sure += len(a & s)
        in_possible += len(a & (s | p))
        all_sure += len(s)
    if found + all_sure == 0:
        return AlignmentScore(aer=0.0, precision=1.0, recall=1.0, links=0)
    return AlignmentScore(
        aer=1 - (in_sure + in_possible) / (found + all_sure),
        precision=in_possible / found if found else 0.0,
        recall=in_sure / all_sure if all_sure else 1.0,
        links=found,
    )


def word_attention(
    weights: Weights,
    source_words: Sequence[int | None],
    target_words: Sequence[int | None],
    *,
    source_length: int | None = None,
    target_length: int | None = None,
) -> npt.NDArray[np.float64]:
    """Word-level attention (W_t, W_s) from piece-level attention (T, S).

    `source_words` and `target_words` give the word of each piece, None for special pieces such as EOS. Weights are
    summed over the pieces of a source word and averaged over those of a target word. The lengths, in words, are needed
    only if the last words have no piece.
    """
    if weights.shape != (len(target_words), len(source_words)):
        raise DataError(
            f"attention of shape {weights.shape} does not fit {len(target_words)} target and "
            f"{len(source_words)} source subwords: give one row per target and one column per source subword."
        )
    by_source = _membership(source_words, source_length)  # (W_s, S)
    by_target = _membership(target_words, target_length)  # (W_t, T)
    pieces = by_target.sum(axis=1, keepdims=True)
    by_target = np.divide(by_target, pieces, out=np.zeros_like(by_target), where=pieces > 0)
    summed = weights.astype(np.float64) @ by_source.T  # (T, W_s)
    return np.asarray(by_target @ summed, dtype=np.float64)  # (W_t, W_s)


def _membership(words: Sequence[int | None], length: int | None) -> npt.NDArray[np.float64]:
    """1 if piece (column) belongs to word (row), else 0."""
    needed = max((word + 1 for word in words if word is not None), default=0)
    if length is not None and length < needed:
        raise DataError(f"a piece belongs to word {needed - 1}, but the sentence has only {length} words.")
    member = np.zeros((needed if length is None else length, len(words)))
    for piece, word in enumerate(words):
        if word is not None:
            member[word, piece] = 1.0
    return member


LINK_METHODS = ("argmax", "threshold", "intersection")


def links(word_weights: Weights, method: str = "argmax", threshold: float = 0.5) -> Links:
    """Links (source word, target word) from word attention (W_t, W_s).

    argmax: each target word with its most attended source word (the first in a tie), unless its row is 0;
    threshold: every pair with a weight of at least `threshold`; intersection: argmax of both row and column.
    """
    if method not in LINK_METHODS:
        raise ConfigError(f"link method {method!r} is unknown: {did_you_mean(method, LINK_METHODS)}")
    if not np.isfinite(word_weights).all():
        raise DataError("the attention contains NaN: no links can be extracted from it.")
    if word_weights.size == 0:
        return frozenset()
    if method == "threshold":
        chosen = (word_weights >= threshold) & (word_weights > 0)
    else:
        chosen = np.zeros(word_weights.shape, dtype=bool)
        chosen[np.arange(word_weights.shape[0]), word_weights.argmax(axis=1)] = True
        chosen &= word_weights > 0
    if method == "intersection":
        by_column = np.zeros_like(chosen)
        by_column[word_weights.argmax(axis=0), np.arange(word_weights.shape[1])] = True
        chosen &= by_column
    return frozenset((int(i), int(j)) for j, i in zip(*np.nonzero(chosen), strict=True))


@dataclass(frozen=True, slots=True)
class Readings:
    """The links of one sentence pair, extracted from the same attention in two ways."""

    this_step: Links
    shifted: Links


def alignment_readings(
    weights: Weights,
    source_words: Sequence[int | None],
    target_words: Sequence[int | None],
    *,
    source_length: int | None = None,
    target_length: int | None = None,
    method: str = "argmax",
    threshold: float = 0.5,
) -> Readings:
    """Both readings of attention (T, S): row t for target piece t, and row t+1 for target piece t.

    Row t is the attention of the step that predicts piece t (this_step). The shifted reading uses the step that reads
    the piece as input; the last piece has no such step and is omitted.
    """
    if target_length is None:  # dropping the last piece must not drop its word
        target_length = max((word + 1 for word in target_words if word is not None), default=0)
    this_step = word_attention(
        weights, source_words, target_words, source_length=source_length, target_length=target_length
    )
    shifted = word_attention(
        weights[1:], source_words, target_words[:-1], source_length=source_length, target_length=target_length
    )
    return Readings(links(this_step, method, threshold), links(shifted, method, threshold))


SYMMETRISATIONS = ("intersection", "union", "grow-diag-final")


def symmetrise(forward: Links, backward: Links, method: str = "grow-diag-final") -> Links:
    """Merge the links of two directions, both given as (source, target).

    grow-diag-final (Koehn et al. 2003): start from the intersection and repeatedly add neighbouring links of the union
    whose source or target word is unaligned. Then add the remaining links of forward, then backward, whose source or
    target word is still unaligned.
    """
    if method not in SYMMETRISATIONS:
        raise ConfigError(f"symmetrisation {method!r} is unknown: {did_you_mean(method, SYMMETRISATIONS)}")
    if method == "intersection":
        return forward & backward
    if method == "union":
        return forward | backward
    merged = set(forward & backward)
    sources, targets = {i for i, _ in merged}, {j for _, j in merged}

    def add_if_free(link: tuple[int, int]) -> bool:
        i, j = link
        if link in merged or (i in sources and j in targets):
            return False
        merged.add(link)
        sources.add(i)
        targets.add(j)
        return True

    union = forward | backward
    grew = True
    while grew:
        grew = False
        for i, j in sorted(merged):
            for step_i, step_j in _NEIGHBOURS:
                neighbour = (i + step_i, j + step_j)
                if neighbour in union and add_if_free(neighbour):
                    grew = True
    for direction in (forward, backward):
        for link in sorted(direction):
            add_if_free(link)
    return frozenset(merged)


_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))
