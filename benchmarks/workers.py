"""One process with all threads against one process per core: seconds per update, alternating.

    python benchmarks/workers.py                      # `fast` and `transformer-small` on the embedded phrases
    python benchmarks/workers.py --pairs 9 fast

Prints the median of each, and the median and range of their ratio (above 1: several processes are faster).
"""

from __future__ import annotations

import argparse
import copy
import statistics
import tempfile
from pathlib import Path

import torch

from regard.process import tune_process
from regard.storage.run import read_run
from regard.training import train
from regard.training.distributed import Group
from regard.training.speed import MOST_UPDATES, seconds_of_ranks, seconds_per_update
from regard.training.tasks import task_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", default=["fast", "transformer-small"])
    parser.add_argument("--pairs", type=int, default=5, help="alternating measurements")
    parser.add_argument("--corpus", default="toy:phrases:en-fr:10000")
    given = parser.parse_args()
    tune_process()
    cores = torch.get_num_threads()
    for recipe in given.recipes:
        with tempfile.TemporaryDirectory(prefix="regard-workers-") as scratch:
            out = Path(scratch) / "model"
            ends = ["training.updates=1", "training.epochs=none", "training.budget=none"]
            train(recipe, train=given.corpus, valid="none", out=out, overrides=ends, progress=False)
            task = task_of(read_run(out / "training").recipe).open(out / "training")
            model, alone, together = task.build(), [], []
            for _ in range(given.pairs):
                alone.append(seconds_per_update(task, copy.deepcopy(model), Group(), MOST_UPDATES))
                ranks = seconds_of_ranks(out / "training", cores, 1, MOST_UPDATES)
                assert ranks is not None, "the ranks failed"
                together.append(ranks)
        ratios = sorted(one / several for one, several in zip(alone, together, strict=True))
        print(
            f"{recipe}: 1 x {cores} threads {statistics.median(alone):.3f} s, {cores} x 1 thread "
            f"{statistics.median(together):.3f} s per update; ratio {statistics.median(ratios):.2f} "
            f"({ratios[0]:.2f}-{ratios[-1]:.2f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
