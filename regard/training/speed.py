"""How many processes train faster: one with all threads, or one for each core.

`regard train` measures both for a few updates with the model and the batches of the training, if that is going to
take minutes. The choice is kept in the user's cache folder, for each processor, model size and batch size. A tie goes
to several processes: beside a busy program, threads of one process wait for each other at every step.
"""

from __future__ import annotations

import copy
import signal
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import torch

from regard.config.settings import duration_seconds
from regard.errors import ModelFolderError
from regard.machine.processor import cache_folder
from regard.models.contract import Predictor
from regard.process import this_machine, tune_process
from regard.storage.files import write_json
from regard.storage.reading import read_json
from regard.storage.run import read_run
from regard.training.budget import updates_asked
from regard.training.distributed import Group, joined
from regard.training.interrupt import Interrupted
from regard.training.launch import end_with_launcher, run_ranks
from regard.training.loop import add_gradient
from regard.training.optimizer import build_optimizer, clip
from regard.training.progress import Reporter
from regard.training.task import PreparedTask
from regard.training.tasks import task_of

SHORTEST = 300.0  # seconds of training that are worth measuring for
MOST_UPDATES = 5  # measured, or fewer if they take longer than MOST_SECONDS
MOST_SECONDS = 4.0
MOST_WORKERS = 8  # more processes would share too small batches
TIE = 1.05
KEPT = "workers.json"  # in the cache folder
CPU = torch.device("cpu")


def faster_workers(task: PreparedTask[object], model: Predictor, folder: Path, reporter: Reporter) -> int:
    """The number of processes with which this training is faster; 1 if it is short or there is one core."""
    cores, settings = torch.get_num_threads(), task.settings
    workers = min(cores, MOST_WORKERS)
    asked = updates_asked(settings, len(task.plan().epoch(0)))
    budget = None if settings.budget is None else duration_seconds(settings.budget)
    if workers == 1 or (budget is not None and budget < SHORTEST) or (asked is not None and asked <= MOST_UPDATES):
        return 1
    key, known = _key(task, model, cores), _known()
    if key in known:
        return min(known[key], workers)
    reporter.working("measuring the speed of one process and of several")
    alone = seconds_per_update(task, copy.deepcopy(model), Group(), MOST_UPDATES)
    if asked is not None and asked * alone < SHORTEST:
        return 1
    together = seconds_of_ranks(folder, workers, cores // workers, max(1, int(MOST_SECONDS / alone)))
    chosen = workers if together is not None and together <= TIE * alone else 1
    measured = "failed" if together is None else f"{together:.2f} s"
    reporter.say(f"an update takes {alone:.2f} s in one process, {measured} in {workers}: training in {chosen}.")
    if together is not None:
        _keep(key, chosen)
    return chosen


def seconds_per_update(task: PreparedTask[object], model: Predictor, group: Group, most: int) -> float:
    """The median time of an update, after a first one; the model is spoilt."""
    optimizer, plan, took = build_optimizer(model.train(), task.settings), task.plan(), []
    items = plan.epoch(0)
    group.attach(model)
    for number in range(1 + min(most, MOST_UPDATES)):
        batch = plan.batch(items[number % len(items)])
        started = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        add_gradient(task, model, group.share(batch), batch.target_tokens, CPU, update=1, total=None)
        group.sum_gradients(0.0)
        clip(model, task.settings.clip_norm)
        optimizer.step()
        took.append(time.perf_counter() - started)
        if group.size == 1 and number and sum(took) > MOST_SECONDS:
            break
    return statistics.median(took[1:])


def seconds_of_ranks(folder: Path, workers: int, threads: int, updates: int) -> float | None:
    """The same in several processes; None if they fail."""
    with tempfile.TemporaryDirectory(prefix="regard-speed-") as private:
        result = Path(private) / "speed.json"
        call = "from regard.training.speed import measure_as_rank; measure_as_rank()"
        status = run_ranks(["-c", call, str(folder), str(updates), str(result)], workers, threads)
        if status in (128 + signal.SIGINT, 128 + signal.SIGTERM):
            message = "stopped before an update was made: start it again with the same command."
            raise Interrupted(message, saved=False, signal_number=status - 128)
        return float(read_json(result)["seconds"]) if status == 0 else None


def measure_as_rank() -> None:
    """One of these processes: reads OUT/training, the number of updates and the file for the result from its words."""
    folder, updates, result = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    tune_process()
    end_with_launcher()
    with joined(CPU) as group:
        task = task_of(read_run(folder).recipe).open(folder)
        seconds = seconds_per_update(task, task.build(), group, updates)
        if group.leads:
            write_json(result, {"seconds": seconds})


# --- what was measured before -------------------------------------------------------------------------------------


def _key(task: PreparedTask[object], model: Predictor, cores: int) -> str:
    """Processor, cores, model and batch; sizes within a factor of about two are one."""
    machine, plan = this_machine(), task.plan()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    tokens = plan.batch(plan.epoch(0)[0]).target_tokens
    sizes = f"2^{parameters.bit_length()} parameters, 2^{tokens.bit_length()} {task.unit}"
    return f"{machine.cpu}, {cores} threads, torch {machine.torch}: {task.recipe.model.kind}, {sizes}"


def _known() -> dict[str, int]:
    folder = cache_folder()
    try:
        record = {} if folder is None else read_json(folder / KEPT)
    except (ModelFolderError, OSError):
        return {}
    return {key: value for key, value in record.items() if isinstance(value, int) and value >= 1}


def _keep(key: str, workers: int) -> None:
    folder = cache_folder()
    if folder is None:
        return
    with suppress(OSError):  # then it is measured again next time
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / KEPT, {**_known(), key: workers})
