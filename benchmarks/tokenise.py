"""Tokenises text as the gold alignments of Europarl are: what is trained on must look like what is aligned.

    python benchmarks/tokenise.py LANGUAGE < train.en > train.tok.en

Words are those of sacrebleu's `13a`; quotation marks and dashes become plain ones first, and in English (en) `'s` is a
word of its own.
"""

from __future__ import annotations

import re
import sys

from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

PLAIN = str.maketrans({"’": "'", "‘": "'", "–": "-", "„": '"', "“": '"', "”": '"'})
_OF = re.compile(r"(?<=\w)'s(?= |$)")


def tokenised(line: str, language: str) -> str:
    """The words of a line, separated by one space."""
    words: str = Tokenizer13a()(line.translate(PLAIN))
    return _OF.sub(" 's", words) if language == "en" else words


def main(language: str) -> None:
    """From stdin to stdout, line by line."""
    sys.stdin.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
    for line in sys.stdin:
        print(tokenised(line.removesuffix("\n"), language))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
