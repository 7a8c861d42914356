"""`regard train --dry-run`: read the text, run a few real updates, and estimate memory and time."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from regard.config.settings import duration_seconds
from regard.models.contract import Batch, Model
from regard.storage.card import skipped_text
from regard.training.budget import updates_asked
from regard.training.loop import add_gradient
from regard.training.optimizer import build_optimizer, clip
from regard.training.prepare import Prepared
from regard.training.progress import duration
from regard.training.schedule import updates_in_budget
from regard.training.start import count_parameters
from regard.training.tasks.translation import PreparedTranslation
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
    memory: int | None  # peak bytes of the process; None where the system does not report them

    def lines(self) -> list[str]:
        """The report."""
        report = []
        for split, part in self.data.items():
            report.append(
                f"{split}: {part['text']}: {part['pairs']:,} pairs kept, skipped {skipped_text(part)}; "
                f"{part['source_tokens']:,} source and {part['target_tokens']:,} target tokens"
            )
        memory = "unknown on this system" if self.memory is None else f"about {self.memory / 1e9:.1f} GB"
        updates = "as many updates as fit" if self.updates is None else f"{self.updates:,} updates"
        return [
            *report,
            f"vocabulary: {self.source_vocabulary:,} source and {self.target_vocabulary:,} target pieces",
            f"parameters: {self.parameters:,}",
            f"batches in an epoch: {self.batches_per_epoch:,}",
            f"memory: {memory}",
            f"time: about {duration(self.seconds)} for {updates} ({self.seconds_per_update:.2f} s each; a budget "
            "includes validation, otherwise it comes on top)",
            "nothing was written.",
        ]


def measure(task: PreparedTranslation, model: Model, device: torch.device) -> DryRun:
    """Run updates on the longest batch, for memory, and on typical ones, for time."""
    prepared, settings, plan = task.prepared, task.settings, task.plan()
    optimizer = build_optimizer(model.to(device).train(), settings)
    batches = plan.epoch(0)
    longest = max(batches, key=lambda indices: _padded(prepared, indices))
    middle = sorted(batches, key=lambda indices: _padded(prepared, indices))
    middle = middle[len(middle) // 2 :][:TYPICAL]
    _update(task, model, optimizer, [plan.batch(longest)] * settings.accumulate, device)
    seconds, tokens = 0.0, 0
    for indices in middle:
        batch = plan.batch(indices)
        started = time.perf_counter()
        _update(task, model, optimizer, [batch], device)
        seconds += time.perf_counter() - started
        tokens += batch.target_tokens
    all_tokens = int(prepared.train.target_lengths.sum())
    each = seconds / tokens * all_tokens / len(batches) * settings.accumulate
    updates = updates_asked(settings, len(batches))
    whole = None if updates is None else updates * each
    if settings.budget is not None:
        whole = min(duration_seconds(settings.budget), whole or float("inf"))
        validation, every = _validation_seconds(prepared, seconds / tokens), len(batches) / settings.accumulate
        fitting = updates_in_budget(whole, each, validation, settings.validate_every or every)
        updates = max(1, min(fitting, updates or sys.maxsize))
    assert whole is not None
    tokenizers = prepared.tokenizers
    return DryRun(
        data=prepared.data,
        source_vocabulary=tokenizers.source.size,
        target_vocabulary=tokenizers.target.size,
        parameters=count_parameters(model),
        batches_per_epoch=len(batches),
        updates=updates,
        seconds_per_update=each,
        seconds=whole,
        memory=_peak_memory(),
    )


def _validation_seconds(prepared: Prepared, seconds_per_token: float) -> float:
    if prepared.valid is None:
        return 0.0
    settings = prepared.recipe.training
    return validation_tokens(prepared.valid, settings.validation_bleu) * seconds_per_token


def _padded(prepared: Prepared, indices: npt.NDArray[np.int64]) -> int:
    """The cost of a batch: its padded tokens on both sides."""
    corpus = prepared.train
    return len(indices) * int(corpus.source_lengths[indices].max() + corpus.target_lengths[indices].max())


def _update(
    task: PreparedTranslation,
    model: Model,
    optimizer: torch.optim.Optimizer,
    batches: list[Batch],
    device: torch.device,
) -> None:
    optimizer.zero_grad(set_to_none=True)
    tokens = sum(batch.target_tokens for batch in batches)
    for batch in batches:
        add_gradient(task, model, batch, tokens, device, update=0, total=None)
    clip(model, task.settings.clip_norm)
    optimizer.step()


def _peak_memory() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
