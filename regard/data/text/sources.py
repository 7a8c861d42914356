"""Open the text that a user names as re-readable sentence pairs, and encode pairs as token ids."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeGuard, TypeVar, Union, cast

import numpy as np

from regard.config.settings import Recipe, TextSettings
from regard.data.text.filters import repeated
from regard.data.text.foreign import read_tokenizer_file
from regard.data.text.hashes import Fingerprint, distinct
from regard.data.text.overlap import overlap_with_fingerprint
from regard.data.text.parallel import Chosen, Pair, TabbedFile, files_of
from regard.data.text.pieces import SAMPLED_LINES
from regard.data.text.texts import Corpus, Text
from regard.data.text.tokenizer import Tokenizer
from regard.data.text.workers import Workers
from regard.errors import ConfigError, DataError
from regard.storage.files import write_bytes

if TYPE_CHECKING:
    from regard.data.toy import ToyCorpus

FilePath = str | PathLike[str]
Given = Union[FilePath, tuple[FilePath, FilePath], TabbedFile, Iterable[tuple[str, str]], "ToyCorpus"]
"""Two aligned files, a TSV file, two columns of one, "toy:NAME[:PAIR[:COUNT]]", a ToyCorpus, or pairs."""

Split = Literal["train", "valid"]
Item = TypeVar("Item")
NO_VALIDATION = "none"  # as --valid: train without validation
HELD_OUT = 0.02  # share of the pairs held out without --valid
LEAST_HELD_OUT, MOST_HELD_OUT = 5, 1000
LEAST_TO_HOLD_OUT_OF = 50
TOY_COUNTS: dict[Split, int] = {"train": 50_000, "valid": 1_000}
TOY_FORM = "write it as toy:NAME, toy:NAME:PAIR or toy:NAME:PAIR:COUNT, such as toy:phrases:en-fr"


@dataclass(frozen=True)
class BackTranslated:
    """A text whose sources a model has translated from its targets: they get a tag (Caswell et al. 2019)."""

    text: Given


@dataclass(frozen=True)
class Mix:
    """Several texts as one.

    With weights, an epoch draws as many pairs as all texts have, in these proportions: each pair of a text equally
    often, the remainder at random, by (seed, epoch). Without weights, an epoch has every pair once.
    """

    texts: Sequence[Given | BackTranslated]
    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        if not self.texts:
            raise ConfigError("a mix of no texts: name at least one.")
        if self.weights is not None and len(self.weights) != len(self.texts):
            raise ConfigError(f"{len(self.weights)} weights for {len(self.texts)} texts: give one for each.")
        if self.weights is not None and not all(0 < weight < math.inf for weight in self.weights):
            raise ConfigError(f"weights {tuple(self.weights)}: each must be a number above 0.")


def open_text(given: Given | BackTranslated | Mix, split: Split) -> Text:
    """The text that a user names; files are opened lazily."""
    if isinstance(given, Mix):
        weights = None if given.weights is None else tuple(map(float, given.weights))
        return Text(tuple(_open_corpus(each, split) for each in given.texts), weights)
    return Text((_open_corpus(given, split),))


def _open_corpus(given: Given | BackTranslated, split: Split) -> Corpus:
    if isinstance(given, BackTranslated):
        corpus = _open_corpus(given.text, split)
        return replace(corpus, description=f"{corpus.description} (back-translated)", back_translated=True)
    if isinstance(given, str) and given.startswith("toy:"):
        return _toy_corpus(*parse_toy(given), split=split)
    if _is_corpus(given):
        return _toy_corpus(given, None, split=split)
    if isinstance(given, (str, PathLike)):
        return Corpus(Path(given).name, files_of(fspath(given)))
    if isinstance(given, TabbedFile):
        return Corpus(given.name, files_of(given))
    if isinstance(given, tuple) and len(given) == 2 and all(isinstance(part, (str, PathLike)) for part in given):
        source, target = (Path(fspath(part)) for part in given)  # type: ignore[arg-type]  # checked above
        return Corpus(f"{source.name}, {target.name}", files_of(source, target))
    if not isinstance(given, Iterable):
        raise DataError(f"{given!r:.80} is no text to train on: give two files, a TSV file, or (source, target) pairs.")
    # An iterator is copied, because it can be read only once; a re-iterable object is not.
    again = list(given) if isinstance(given, Iterator) else cast(Iterable[Any], given)
    return Corpus("pairs from Python", lambda: map(as_pair, again))


def text_of(pairs: list[Pair]) -> Text:
    """A text of pairs in memory."""
    return Text((Corpus("pairs from Python", lambda: pairs),))


def as_pair(item: Any) -> Pair:
    """A sentence pair that a program gives, checked."""
    if isinstance(item, Pair):
        return item
    if isinstance(item, tuple | list) and len(item) == 2 and all(isinstance(side, str) for side in item):
        return Pair(item[0], item[1])
    raise DataError(f"{item!r:.80} is not a sentence pair: give (source, target) tuples of two strings.")


def parse_toy(text: str) -> tuple[ToyCorpus, int | None]:
    """The embedded corpus of "toy:NAME[:PAIR[:COUNT]]", and the count."""
    name, _, rest = text.removeprefix("toy:").partition(":")
    pair, _, count = rest.partition(":")
    if pair.isdecimal() and not count:
        pair, count = "", pair
    if count and (not count.isdecimal() or int(count) < 1):
        raise DataError(f"{text}: {count!r} is not a number of pairs: {TOY_FORM}.")
    from regard.data.toy import toy_corpus

    return toy_corpus(name, pair or None), int(count) if count else None


def _toy_corpus(corpus: ToyCorpus, count: int | None, split: Split) -> Corpus:
    number = count or TOY_COUNTS[split]
    made: list[Pair] = []

    def pairs() -> list[Pair]:
        # Cached: embedded corpora are small, and generating them takes longer than keeping them.
        if not made:
            made.extend(Pair(pair.source, pair.target) for pair in corpus.generate(split, number, seed=0))
        return made

    return Corpus(f"embedded corpus {corpus.name} {corpus.pair}, {split}, {number:,} pairs", pairs)


def trained_on(metrics: Mapping[str, Any]) -> str:
    """The description of the training text; empty if there is none."""
    data = metrics.get("data")
    train = data.get("train") if isinstance(data, dict) else None
    return str(train.get("text", "")) if isinstance(train, dict) else ""


def described_toy(description: str) -> ToyCorpus | None:
    """The embedded corpus that a training's record names, as `_toy_corpus` describes it; None for other text."""
    named = re.fullmatch(r"embedded corpus (\S+) (\S+), .*", description)
    if named is None:
        return None
    from regard.data.toy import TOY_PAIRS, toy_corpus

    name, pair = named.groups()
    return toy_corpus(name, pair) if pair in TOY_PAIRS.get(name, ()) else None


def is_toy(given: Given) -> bool:
    """Whether the text is an embedded corpus, which has its own validation split."""
    return _is_corpus(given) or (isinstance(given, str) and given.startswith("toy:"))


def _is_corpus(given: object) -> TypeGuard[ToyCorpus]:
    return hasattr(given, "generate")


def own_valid(given: Given) -> Given:
    """The same embedded corpus without a count, for the validation split of default size."""
    return parse_toy(given)[0] if isinstance(given, str) else given


# --- encoding -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizers of both languages; the same object twice if joint."""

    source: Tokenizer
    target: Tokenizer


def train_tokenizers(text: Text, recipe: Recipe, say: Callable[[str], None] = lambda line: None) -> Tokenizers:
    """Train the tokenizers of both languages, or read the tokenizer files named in the recipe."""
    settings = recipe.text
    tagged = any(corpus.back_translated for corpus in text.corpora)
    learned = [settings.source_tokenizer is None, settings.target_tokenizer is None]
    sides: tuple[list[str], list[str]] = ([], [])
    if learned[0] or (learned[1] and not settings.joint):
        sides = sample_pairs(text, SAMPLED_LINES // 2 if settings.joint else SAMPLED_LINES, say)
    if settings.joint:
        joint = choose_tokenizer(
            settings.source_tokenizer, chain.from_iterable(zip(*sides, strict=True)), settings, tagged
        )
        return Tokenizers(joint, joint)
    with ThreadPoolExecutor(2) as pool:  # the library releases the GIL
        target = pool.submit(choose_tokenizer, settings.target_tokenizer, sides[1], settings)
        source = choose_tokenizer(settings.source_tokenizer, sides[0], settings, tagged)
        return Tokenizers(source, target.result())


def sample_pairs(text: Text, most: int, say: Callable[[str], None] = lambda line: None) -> tuple[list[str], list[str]]:
    """Both sides of the text, or of an evenly spaced sample of `most` pairs."""
    sides: tuple[list[str], list[str]] = ([], [])
    if text.size > most:
        say(f"the subwords are learned from {most:,} of {text.size:,} pairs, evenly spaced")
    begin = 0
    for piece in text.pieces():
        chosen = np.ones(piece.block.count, np.bool_) if piece.chosen is None else piece.chosen.copy()
        places = np.flatnonzero(chosen)
        numbers = np.arange(begin, begin + len(places) + 1) * most // max(most, text.size)
        chosen[places] = np.diff(numbers) > 0
        begin += len(places)
        for side, lines in zip(sides, piece.block.lines(chosen), strict=True):
            side.extend(lines)
    return sides


def choose_tokenizer(
    given: Path | None, lines: Iterable[str], settings: TextSettings, tagged: bool = False
) -> Tokenizer:
    """Read the tokenizer file, if given, or train a tokenizer on the lines; `tagged` reserves a piece for the tag."""
    return Tokenizer.train(lines, settings, tagged=tagged) if given is None else read_tokenizer_file(given)


def read_valid(text: Text) -> list[Pair]:
    """The validation pairs without blank ones, which cannot be scored."""
    pairs = [pair for pair in text.pairs() if pair.source.strip() and pair.target.strip()]
    if not pairs:
        raise DataError(f"{text.description}: holds no validation pairs: give text, or leave --valid out.")
    return pairs


@dataclass(frozen=True)
class Scan:
    """What one pass over the training text finds, which also checks all of it before anything is written."""

    hashes: Fingerprint  # of the distinct sources
    words: Fingerprint  # of the distinct source words
    duplicate: Chosen | None  # (pairs,) those that occurred before; None if not asked for


def scan_text(
    text: Text, workers: Workers, *, duplicates: bool, on_progress: Callable[[int], None] = lambda read: None
) -> Scan:
    """Check and hash the text."""
    sources, pairs, words, read = [], [], [], 0
    for piece, (of_sources, of_pairs, of_words) in workers.hash(text.pieces(), pairs=duplicates):
        sources.append(of_sources)
        pairs.append(of_pairs)
        words.append(of_words)
        read += piece.size
        on_progress(read)
    if not any(map(len, sources)):
        raise DataError(f"{text.description}: holds no sentences to train on: give text with words in it.")
    duplicate = repeated(np.concatenate(pairs)) if duplicates else None
    return Scan(distinct(sources), distinct(words), duplicate)


def overlap_warning(valid: list[Pair], hashes: Fingerprint) -> str | None:
    """A warning if validation sentences occur in the training text."""
    report = overlap_with_fingerprint([pair.source for pair in valid], hashes)
    if not report.in_training:
        return None
    return (
        f"{report.in_training:,} of {report.test_sentences:,} validation sentences occur in the training text, "
        "so validation scores are optimistic for new text."
    )


def spread(items: list[Item], count: int) -> list[Item]:
    """At most `count` items, evenly spaced."""
    if len(items) <= count:
        return items
    return [items[index * len(items) // count] for index in range(count)]


def hold_out(text: Text) -> tuple[Text, Text, str] | None:
    """Training text, validation text (every n-th pair) and a message; None if there are too few pairs."""
    pairs = sum(corpus.size for corpus in text.corpora if not corpus.back_translated)
    if pairs < LEAST_TO_HOLD_OUT_OF:
        return None
    every = pairs // max(LEAST_HELD_OUT, min(MOST_HELD_OUT, round(pairs * HELD_OUT)))
    train, valid = replace(text, every=every), replace(text, every=every, held=True)
    said = (
        f"{valid.size:,} of the {pairs:,} pairs are held out for validation, because --valid was not given "
        "(--valid none: train on all pairs, without validation)."
    )
    return train, valid, said


def save_pairs(path: Path, pairs: list[Pair]) -> None:
    """Write pairs as JSON lines, which can hold any sentence."""
    lines = (json.dumps([pair.source, pair.target], ensure_ascii=True) for pair in pairs)
    write_bytes(path, "".join(f"{line}\n" for line in lines).encode())


def load_pairs(path: Path) -> list[Pair]:
    """Read the pairs that `save_pairs` wrote."""
    try:
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        return [Pair(source, target) for source, target in rows]
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read ({error}): start a new training.") from None


def check_valid_is_there(recipe: Recipe, valid: object) -> None:
    """Raise if a setting needs a validation set and there is none."""
    training = recipe.training
    needs = {
        'training.schedule = "plateau"': training.schedule == "plateau",
        'training.average = "best"': training.average == "best",
        "training.patience": training.patience is not None,
    }
    for name, needed in needs.items():
        if needed and valid is None:
            raise ConfigError(f"{name} needs a validation set: give one with --valid, or change the setting.")
