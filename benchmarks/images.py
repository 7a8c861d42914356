"""Images learned per second by Regard's loop and by a plain PyTorch loop over the same network, side by side.

    python benchmarks/images.py --data /usr/share/datasets/fashion-mnist --threads 2

The plain loop is what one writes by hand: batches from memory, the same network with the same start, cross-entropy,
AdamW, nothing else. Both turns are taken in each round, so that a machine that slows down slows both.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import torch
from torch import nn

from regard.config.classification import ClassifierRecipe
from regard.config.recipes import load_recipe_as
from regard.models.image_classifier import Network
from regard.process import this_machine, tune_process
from regard.training import train
from regard.training.tasks.prepared_images import PreparedImages, prepare

WARM_UP = 5  # updates that are not counted


def plain_loop(recipe: ClassifierRecipe, prepared: PreparedImages, updates: int) -> float:
    """Images per second of a loop by hand."""
    settings = recipe.training
    torch.manual_seed(1)
    network = Network(recipe.model, prepared.train.shape, len(prepared.train.classes))
    network.to(memory_format=torch.channels_last)
    rule = torch.optim.AdamW(
        network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
    )
    loss = nn.CrossEntropyLoss(label_smoothing=settings.label_smoothing)
    images, labels = torch.from_numpy(prepared.train.images), torch.from_numpy(prepared.train.labels)
    order = torch.randperm(len(images)).split(settings.batch_images)
    network.train()
    for number in range(WARM_UP + updates):
        if number == WARM_UP:
            started = time.perf_counter()
        chosen = order[number % (len(order) - 1)]
        rule.zero_grad(set_to_none=True)
        loss(network.project(network.features(images[chosen])), labels[chosen]).backward()
        rule.step()
    return updates * settings.batch_images / (time.perf_counter() - started)


def regard_loop(recipe: ClassifierRecipe, prepared: PreparedImages, updates: int, threads: int) -> float:
    """Images per second of Regard's loop, checkpoints and log included, from its own log."""
    changes = [f"training.updates={WARM_UP + updates}", f"training.log_every={WARM_UP}", "training.budget=none"]
    changes += ["training.epochs=none", "training.validate_every=1000000"]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "model"
        valid = prepared.valid.select(torch.arange(min(100, len(prepared.valid))).numpy())
        train(recipe, train=prepared.train, valid=valid, out=out, overrides=changes, threads=threads, progress=False)
        lines = [json.loads(line) for line in (out / "log.jsonl").read_text("utf-8").splitlines()]
    records = [line for line in lines if line["event"] == "update"]
    seconds = records[-1]["seconds"] - records[0]["seconds"]
    return updates * recipe.training.batch_images / seconds


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="toy:two-ears")
    parser.add_argument("--recipes", nargs="+", default=["resnet", "bam"])
    parser.add_argument("--updates", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    tune_process(options.threads)
    print(f"{this_machine().cpu}, {options.threads} threads, images learned per second, median of {options.rounds}\n")
    print("| recipe | plain PyTorch | Regard | ratio |\n|---|---|---|---|")
    for name in options.recipes:
        # The plain loop neither mirrors nor moves its images, so Regard's does not either.
        recipe = load_recipe_as(ClassifierRecipe, name, ["training.flip=false", "training.shift=0"])
        prepared = prepare(recipe, options.data, None)
        plain, ours = [], []
        for _ in range(options.rounds):
            plain.append(plain_loop(recipe, prepared, options.updates))
            ours.append(regard_loop(recipe, prepared, options.updates, options.threads))
        ratio = statistics.median(mine / other for mine, other in zip(ours, plain, strict=True))
        print(f"| {name} | {statistics.median(plain):,.0f} | {statistics.median(ours):,.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
