"""Print a corpus as tab-separated text: `python -m regard.data.toy phrases --pair en-fr --count 50`."""

import argparse
import sys
from collections.abc import Iterable

from regard.data.toy import SPLITS, TOY_NAMES, toy_corpus
from regard.data.toy.pairs import AlignedPair
from regard.data.toy.phrases import productions
from regard.errors import RegardError

# Pairs generated for each pair shown, to find one for every production.
COVER_FACTOR = 40


def talp(pair: AlignedPair) -> str:
    """The gold links in talp form: `i-j` is sure, `ipj` possible only."""
    sure = set(pair.sure)
    return " ".join(f"{i}-{j}" if (i, j) in sure else f"{i}p{j}" for i, j in pair.possible)


def covering(pairs: Iterable[AlignedPair], count: int) -> list[AlignedPair]:
    """The first pairs, some left out so that `count` of them show every production of the grammar."""
    seen: set[str] = set()
    chosen: list[AlignedPair] = []
    others: list[AlignedPair] = []
    for pair in dict.fromkeys(pairs):
        new = productions(pair) - seen
        (chosen if new else others).append(pair)
        seen |= new
    return (chosen + others)[:count]


def main(arguments: list[str] | None = None) -> int:
    """Print number, source, target and links of each pair."""
    parser = argparse.ArgumentParser(prog="python -m regard.data.toy", description=__doc__)
    parser.add_argument("name", help="one of " + ", ".join(TOY_NAMES))
    parser.add_argument("--pair", help="en-fr, en-de or en-ko, for phrases")
    parser.add_argument("--split", default="train", help="one of " + ", ".join(SPLITS))
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cover", action="store_true", help="choose pairs that show every production")
    parser.add_argument("--min-words", type=int)
    parser.add_argument("--max-words", type=int)
    options = parser.parse_args(arguments)
    try:
        corpus = toy_corpus(options.name, options.pair)
        pairs = corpus.generate(
            options.split,
            options.count * (COVER_FACTOR if options.cover else 1),
            options.seed,
            min_words=options.min_words,
            max_words=options.max_words,
        )
        shown = covering(pairs, options.count) if options.cover else pairs
        for number, pair in enumerate(shown, 1):
            print(number, pair.source, pair.target, talp(pair), sep="\t")
    except RegardError as error:
        print(f"regard: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
