"""Print a corpus as tab-separated text: `python -m regard.text.toy phrases --pair en-fr --count 50`."""

import argparse
import sys

from regard.errors import RegardError
from regard.text.toy import SPLITS, TOY_NAMES, toy_corpus
from regard.text.toy.pairs import AlignedPair


def talp(pair: AlignedPair) -> str:
    """The gold links in talp form: `i-j` is sure, `ipj` possible only."""
    sure = set(pair.sure)
    return " ".join(f"{i}-{j}" if (i, j) in sure else f"{i}p{j}" for i, j in pair.possible)


def main(arguments: list[str] | None = None) -> int:
    """Print number, source, target and links of each pair."""
    parser = argparse.ArgumentParser(prog="python -m regard.text.toy", description=__doc__)
    parser.add_argument("name", help="one of " + ", ".join(TOY_NAMES))
    parser.add_argument("--pair", help="en-fr, en-de or en-ko, for phrases")
    parser.add_argument("--split", default="train", help="one of " + ", ".join(SPLITS))
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--min-words", type=int)
    parser.add_argument("--max-words", type=int)
    options = parser.parse_args(arguments)
    try:
        corpus = toy_corpus(options.name, options.pair)
        pairs = corpus.generate(
            options.split,
            options.count,
            options.seed,
            min_words=options.min_words,
            max_words=options.max_words,
        )
        for number, pair in enumerate(pairs, 1):
            print(number, pair.source, pair.target, talp(pair), sep="\t")
    except RegardError as error:
        print(f"regard: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
