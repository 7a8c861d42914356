"""`regard train --dry-run`: read the text, run a few real updates, and estimate memory and time."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from regard.config.settings import duration_seconds
from regard.models.contract import Predictor
from regard.process import tune_process, usable_device, usable_precision
from regard.storage.card import skipped_text
from regard.storage.files import write_json
from regard.storage.run import read_run
from regard.training.budget import updates_asked
from regard.training.distributed import Group, joined, local_device
from regard.training.launch import answer_of_ranks, end_with_launcher
from regard.training.optimizer import build_optimizer
from regard.training.prepare import Prepared
from regard.training.progress import duration
from regard.training.schedule import updates_in_budget
from regard.training.speed import seconds_of_update
from regard.training.start import count_parameters
from regard.training.tasks import task_of
from regard.training.tasks.translation import PreparedTranslation
from regard.training.team import Team
from regard.training.validation import validation_tokens

TYPICAL = 5


@dataclass(frozen=True)
class DryRun:
    """Estimated memory and time of a training."""

    data: dict[str, Any]
    source_vocabulary: int
    target_vocabulary: int
    parameters: int
    batches_per_epoch: int
    updates: int | None
    seconds_per_update: float
    seconds: float
    workers: int
    threads: int  # of each worker
    precision: str
    memory: int | None  # peak bytes of each worker; None where the system does not report them
    launcher_memory: int | None  # of the process that starts several workers and waits for them

    def lines(self) -> list[str]:
        """The report."""
        report = []
        for split, part in self.data.items():
            report.append(
                f"{split}: {part['text']}: {part['pairs']:,} pairs kept, skipped {skipped_text(part)}; "
                f"{part['source_tokens']:,} source and {part['target_tokens']:,} target tokens"
            )
        updates = "as many updates as fit" if self.updates is None else f"{self.updates:,} updates"
        return [
            *report,
            f"vocabulary: {self.source_vocabulary:,} source and {self.target_vocabulary:,} target subwords",
            f"parameters: {self.parameters:,}",
            f"batches in an epoch: {self.batches_per_epoch:,}",
            f"memory: {self._memory()}",
            f"time: about {duration(self.seconds)} for {updates} ({self.seconds_per_update:.2f} s each, "
            f"{_count(self.workers, 'process', 'processes')} of {_count(self.threads, 'thread', 'threads')}, "
            f"{self.precision}; a budget includes validation, otherwise it comes on top)",
            "no model was written.",
        ]

    def _memory(self) -> str:
        if self.memory is None:
            return "unknown on this system"
        if self.launcher_memory is None:
            return f"about {self.memory / 1e9:.1f} GB in one process"
        launcher = f"{self.launcher_memory / 1e9:.1f} GB in the one that starts them"
        return f"about {self.memory / 1e9:.1f} GB in each of {self.workers} processes, {launcher}"


def _count(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"


@dataclass(frozen=True)
class Cost:
    """What one process of a training measures."""

    seconds_per_token: float  # of all processes together
    memory: int | None


def measure(task: PreparedTranslation, model: Predictor, device: torch.device, team: Team, folder: Path) -> DryRun:
    """The cost of updates in the processes of the team; several of them read `folder`, OUT/training."""
    prepared, settings, batches = task.prepared, task.settings, len(task.plan().epoch(0))
    if team.workers == 1:
        cost = cost_of_updates(task, model, device, Group())
    else:
        cost = _cost_in_ranks(folder, device, team)
    all_tokens = int(prepared.train.target_lengths.sum())
    each = cost.seconds_per_token * all_tokens / batches * settings.accumulate
    updates = updates_asked(settings, batches)
    whole = None if updates is None else updates * each
    if settings.budget is not None:
        whole = min(duration_seconds(settings.budget), whole or float("inf"))
        validation, every = _validation_seconds(prepared, cost.seconds_per_token), batches / settings.accumulate
        fitting = updates_in_budget(whole, each, validation, settings.validate_every or every)
        updates = max(1, min(fitting, updates or sys.maxsize))
    assert whole is not None
    tokenizers = prepared.tokenizers
    return DryRun(
        data=prepared.data,
        source_vocabulary=tokenizers.source.size,
        target_vocabulary=tokenizers.target.size,
        parameters=count_parameters(model),
        batches_per_epoch=batches,
        updates=updates,
        seconds_per_update=each,
        seconds=whole,
        workers=team.workers,
        threads=team.threads or torch.get_num_threads(),
        precision=settings.precision,
        memory=cost.memory,
        launcher_memory=None if team.workers == 1 else _peak_memory(),
    )


def cost_of_updates(task: PreparedTranslation, model: Predictor, device: torch.device, group: Group) -> Cost:
    """Run updates on the longest batch, for memory, and on typical ones, for time; modifies the model."""
    prepared, plan, accumulate = task.prepared, task.plan(), task.settings.accumulate
    optimizer = build_optimizer(model.train(), task.settings)
    group.attach(model)
    batches = sorted(plan.epoch(0), key=lambda indices: _padded(prepared, indices))
    longest, typical = plan.batch(batches[-1]), batches[len(batches) // 2 :][:TYPICAL]
    seconds_of_update(task, model, optimizer, [longest] * accumulate, device, group)
    seconds, tokens = 0.0, 0
    for indices in typical:
        batch = plan.batch(indices)
        seconds += seconds_of_update(task, model, optimizer, [batch], device, group)
        tokens += batch.target_tokens
    return Cost(seconds / tokens, _peak_memory())


def _cost_in_ranks(folder: Path, device: torch.device, team: Team) -> Cost:
    assert team.threads is not None
    call, words = "regard.training.dry_run:measure_as_rank", [str(folder), str(device)]
    return Cost(**answer_of_ranks(call, words, team.workers, team.threads))


def measure_as_rank() -> None:
    """One of these processes: reads OUT/training, the device and the file for the result from its words."""
    folder, device, result = Path(sys.argv[1]), usable_device(local_device(sys.argv[2])), Path(sys.argv[3])
    tune_process()
    end_with_launcher()
    with joined(device) as group:
        task = task_of(read_run(folder).recipe).open(folder)
        assert isinstance(task, PreparedTranslation)
        usable_precision(task.settings.precision, device)
        cost = cost_of_updates(task, task.build().to(device), device, group)
        if group.leads:
            write_json(result, asdict(cost))


def _validation_seconds(prepared: Prepared, seconds_per_token: float) -> float:
    if prepared.valid is None:
        return 0.0
    settings = prepared.recipe.training
    return validation_tokens(prepared.valid, settings.validation_bleu) * seconds_per_token


def _padded(prepared: Prepared, indices: npt.NDArray[np.int64]) -> int:
    """The cost of a batch: its padded tokens on both sides."""
    corpus = prepared.train
    return len(indices) * int(corpus.source_lengths[indices].max() + corpus.target_lengths[indices].max())


def _peak_memory() -> int | None:
    with suppress(OSError):  # Linux counts the peak of the process that started this one in ru_maxrss
        for line in Path("/proc/self/status").read_text("utf-8", "replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
