"""A small untrained model, and shards for it."""

from __future__ import annotations

import gzip
import itertools
from pathlib import Path

import torch

from regard.config.recipes import check_recipe
from regard.data.text.tokenizer import Tokenizer
from regard.inference.folder import write_folder
from regard.models import build_model
from regard.storage.weights import model_tensors

WORDS = ["the", "small", "house", "a", "green", "tree", "stands", "here", "cat", "saw", "dog", "is", "old", "red"]


def sentences(count: int, first: int = 0) -> list[str]:
    """Different sentences of one to nine words."""
    lines = []
    for number in range(first, first + count):
        length = 1 + number * 7 % 9
        lines.append(
            " ".join(itertools.islice(itertools.cycle(WORDS), number % 14, number % 14 + length)) + f" {number}"
        )
    return lines


def write_model(folder: Path, seed: int = 1, extra: int = 4) -> Path:
    """An untrained model with attention; `extra` tokens make it slower."""
    table = {
        "model": {"kind": "bahdanau", "embedding_size": 12, "hidden_size": 16},
        "text": {"vocabulary_size": 320, "joint": True, "min_frequency": 1},
        "training": {"updates": 1},
        "search": {"max_length_extra": extra, "max_length_ratio": 1.0, "beam": 2},
    }
    recipe = check_recipe(table, "test")
    tokenizer = Tokenizer.train(sentences(200), recipe.text)
    torch.manual_seed(seed)
    built = build_model(recipe.model, tokenizer.size, tokenizer.size)
    weights = {name: tensor.detach() * 4 for name, tensor in model_tensors(built).items()}
    write_folder(
        folder,
        recipe=recipe,
        source_tokenizer=tokenizer,
        target_tokenizer=tokenizer,
        weights=weights,
        metrics={},
        card="a test",
    )
    return folder


def write_shards(folder: Path, count: int, lines: int) -> list[Path]:
    """Shards of text, packed; the second line of each is blank."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number in range(count):
        path = folder / f"{number:03}.txt.gz"
        first, *others = sentences(lines, number * lines)
        path.write_bytes(gzip.compress("".join(f"{line}\n" for line in [first, "", *others[1:]]).encode(), mtime=0))
        paths.append(path)
    return paths


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, hidden ones included."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
