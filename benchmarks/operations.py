"""What an update of training spends its time on, by kind of operation.

    python benchmarks/operations.py                    # configs A and B, one thread and all threads
    python benchmarks/operations.py transformer --threads 1

Trains on the embedded phrases with batches of 4,096 tokens under torch's profiler, and finds for each model the share
of matrix products, softmax, element-wise operations, copies, random numbers and the optimizer. "Outside" is Python and
waiting: the time of the update that no operation accounts for. The table goes to docs/performance-tables.md.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

if not __package__:
    # started as a script: `benchmarks` is a package all the same
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.benchmark import ROOT, cpu_name
from benchmarks.regard_side import recipe
from benchmarks.report import publish
from benchmarks.side import BATCHES
from regard.process import tune_process
from regard.storage.run import read_run
from regard.training import train
from regard.training.loop import add_gradient
from regard.training.optimizer import build_optimizer, clip
from regard.training.task import PreparedTask
from regard.training.tasks import task_of

UPDATES = 4
CORPUS = "toy:phrases:en-de:20000"
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "mv", "addmv")
KINDS = {
    "softmax": ("softmax", "logsumexp", "nll_loss", "cross_entropy", "gather"),
    "fused attention": ("scaled_dot_product", "flash_attention"),
    "random numbers": ("bernoulli", "uniform", "rand", "dropout"),
    "optimizer": ("adam", "foreach", "vector_norm"),
    "copies": ("copy", "cat", "index", "scatter", "slice", "fill", "zero", "embedding", "stack"),
}
NAMES = ["matrix products", *KINDS, "element-wise", "outside"]


def kind_of(operation: str) -> str:
    """The kind of an operation by its name; element-wise if nothing else."""
    name = operation.removeprefix("aten::")
    if name in PRODUCTS:
        return "matrix products"
    return next((kind for kind, parts in KINDS.items() if any(part in name for part in parts)), "element-wise")


def shares(task: PreparedTask[object]) -> tuple[float, dict[str, float]]:
    """Seconds of an update, and the share of each kind of operation in it."""
    model, settings, plan = task.build(), task.settings, task.plan()
    optimizer, items = build_optimizer(model.train(), settings), plan.epoch(0)

    def update(number: int) -> None:
        batch = plan.batch(items[number])
        optimizer.zero_grad(set_to_none=True)
        add_gradient(task, model, batch, batch.target_tokens, torch.device("cpu"), update=1, total=None)
        clip(model, settings.clip_norm)
        optimizer.step()

    update(0)
    with profile(activities=[ProfilerActivity.CPU]) as measured:
        started = time.perf_counter()
        for number in range(1, UPDATES + 1):
            update(number)
        seconds = time.perf_counter() - started
    spent: Counter[str] = Counter()
    for event in measured.key_averages():
        if event.key.startswith("aten::"):
            spent[kind_of(event.key)] += event.self_cpu_time_total / 1e6
    spent["outside"] = max(0.0, seconds - sum(spent.values()))
    return seconds / UPDATES, {name: spent[name] / seconds for name in NAMES}


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=["transformer", "bahdanau"])
    parser.add_argument("--threads", type=int, help="default: one, then all")
    parser.add_argument("--precision", default="float32", help="float32, bfloat16, or both with a comma between")
    parser.add_argument(
        "--report", type=Path, default=ROOT / "docs" / "performance-tables.md", help="file for the table"
    )
    given = parser.parse_args()
    tune_process()
    counts = [given.threads] if given.threads else sorted({1, torch.get_num_threads()})
    about = f"{cpu_name()}. {time.strftime('%Y-%m-%d')}. Embedded phrases, 4,096 tokens an update:"
    rows = [
        f"| model | precision | threads | ms an update | {' | '.join(NAMES)} |",
        f"|---|---|{'--:|' * (len(NAMES) + 2)}",
    ]
    for kind, precision in itertools.product(given.kinds, given.precision.split(",")):
        with tempfile.TemporaryDirectory(prefix="regard-operations-") as scratch:
            path, out = Path(scratch) / "recipe.toml", Path(scratch) / "model"
            path.write_text(recipe(kind, BATCHES[-1], updates=1), "utf-8")
            changed = [f"training.precision={precision}"]
            train(str(path), train=CORPUS, valid="none", out=out, overrides=changed, progress=False)
            task = task_of(read_run(out / "training").recipe).open(out / "training")
            for threads in counts:
                torch.set_num_threads(threads)
                seconds, found = shares(task)
                cells = " | ".join(f"{found[name]:.0%}" for name in NAMES)
                rows.append(f"| {kind} | {precision} | {threads} | {1000 * seconds:,.0f} | {cells} |")
                print(rows[-1], flush=True)
    publish(given.report, "operations", "\n" + about + "\n\n" + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
