"""Model folders of which one file was changed: loaded and used once, or refused by an error of ours."""

from __future__ import annotations

import json
import math
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz_help import fuzzed, little_room, mutate_bytes, mutate_json, watched
from fuzz_models import PARTS, foreign_tokenizers, own_tokenizers, write_all
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard.data.text.tokenizer import Tokenizer

SEEDS = st.integers(0, 2**48)
SEARCH: dict[str, Any] = {
    "beam": 2,
    "n_best": 1,
    "max_length_ratio": 1.0,
    "max_length_extra": 3,
    "max_source": 99,
    "engine": "torch",
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Path]]:
    written = write_all(tmp_path_factory.mktemp("fuzz"))
    for folder in written:
        use(folder)  # everything is imported and warm
    with little_room():
        yield written


def use(folder: Path) -> None:
    """Load a folder and use it once, in a small way."""
    model = regard.load(folder)
    if isinstance(model, regard.Translator):
        settings = {**SEARCH, "shortlist": model.shortlist is not None, "int8": False, "sample": False}
        model.translate("ein Haus <s>", search=settings)
    elif hasattr(model, "caption"):
        model.caption(np.zeros((8, 8, 3), np.uint8), search={**SEARCH, "int8": False, "sample": False})
    elif model.shape[1] * model.shape[2] <= 4096:
        channels, *size = model.shape
        model.classify(np.zeros((*size, 3) if channels == 3 else size, np.uint8))


class Changed:
    """A folder with another file in it, which goes again."""

    def __init__(self, path: Path, content: bytes) -> None:
        self.path, self.content = path, content

    def __enter__(self) -> None:
        self.before = self.path.read_bytes()
        self.path.write_bytes(self.content)

    def __exit__(self, *_: object) -> None:
        self.path.write_bytes(self.before)


@given(seed=SEEDS)
@fuzzed(0.22)
def test_config(folders: list[Path], seed: int) -> None:
    chance = random.Random(seed)
    folder = chance.choice(folders)
    document = json.loads((folder / "config.json").read_text("utf-8"))
    with Changed(folder / "config.json", mutate_json(document, chance)), watched("config"):
        use(folder)


@given(seed=SEEDS)
@fuzzed(0.08)
def test_metrics(folders: list[Path], seed: int) -> None:
    from regard.cli.info import _text, _translation
    from regard.serve.languages import languages_of

    chance = random.Random(seed)
    folder = chance.choice(folders)
    document = json.loads((folder / "metrics.json").read_text("utf-8"))
    with Changed(folder / "metrics.json", mutate_json(document, chance)), watched("metrics"):
        model = regard.load(folder)
        if isinstance(model, regard.Translator):
            languages_of(model.recipe, folder.name)
            text = _text(*_translation(folder))
            assert not any(c < " " and c != "\n" for c in text), text


@given(seed=SEEDS)
@fuzzed(0.1)
def test_weights(folders: list[Path], seed: int) -> None:
    chance = random.Random(seed)
    folder = chance.choice(folders)
    raw = (folder / "model.safetensors").read_bytes()
    with Changed(folder / "model.safetensors", mutate_tensors(raw, chance)), watched("weights"):
        use(folder)


@given(seed=SEEDS)
@fuzzed(0.08)
def test_shortlist(folders: list[Path], seed: int) -> None:
    chance = random.Random(seed)
    folder = chance.choice(folders[:3])
    raw = (folder / "shortlist.safetensors").read_bytes()
    with Changed(folder / "shortlist.safetensors", mutate_tensors(raw, chance)), watched("shortlist"):
        use(folder)


def mutate_tensors(raw: bytes, chance: random.Random) -> bytes:
    """A safetensors file with other bytes anywhere, or another header before the same numbers."""
    way, size = chance.randrange(3), int.from_bytes(raw[:8], "little")
    if way == 0:
        return mutate_bytes(raw, chance)
    if way == 1:  # numbers that no training leaves behind
        data = bytearray(raw)
        for _ in range(chance.choice((1, 10, 1000))):
            place = 8 + size + 4 * chance.randrange((len(raw) - 8 - size) // 4)
            data[place : place + 4] = struct.pack("<f", chance.choice((math.nan, math.inf, -math.inf, 3e38, 1e20, 0.0)))
        return bytes(data)
    header = mutate_json(json.loads(raw[8 : 8 + size]), chance, ["F16", "F64", "I64", "BOOL", "F8_E4M3", "C64", "U16"])
    return len(header).to_bytes(8, "little") + header + raw[8 + size :]


# --- tokenizers ---------------------------------------------------------------------------------------------------

TEXTS = ["ein Haus", "<s> ▁ das </s>", "", "日本 ü! 12", "a" * 200, " \t ", "\ufdd0 ﷺ", ">>de<< x"]


class Documents(list[Any]):
    """Tokenizers, which need not be printed when one fails."""

    def __repr__(self) -> str:
        return "…"


@pytest.fixture(scope="module")
def documents() -> Iterator[Documents]:
    found = Documents(own_tokenizers() + foreign_tokenizers())
    for document in found:
        use_tokenizer(json.dumps(document))
    with little_room():
        yield found


def use_tokenizer(text: str) -> None:
    tokenizer = Tokenizer.from_json(text)
    for line, ids in zip(TEXTS, tokenizer.encode_many(TEXTS), strict=True):
        tokenizer.decode(ids)
        tokenizer.decode(range(min(tokenizer.size, 50)))
        tokenizer.tokens(line)


@given(seed=SEEDS)
@fuzzed(0.22)
def test_tokenizer(documents: Documents, seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    chance = random.Random(seed)
    content = mutate_json(chance.choice(documents), chance, PARTS)
    path = tmp_path_factory.getbasetemp() / "tokenizer.json"
    path.write_bytes(content)
    with watched("tokenizer"):
        tokenizer = Tokenizer.load(path)
        use_tokenizer(tokenizer.to_json())


@given(seed=SEEDS)
@fuzzed(0.02)
def test_sentencepiece(documents: Documents, seed: int) -> None:
    import base64

    from regard.data.text.sentencepiece import SentencePieceTokenizer

    chance = random.Random(seed)
    models = [each["regard"]["sentencepiece"] for each in documents if "sentencepiece" in each.get("regard", {})]
    raw = mutate_bytes(base64.b64decode(chance.choice(models)), chance)
    with watched("sentencepiece"):
        use_tokenizer(SentencePieceTokenizer(raw, "fuzz").to_json())
