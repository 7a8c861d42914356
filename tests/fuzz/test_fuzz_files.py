"""Checkpoints, corpora, alignments and images that somebody has changed: read, or refused by an error of ours."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from fuzz_help import fuzzed, little_room, mutate_bytes, mutate_json, watched
from fuzz_models import LINES, WORDS
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from regard.config.models import BahdanauSettings
from regard.config.settings import TrainingSettings
from regard.data.images.image_set import read_idx, read_image
from regard.data.text.build import build_corpus
from regard.data.text.corpus import EncodedCorpus
from regard.data.text.parallel import Pair, read_pairs
from regard.data.text.sources import text_of
from regard.data.text.tokenizer import Tokenizer
from regard.evaluation.alignment import read_links
from regard.models import build_model
from regard.storage import files
from regard.training.checkpoint import Checkpoints, Snapshot, TrainingState
from regard.training.optimizer import build_optimizer

SEEDS = st.integers(0, 2**48)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


# --- checkpoints --------------------------------------------------------------------------------------------------

SIZES = BahdanauSettings(embedding_size=4, hidden_size=6, attention_size=5, maxout_size=4)


@pytest.fixture(scope="module")
def checkpoint(place: Path) -> Path:
    torch.manual_seed(0)
    model = build_model(SIZES, 9, 9)
    optimizer = build_optimizer(model, TrainingSettings(updates=1))
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    folder = place / "training"
    folder.mkdir()
    Checkpoints(folder).save(TrainingState(update=1, snapshots=[Snapshot(1, 0.5)]), model, optimizer, {"cpu": "x"})
    return folder


@pytest.mark.skipif(not hasattr(files, "write_checksums"), reason="checkpoints have no checksums yet")
@given(seed=SEEDS)
@fuzzed(0.08)
def test_checkpoint(checkpoint: Path, place: Path, seed: int) -> None:
    chance = random.Random(seed)
    copy = place / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(checkpoint, copy)
    file = chance.choice(sorted(path for path in copy.rglob("*") if path.is_file()))
    raw = file.read_bytes()
    if file.suffix == ".json":
        file.write_bytes(mutate_json(json.loads(raw), chance))
    else:
        file.write_bytes(mutate_bytes(raw, chance))
    if chance.random() < 0.5:  # damage that somebody has covered up
        names = ("state.json", "model.safetensors", "optimizer.safetensors")
        sums = {name: [hashlib.sha256((file.parent / name).read_bytes()).hexdigest()] for name in names}
        (file.parent / "checksums.json").write_text(json.dumps({"sha256": sums}))
    model = build_model(SIZES, 9, 9)
    optimizer = build_optimizer(model, TrainingSettings(updates=1))
    with watched("checkpoint"):
        Checkpoints(copy).load(model, optimizer)


# --- text ---------------------------------------------------------------------------------------------------------

BYTES = st.one_of(
    st.binary(max_size=300),
    st.text(max_size=300).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.text("ab \t\r\n", max_size=200).map(str.encode),
)


@given(content=BYTES, seed=SEEDS)
@fuzzed(0.05)
def test_text(place: Path, content: bytes, seed: int) -> None:
    chance = random.Random(seed)
    path = place / chance.choice(("text", "text.gz"))
    if chance.random() < 0.5:
        content = mutate_bytes(gzip.compress(content), chance) if chance.random() < 0.8 else gzip.compress(content)
    path.write_bytes(content)
    with watched("corpus"):
        for _ in read_pairs(path):
            pass


@pytest.fixture(scope="module")
def encoded(place: Path) -> Path:
    tokenizer = Tokenizer.train(LINES, WORDS)
    text = text_of([Pair(line, line) for line in LINES])
    build_corpus(text, tokenizer, tokenizer, place / "encoded", WORDS)
    return place / "encoded"


@given(seed=SEEDS)
@fuzzed(0.05)
def test_encoded_corpus(encoded: Path, seed: int) -> None:
    chance = random.Random(seed)
    file = chance.choice(sorted(path for path in encoded.iterdir() if path.is_file()))
    raw = file.read_bytes()
    new = mutate_json(json.loads(raw), chance) if file.suffix == ".json" else mutate_bytes(raw, chance)
    file.write_bytes(new)
    try:
        with watched("corpus"):
            corpus = EncodedCorpus.open(encoded)
            for index in range(len(corpus)):
                assert len(corpus.source.sentence(index)) == corpus.source_lengths[index]
                assert len(corpus.target.sentence(index)) == corpus.target_lengths[index]
    finally:
        file.write_bytes(raw)


LINKS = st.lists(
    st.one_of(
        st.from_regex(r"[0-9]{1,3}[-p][0-9]{1,3}", fullmatch=True),
        st.sampled_from(["0-0", "9" * 5000 + "-1", "٣-١", "-1-2", "1--2", "\x1b[2J", "1p", "\n", "\ufeff0-0"]),
        st.text(max_size=8),
    ),
    max_size=8,
)


@given(links=LINKS, seed=SEEDS)
@fuzzed(0.05)
def test_alignments(place: Path, links: list[str], seed: int) -> None:
    chance = random.Random(seed)
    raw = " ".join(links).encode("utf-8", "surrogatepass")
    path = place / chance.choice(("links", "links.gz"))
    if path.suffix and chance.random() < 0.9:
        raw = gzip.compress(raw)
    path.write_bytes(mutate_bytes(raw, chance) if chance.random() < 0.3 else raw)
    with watched("alignments"):
        read_links(path, one_based=chance.random() < 0.5)


# --- images -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pictures() -> list[bytes]:
    found = []
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"):
        pixels = np.arange(12 * 10, dtype=np.uint8).reshape(12, 10)
        image = Image.fromarray(pixels.astype(np.uint16)) if mode == "I;16" else Image.fromarray(pixels).convert(mode)
        for form in ("PNG", "JPEG") if mode in ("L", "RGB") else ("PNG",):
            buffer = io.BytesIO()
            image.save(buffer, form)
            found.append(buffer.getvalue())
    return found


@given(seed=SEEDS)
@fuzzed(0.08)
def test_images(place: Path, pictures: list[bytes], seed: int) -> None:
    chance = random.Random(seed)
    path = place / "picture"
    path.write_bytes(mutate_bytes(chance.choice(pictures), chance))
    with watched("images"), little_room():
        read_image(path, chance.choice((None, 1, 3)), chance.choice((None, 8)), convert=chance.random() < 0.5)


@given(seed=SEEDS)
@fuzzed(0.02)
def test_idx(place: Path, seed: int) -> None:
    chance = random.Random(seed)
    raw = bytes((0, 0, 8, 3)) + b"".join(side.to_bytes(4) for side in (2, 3, 3)) + bytes(range(18))
    raw = mutate_bytes(raw, chance) if chance.random() < 0.7 else raw
    if chance.random() < 0.5:
        raw = mutate_bytes(gzip.compress(raw), chance)
    path = place / "images-idx3-ubyte"
    path.write_bytes(raw)
    with watched("images"), little_room():
        read_idx(path, 3)
