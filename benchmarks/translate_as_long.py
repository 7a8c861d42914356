"""Translates a file with translations as long as their sources, and prints the seconds, start-up excluded."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from regard.inference.translator import Translator
from regard.process import tune_process


def main(model: str, source: str) -> None:
    """Greedy search; an untrained model ends its sentences anywhere, so the length is forced."""
    tune_process()
    translator = Translator.load(model)
    search = {"beam": 1, "min_length_ratio": 1.0, "max_length_ratio": 1.0, "max_length_extra": 1}
    lines = Path(source).read_text("utf-8").splitlines()
    list(translator.translate_lines(lines[:2], search=search))  # the first call pays for start-up
    started = time.perf_counter()
    list(translator.translate_lines(lines, search=search))
    print(time.perf_counter() - started)


if __name__ == "__main__":
    main(*sys.argv[1:])
