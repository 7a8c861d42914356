"""Runs in the environment of transformers: the training loop that its users write, until it is stopped.

With `seconds` in CONFIG the learning rate falls to zero in that time, and the `test` pieces are then translated.

python train_with_huggingface.py CONFIG

Batches of similar length, fused Adam, label smoothing, clipping; `precision` may be "bfloat16" (autocast).
Prints real target tokens per second.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from transformers import MarianConfig, MarianMTModel

SPECIAL = 4  # <pad> <unk> <s> </s>
PAD, BOS, EOS = 0, 2, 3
IGNORED = -100
TOGETHER = 64  # sentences that are translated at once

Pair = tuple[list[int], list[int]]


def main(path: str) -> None:
    """Train and print."""
    config = json.loads(Path(path).read_text("utf-8"))
    torch.manual_seed(1)
    pieces = Path(config["pieces"]).read_text("utf-8").split("\n")[:-1]
    numbers = {piece: number for number, piece in enumerate(pieces, SPECIAL)}
    sides = [
        [[numbers[piece] for piece in line.split(" ") if piece] + [EOS] for line in lines]
        for lines in (Path(config[side]).read_text("utf-8").split("\n")[:-1] for side in ("source", "target"))
    ]
    pairs: list[Pair] = list(zip(*sides, strict=True))
    model = MarianMTModel(MarianConfig(**config["model"])).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=config["learning_rate"], betas=(0.9, 0.98), fused=True)
    tokens, started = 0, time.perf_counter()
    begun, seconds = started, config.get("seconds")
    for update, batch in enumerate(batches(pairs, config["batch_tokens"], config["batch_sentences"]), 1):
        left = 1.0 if seconds is None else 1 - (time.perf_counter() - begun) / seconds
        if left <= 0:
            break
        for group in optimizer.param_groups:
            group["lr"] = config["learning_rate"] * left * min(1.0, update / config.get("warmup", 1))
        with torch.autocast("cpu", torch.bfloat16, enabled=config.get("precision") == "bfloat16"):
            tokens += step(model, optimizer, batch, config["label_smoothing"])
        if update % config["log_every"] == 0:
            print(f"update {update}: {tokens / (time.perf_counter() - started):.1f} tok/s", flush=True)
            tokens, started = 0, time.perf_counter()
    trained = time.perf_counter() - begun
    lines = Path(config["test"]).read_text("utf-8").split("\n")[:-1]
    sentences = [[numbers[piece] for piece in line.split(" ") if piece] + [EOS] for line in lines]
    names = ["<pad>", "<unk>", "<s>", "</s>", *pieces]
    translated = [" ".join(names[number] for number in ids) for ids in translate(model.eval(), sentences)]
    Path(config["output"]).write_text("".join(f"{line}\n" for line in translated), "utf-8")
    print(json.dumps({"seconds": trained, "updates": update - 1}), flush=True)


@torch.inference_mode()
def translate(model: Any, sentences: list[list[int]]) -> list[list[int]]:
    """Beam 5, sentences of similar length together."""
    order = sorted(range(len(sentences)), key=lambda place: len(sentences[place]))
    found: list[list[int]] = [[] for _ in sentences]
    for begin in range(0, len(order), TOGETHER):
        places = order[begin : begin + TOGETHER]
        source = padded([sentences[place] for place in places], PAD)
        rows = model.generate(input_ids=source, attention_mask=source != PAD, num_beams=5, max_new_tokens=100)
        for place, row in zip(places, rows.tolist(), strict=True):
            found[place] = [number for number in row if number >= SPECIAL]
    return found


def step(model: Any, optimizer: torch.optim.Optimizer, pairs: list[Pair], label_smoothing: float) -> int:
    """One update; its real target tokens."""
    source = padded([pair[0] for pair in pairs], PAD)
    target_in = padded([[BOS, *pair[1][:-1]] for pair in pairs], PAD)
    target_out = padded([pair[1] for pair in pairs], IGNORED)
    output = model(input_ids=source, attention_mask=source != PAD, decoder_input_ids=target_in, use_cache=False)
    logits = output.logits.view(-1, output.logits.size(-1))
    loss: Any = cross_entropy(logits, target_out.view(-1), ignore_index=IGNORED, label_smoothing=label_smoothing)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return sum(len(pair[1]) for pair in pairs)


def padded(rows: list[list[int]], filling: int) -> torch.Tensor:
    """Rows of one length."""
    longest = max(map(len, rows))
    return torch.tensor([row + [filling] * (longest - len(row)) for row in rows])


def batches(pairs: list[Pair], most_tokens: int | None, most_sentences: int | None) -> Iterator[list[Pair]]:
    """Epoch after epoch: sorted by length, cut so that neither side has more tokens with its padding, shuffled."""
    generator = random.Random(1)
    while True:
        generator.shuffle(pairs)
        pairs.sort(key=lambda pair: (len(pair[1]), len(pair[0])))
        cut: list[list[Pair]] = [[]]
        longest = 0
        for pair in pairs:
            longest = max(longest, len(pair[0]), len(pair[1]))
            count = len(cut[-1]) + 1
            if cut[-1] and (count * longest > (most_tokens or 10**9) or count > (most_sentences or 10**9)):
                cut.append([])
                longest = max(len(pair[0]), len(pair[1]))
            cut[-1].append(pair)
        generator.shuffle(cut)
        yield from cut


if __name__ == "__main__":
    main(sys.argv[1])
