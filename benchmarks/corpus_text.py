"""Write synthetic parallel text of any size, quickly: `python -m benchmarks.corpus_text 1000000 OUT`.

Each pair joins two sentences of the embedded grammar (`toy:phrases`) and opens with an invented name, the same on both
sides. Names are drawn by Zipf's law from a million, so the number of distinct words grows with the text, as in real
corpora. Pairs have about 25 words. The same count and seed give the same files.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from regard.data.toy import toy_corpus

SENTENCES = 20_000  # of the grammar; two of them make a pair
WORDS = (9, 15)
NAMES = 1_000_000
SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
BLOCK = 100_000


def name(number: int) -> str:
    """An invented name; every number has its own."""
    parts = []
    while number or not parts:
        number, part = divmod(number, len(SYLLABLES))
        parts.append(SYLLABLES[part])
    return "".join(parts).capitalize()


def blocks(count: int, pair: str = "en-de", seed: int = 0) -> Iterator[tuple[str, str]]:
    """The lines of both sides, in blocks."""
    corpus = toy_corpus("phrases", pair)
    made = list(corpus.generate("train", SENTENCES, seed=seed, min_words=WORDS[0], max_words=WORDS[1]))
    sides = [each.source for each in made], [each.target for each in made]
    names = [name(number) for number in range(NAMES)]
    random = np.random.Generator(np.random.PCG64(seed))
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        first, second = random.integers(SENTENCES, size=(2, size)).tolist()
        who = ((random.zipf(1.1, size) - 1) % NAMES).tolist()
        lines = (
            "".join(f"{names[n]} : {side[a]} {side[b]}\n" for n, a, b in zip(who, first, second, strict=True))
            for side in sides
        )
        yield next(lines), next(lines)


def write_corpus(count: int, out: Path, pair: str = "en-de", seed: int = 0) -> tuple[Path, Path]:
    """Write OUT.en and OUT.de, or the languages of another pair."""
    source, target = (out.with_name(f"{out.name}.{language}") for language in pair.split("-"))
    with source.open("w", encoding="utf-8") as left, target.open("w", encoding="utf-8") as right:
        for here, there in blocks(count, pair, seed):
            left.write(here)
            right.write(there)
    return source, target


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("count", type=int, help="sentence pairs")
    parser.add_argument("out", type=Path, help="path without a suffix: OUT.en and OUT.de are written")
    parser.add_argument("--pair", default="en-de", help="en-fr, en-de or en-ko")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for path in write_corpus(given.count, given.out, given.pair, given.seed):
        print(path)


if __name__ == "__main__":
    main()
