"""Runs in the environment of transformers: translates a file with each setting, and prints a line of JSON for each.

python translate_with_huggingface.py MODEL SOURCE OUTPUT BEAM SENTENCES SETTINGS
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, MarianMTModel

MOST_TOKENS = 100


def main(model: str, source: str, output: str, beam: str, sentences: str, settings: str) -> None:
    """SENTENCES 0 is all of them; SETTINGS is a JSON list of objects with `batch`, the sentences together."""
    lines = Path(source).read_text("utf-8").removesuffix("\n").split("\n")[: int(sentences) or None]
    marian: Any = MarianMTModel.from_pretrained(model)
    marian.eval()
    tokenizer = AutoTokenizer.from_pretrained(model)
    if len(lines) > 1:
        translate(marian, tokenizer, lines[:2], int(beam), 2)
    for setting in json.loads(settings):
        started = time.perf_counter()
        texts, tokens = translate(marian, tokenizer, lines, int(beam), setting["batch"])
        seconds = time.perf_counter() - started
        Path(output).write_text("".join(f"{text}\n" for text in texts), "utf-8")
        print(json.dumps({"sentences": len(lines), "seconds": seconds, "tokens": tokens}), flush=True)


@torch.inference_mode()
def translate(marian: Any, tokenizer: Any, lines: list[str], beam: int, batch: int) -> tuple[list[str], int]:
    """From text to text, sentences of similar length together. Texts, and tokens with each </s>."""
    order = sorted(range(len(lines)), key=lambda place: len(lines[place]))
    texts = [""] * len(lines)
    tokens = 0
    for begin in range(0, len(order), batch):
        places = order[begin : begin + batch]
        asked = [lines[place] for place in places]
        inputs = tokenizer(asked, return_tensors="pt", padding=True, return_token_type_ids=False)
        ids = marian.generate(**inputs, num_beams=beam, do_sample=False, max_new_tokens=MOST_TOKENS, max_length=None)
        tokens += int((ids[:, 1:] != marian.config.pad_token_id).sum())  # without the start token
        for place, text in zip(places, tokenizer.batch_decode(ids, skip_special_tokens=True), strict=True):
            texts[place] = text
    return texts, tokens


if __name__ == "__main__":
    main(*sys.argv[1:])
