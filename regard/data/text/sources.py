"""Open the text that a user names as re-readable sentence pairs, and encode pairs as token ids."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeGuard, TypeVar, Union, cast

from regard.config.settings import Recipe, TextSettings
from regard.data.text.corpus import EncodedCorpus, Pair, TabbedFile, read_pairs
from regard.data.text.foreign import read_tokenizer_file
from regard.data.text.overlap import Fingerprint, fingerprint, overlap_with_fingerprint
from regard.data.text.seen_words import WordCollector
from regard.data.text.tokenizer import Tokenizer
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
class Text:
    """Sentence pairs that can be iterated repeatedly."""

    description: str
    pairs: Callable[[], Iterable[Pair]]


def open_text(given: Given, split: Split) -> Text:
    """The text that a user names; files are opened lazily."""
    if isinstance(given, str) and given.startswith("toy:"):
        return _toy_text(*parse_toy(given), split=split)
    if _is_corpus(given):
        return _toy_text(given, None, split=split)
    if isinstance(given, (str, PathLike)):
        path = Path(given)
        return Text(path.name, lambda: read_pairs(path, None))
    if isinstance(given, TabbedFile):
        return Text(given.name, lambda: read_pairs(given))
    if isinstance(given, tuple) and len(given) == 2 and all(isinstance(part, (str, PathLike)) for part in given):
        source, target = (Path(fspath(part)) for part in given)  # type: ignore[arg-type]  # checked above
        return Text(f"{source.name}, {target.name}", lambda: read_pairs(source, target))
    # An iterator is copied, because it can be read only once; a re-iterable object is not.
    again = list(given) if isinstance(given, Iterator) else cast(Iterable[Any], given)
    return Text("pairs from Python", lambda: map(_as_pair, again))


def _as_pair(item: Any) -> Pair:
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


def _toy_text(corpus: ToyCorpus, count: int | None, split: Split) -> Text:
    number = count or TOY_COUNTS[split]
    made: list[Pair] = []

    def pairs() -> list[Pair]:
        # Cached: embedded corpora are small, and generating them takes longer than keeping them.
        if not made:
            made.extend(Pair(pair.source, pair.target) for pair in corpus.generate(split, number, seed=0))
        return made

    return Text(f"embedded corpus {corpus.name} {corpus.pair}, {split}, {number:,} pairs", pairs)


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


def train_tokenizers(text: Text, recipe: Recipe) -> Tokenizers:
    """Train the tokenizers of both languages, or read the tokenizer files named in the recipe."""
    settings = recipe.text
    if settings.joint:
        both = chain.from_iterable((pair.source, pair.target) for pair in text.pairs())
        joint = choose_tokenizer(settings.source_tokenizer, both, settings)
        return Tokenizers(joint, joint)
    source = choose_tokenizer(settings.source_tokenizer, (pair.source for pair in text.pairs()), settings)
    target = choose_tokenizer(settings.target_tokenizer, (pair.target for pair in text.pairs()), settings)
    return Tokenizers(source, target)


def choose_tokenizer(given: Path | None, lines: Iterable[str], settings: TextSettings) -> Tokenizer:
    """Read the tokenizer file, if given, or train a tokenizer on the lines."""
    return Tokenizer.train(lines, settings) if given is None else read_tokenizer_file(given)


def read_valid(text: Text) -> list[Pair]:
    """The validation pairs without blank ones, which cannot be scored."""
    pairs = [pair for pair in text.pairs() if pair.source.strip() and pair.target.strip()]
    if not pairs:
        raise DataError(f"{text.description}: holds no validation pairs: give text, or leave --valid out.")
    return pairs


def training_fingerprints(text: Text) -> tuple[Fingerprint, Fingerprint]:
    """Hashes of the training sources and of their words; the pass also validates the text before any writing."""
    words = WordCollector()
    hashes = fingerprint(words.reading(pair.source for pair in text.pairs()))
    if not len(hashes):
        raise DataError(f"{text.description}: holds no sentences to train on: give text with words in it.")
    return hashes, words.hashes


def overlap_warning(valid: list[Pair], hashes: Fingerprint) -> str | None:
    """A warning if validation sentences occur in the training text."""
    report = overlap_with_fingerprint([pair.source for pair in valid], hashes)
    if not report.in_training:
        return None
    return (
        f"{report.in_training:,} of {report.test_sentences:,} validation sentences occur in the training text, "
        "so validation scores are optimistic for new text."
    )


def encode(
    pairs: Iterable[Pair],
    tokenizers: Tokenizers,
    folder: Path,
    max_length: int,
    on_progress: Callable[[int], None],
) -> EncodedCorpus:
    """Write the token ids of the pairs into a folder and memory-map it."""
    return EncodedCorpus.build(pairs, tokenizers.source, tokenizers.target, folder, max_length, on_progress)


def spread(items: list[Item], count: int) -> list[Item]:
    """At most `count` items, evenly spaced."""
    if len(items) <= count:
        return items
    return [items[index * len(items) // count] for index in range(count)]


def hold_out(text: Text) -> tuple[Text, Text, str] | None:
    """Training text, validation text (every n-th pair) and a message; None if there are too few pairs."""
    pairs = sum(1 for _ in text.pairs())
    if pairs < LEAST_TO_HOLD_OUT_OF:
        return None
    every = pairs // max(LEAST_HELD_OUT, min(MOST_HELD_OUT, round(pairs * HELD_OUT)))
    held = len(range(every - 1, pairs, every))

    def chosen(valid: bool) -> Callable[[], Iterable[Pair]]:
        return lambda: (pair for number, pair in enumerate(text.pairs(), 1) if (number % every == 0) == valid)

    said = (
        f"{held:,} of the {pairs:,} pairs are held out for validation, because --valid was not given "
        "(--valid none: train on all pairs, without validation)."
    )
    return (
        Text(f"{text.description} without 1 pair in {every}", chosen(False)),
        Text(f"1 pair in {every} of {text.description}", chosen(True)),
        said,
    )


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
