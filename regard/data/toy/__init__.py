"""Embedded corpora with gold word alignments; they need no file and no network."""

from regard.data.toy.dates import DateCorpus
from regard.data.toy.pairs import SPLITS, AlignedPair, ToyCorpus
from regard.data.toy.phrases import PAIRS, PhraseCorpus
from regard.data.toy.sequences import SequenceCorpus
from regard.errors import DataError, did_you_mean

__all__ = ["SPLITS", "TOY_NAMES", "TOY_PAIRS", "AlignedPair", "ToyCorpus", "toy_corpus"]

TOY_NAMES: dict[str, str] = {
    "copy": "syllables, repeated in the same order",
    "reverse": "syllables, repeated in reverse order",
    "sort": "syllables, repeated in alphabetical order",
    "dates": "written English dates, translated to ISO 8601",
    "phrases": "natural English from a synchronous grammar, with its French, German or Korean translation",
}

# The pairs of each corpus; the first is the default.
TOY_PAIRS: dict[str, tuple[str, ...]] = {
    "copy": ("syllables",),
    "reverse": ("syllables",),
    "sort": ("syllables",),
    "dates": ("en-iso",),
    "phrases": PAIRS,
}


def toy_corpus(name: str, pair: str | None = None) -> ToyCorpus:
    """The embedded corpus with this name and language pair."""
    if name not in TOY_NAMES:
        raise DataError(f"corpus {name!r}: there is no such embedded corpus; {did_you_mean(name, TOY_NAMES)}")
    pairs = TOY_PAIRS[name]
    if pair is not None and pair not in pairs:
        raise DataError(f"pair {pair!r}: the corpus {name!r} has no such pair; {did_you_mean(pair, pairs)}")
    if name == "phrases":
        return PhraseCorpus(pair or pairs[0])
    if name == "dates":
        return DateCorpus()
    return SequenceCorpus(name)
