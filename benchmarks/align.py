"""How good the word links are that guided attention learns from: their alignment error rate on gold links.

    python benchmarks/align.py --train train.tok.de train.tok.en --test test.de test.en --gold test.talp

The test pairs are aligned together with the training text, as aligners are usually measured. Text is cut into as many
pieces of each language as a recipe would (--pieces); a link between words is one between any pieces of them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from regard.config import TextSettings
from regard.contract import NOWHERE
from regard.evaluation.alignment import Links, aer, check_bounds, read_links
from regard.text.aligner import align
from regard.text.corpus import EncodedCorpus, read_pairs
from regard.text.tokenizer import Tokenizer


def main(arguments: list[str]) -> None:
    """Align, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, nargs=2, required=True, help="two files of sentence pairs")
    parser.add_argument("--test", type=Path, nargs=2, required=True, help="two files of pairs whose links are known")
    parser.add_argument("--gold", type=Path, required=True, help="their links: i-j sure, ipj possible, from 0")
    parser.add_argument("--pieces", type=int, default=8000, help="of each language (8000)")
    options = parser.parse_args(arguments)
    test = list(read_pairs(*options.test))
    pairs = [*test, *read_pairs(*options.train)]
    gold = read_links(options.gold)
    check_bounds(gold, [pair.source for pair in test], [pair.target for pair in test], where=str(options.gold))
    settings = TextSettings(vocabulary_size=options.pieces)
    source = Tokenizer.train((pair.source for pair in pairs), settings)
    target = Tokenizer.train((pair.target for pair in pairs), settings)
    with tempfile.TemporaryDirectory() as folder:
        corpus = EncodedCorpus.build(pairs, source, target, Path(folder) / "corpus", max_length=10_000)
        guide = align(corpus, source.size, target.size)
        offsets = corpus.target.offsets[: len(test) + 1]
        found: list[Links] = []
        for pair, begin, end in zip(test, offsets[:-1], offsets[1:], strict=True):
            sources, targets = source.tokens(pair.source), target.tokens(pair.target)
            places = enumerate(guide[begin:end].tolist())
            words = {(sources[i].word, targets[j].word) for j, i in places if i != NOWHERE}
            found.append(frozenset((i, j) for i, j in words if i is not None and j is not None))
    score = aer(found, [links.sure for links in gold], [links.possible for links in gold])
    print(f"AER {score.aer:.3f}  precision {score.precision:.3f}  recall {score.recall:.3f}  links {score.links:,}")


if __name__ == "__main__":
    main(sys.argv[1:])
