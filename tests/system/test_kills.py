"""SIGKILL at random moments of small trainings; what is resumed ends like an unbroken training, bit for bit.

The number of kills is REGARD_KILLS (default 30). The figures in docs/reliability.md are of

    REGARD_KILLS=200 python -m pytest -m slow -s tests/system/test_kills.py
"""

import json
import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.config.classification import ClassifierRecipe
from regard.config.recipes import check_recipe
from regard.config.settings import Recipe
from regard.data.images.image_set import ImageSet
from regard.training import train
from regard.training.checkpoint import Snapshot
from regard.training.tasks import classification

KILLS = int(os.environ.get("REGARD_KILLS", "30"))
LOOP = {"updates": 60, "warmup": 10, "log_every": 5, "validate_every": 15, "save_every": 0.003}
SIZES = {"embedding_size": 12, "hidden_size": 16}
MODELS: dict[str, dict[str, Any]] = {
    "bahdanau": {"kind": "bahdanau", "attention_size": 12, "maxout_size": 12, "dropout": 0.2, **SIZES},
    "transformer": {
        "kind": "transformer",
        "encoder_layers": 1,
        "decoder_layers": 1,
        "heads": 2,
        "feedforward_size": 24,
        "tie_embeddings": "target",
        "hidden_size": 16,
        "dropout": 0.2,
    },
}
MORE: dict[str, dict[str, Any]] = {
    "bahdanau": {"schedule": "plateau", "plateau_patience": 0},
    "transformer": {"average": "best", "keep": 3, "accumulate": 2},
}


def text_recipe(kind: str) -> Recipe:
    training = {**LOOP, "batch_tokens": 256, "validation_sentences": 10, **MORE[kind]}
    text = {"tokenizer": "word", "min_frequency": 1}
    return check_recipe({"model": MODELS[kind], "text": text, "training": training}, "test")


def image_recipe() -> ClassifierRecipe:
    model = {"kind": "resnet", "attention": "bam", "channels": [8, 8], "blocks": 1}  # batch normalisation has buffers
    return ClassifierRecipe.model_validate({"model": model, "training": {**LOOP, "batch_images": 16}})


def sentences(count: int, seed: int) -> list[tuple[str, str]]:
    generator = random.Random(seed)
    lines = (generator.choices("abcdefgh", k=generator.randint(2, 7)) for _ in range(count))
    return [(" ".join(line), " ".join(reversed(line))) for line in lines]


def images() -> ImageSet:
    generator = np.random.default_rng(0)
    labels = np.arange(96) % 2
    pixels = generator.integers(0, 200, (96, 1, 12, 12), dtype=np.uint8)
    return ImageSet(pixels, labels.astype(np.int64), ("left", "right"))


def work(kind: str, out: Path) -> None:
    """Start the training, or go on with it."""
    out.with_suffix(".started").touch()
    resume = (out / "training" / "run.json").exists()
    more: dict[str, Any] = {"out": out, "resume": resume, "threads": 1, "progress": False}
    if kind == "classifier":
        classification.train(*([] if resume else [image_recipe()]), data=None if resume else images(), **more)
    elif resume:
        train(**more)
    else:
        train(text_recipe(kind), train=sentences(300, 1), valid=sentences(20, 2), **more)


def result(out: Path) -> dict[str, Any]:
    """Everything that must be equal: the model, the newest checkpoint and its kept weights, the log but for clocks."""
    checkpoint = max((out / "training").glob("checkpoint-*"))
    state = json.loads((checkpoint / "state.json").read_text())["state"]
    kept = [out / "training" / Snapshot(**each).file for each in state["snapshots"]]
    files = [out / "model.safetensors", *checkpoint.glob("*.safetensors"), *kept]
    log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return {
        **{path.name: path.read_bytes() for path in files},
        "state": {name: value for name, value in state.items() if "seconds" not in name},
        "log": [
            {name: value for name, value in line.items() if name != "time" and "second" not in name}
            for line in log
            if line["event"] != "finished"
        ],
    }


def child(kind: str, out: Path) -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["regard.training.tasks.classification", "regard.training"])
    process = context.Process(target=work, args=(kind, out))
    begun = out.with_suffix(".started")
    begun.unlink(missing_ok=True)
    process.start()
    while not begun.exists() and process.exitcode is None:
        time.sleep(0.005)
    return process


def where(out: Path) -> str:
    """The moment of a kill, by what it left behind."""
    if not (out / "training").exists():
        return "before the training folder"
    if (out / "config.json").exists() and '"finished"' in (out / "log.jsonl").read_text():
        return "after the end"
    if list((out / "training").glob(".*.part")):
        return "while a file or a checkpoint was written"
    return "between checkpoints"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bahdanau", "transformer", "classifier"])
def test_random_kills_change_nothing(tmp_path: Path, kind: str) -> None:
    whole = tmp_path / "whole"
    child(kind, tmp_path / "warm").join()
    process = child(kind, whole)
    started = time.monotonic()
    process.join()
    assert process.exitcode == 0
    usual = time.monotonic() - started
    expected = result(whole)

    generator = random.Random(kind)
    moments: Counter[str] = Counter()
    wanted, trainings = -(-KILLS // 3), 0
    while moments.total() < wanted:
        out = tmp_path / f"broken-{trainings}"
        trainings += 1
        longest = 0.7 * usual
        while True:
            process = child(kind, out)
            started = time.monotonic()
            process.join(generator.uniform(0.0, longest))
            longest *= 1.1  # a machine that got busy comes to an end, too
            if process.exitcode is None:
                os.kill(process.pid, signal.SIGKILL)
                process.join()
            if process.exitcode == 0:
                usual = min(usual, max(1.0, time.monotonic() - started))
                break
            assert process.exitcode == -signal.SIGKILL, f"a resumed training failed with {process.exitcode}"
            moments[where(out)] += 1
            if where(out) == "after the end":
                break
        assert result(out) == expected
    print(f"\n{kind}: {moments.total()} kills in {trainings} trainings: {dict(moments)}; all bit for bit equal")
