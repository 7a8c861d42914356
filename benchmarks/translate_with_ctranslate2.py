"""Runs in CTranslate2's environment: translates a file with each setting, and prints a line of JSON for each.

python translate_with_ctranslate2.py MODEL SOURCE OUTPUT BEAM SENTENCES SETTINGS
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import ctranslate2
from tokenizers import Tokenizer

MOST_TOKENS = 100


def main(model: str, source: str, output: str, beam: str, sentences: str, settings: str) -> None:
    """SENTENCES 0 is all of them; SETTINGS is a JSON list of objects, see `translate`."""
    lines = Path(source).read_text("utf-8").removesuffix("\n").split("\n")[: int(sentences) or None]
    tokenizer = Tokenizer.from_file(str(Path(model) / "tokenizer.json"))
    numbers = tokenizer.get_vocab()
    for setting in json.loads(settings):
        translator = ctranslate2.Translator(
            model,
            compute_type=setting["compute_type"],
            inter_threads=setting["inter_threads"],
            intra_threads=setting["intra_threads"],
        )
        if len(lines) > 1:
            translate(translator, tokenizer, numbers, lines[:2], int(beam), setting)
        started = time.perf_counter()
        texts, tokens = translate(translator, tokenizer, numbers, lines, int(beam), setting)
        seconds = time.perf_counter() - started
        Path(output).write_text("".join(f"{text}\n" for text in texts), "utf-8")
        print(json.dumps({"sentences": len(lines), "seconds": seconds, "tokens": tokens}), flush=True)


def translate(
    translator: Any,
    tokenizer: Tokenizer,
    numbers: dict[str, int],
    lines: list[str],
    beam: int,
    setting: dict[str, Any],
) -> tuple[list[str], int]:
    """From text to text; CTranslate2 sorts by length and cuts into batches itself. Texts, and tokens with each </s>."""
    batch = setting["batch"]
    pieces = [[*encoding.tokens, "</s>"] for encoding in tokenizer.encode_batch(lines, add_special_tokens=False)]
    groups = [[sentence] for sentence in pieces] if batch == 1 else [pieces]
    results = [
        result
        for group in groups
        for result in translator.translate_batch(
            group,
            beam_size=beam,
            max_batch_size=batch,
            max_decoding_length=MOST_TOKENS,
            use_vmap=setting.get("use_vmap", False),
        )
    ]
    hypotheses = [result.hypotheses[0] for result in results]
    ids = [[numbers[piece] for piece in hypothesis] for hypothesis in hypotheses]
    return tokenizer.decode_batch(ids), sum(len(hypothesis) + 1 for hypothesis in hypotheses)


if __name__ == "__main__":
    main(*sys.argv[1:])
