"""Translates a file with a model folder and prints sentences, seconds and tokens as JSON, start-up excluded."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from regard.inference.lines import WINDOW
from regard.inference.translator import Translator
from regard.process import tune_process


def main(model: str, source: str, beam: str, batch: str, sentences: str, output: str, *options: str) -> None:
    """`batch` sentences together and the first `sentences` of the file; 0 is as many as Regard likes, or all.

    Options are search settings: `int8`, `engine=ctranslate2`.
    """
    tune_process()
    translator = Translator.load(model)
    if int(batch) != 1:
        translator.use_workers(int(os.environ["OMP_NUM_THREADS"]))  # as `regard translate` does with many lines
    # the peers' bound: 100 tokens
    search: dict[str, Any] = {"beam": int(beam), "max_length_ratio": 1e-6, "max_length_extra": 100}
    for option in options:
        name, _, value = option.partition("=")
        search[name] = value or True
    lines = Path(source).read_text("utf-8").removesuffix("\n").split("\n")[: int(sentences) or None]
    list(translator.translate_lines(lines[:2], search=search))  # the first call pays for torch's own start-up

    started = time.perf_counter()
    order = list(range(len(lines)))
    window = WINDOW
    if int(batch):
        # Sorted by length, so that so many lines in a row are alike; the window then is the batch.
        order.sort(key=lambda place: len(lines[place]))
        window, search["batch_tokens"] = int(batch), 10**6
    translations = translator.translate_lines((lines[place] for place in order), search=search, window=window)
    done = dict(zip(order, translations, strict=True))
    seconds = time.perf_counter() - started

    Path(output).write_text("".join(f"{done[place].text}\n" for place in range(len(lines))), "utf-8")
    tokens = sum(len(done[place].tokens) for place in range(len(lines)))
    print(json.dumps({"sentences": len(lines), "seconds": seconds, "tokens": tokens}))


if __name__ == "__main__":
    main(*sys.argv[1:])
