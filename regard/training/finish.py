"""From the end of the loop to a model folder."""

from __future__ import annotations

import time
from typing import Any

from regard.folder import load_tensors, model_tensors, write_folder
from regard.training.card import model_card
from regard.training.checkpoint import average
from regard.training.loop import Run, stop_if_asked
from regard.training.prepare import Prepared
from regard.training.progress import duration
from regard.translator import Translator


def finish(run: Run, prepared: Prepared, own: bool) -> Translator:
    """Choose or average the weights, write the model folder, and open it."""
    valid = choose_weights(run)
    metrics = _metrics(run, prepared, valid)
    kind = type(run.model)
    model_class = f"{kind.__module__}.{kind.__qualname__}" if own else None
    write_folder(
        run.out,
        recipe=prepared.recipe,
        source_tokenizer=prepared.tokenizers.source,
        target_tokenizer=prepared.tokenizers.target,
        weights=model_tensors(run.model),
        metrics=metrics,
        card=model_card(prepared.recipe, metrics, run.out.resolve().name, model_class),
        fingerprint=prepared.hashes,
        model_class=model_class,
    )
    run.log.write("finished", run.state.update, {"seconds": run.state.seconds})
    run.reporter.say(_farewell(run, valid))
    tokenizers = prepared.tokenizers
    return Translator(
        run.model, prepared.recipe, tokenizers.source, tokenizers.target, metrics=metrics, device=run.device
    )


def choose_weights(run: Run) -> dict[str, Any]:
    """Put the chosen weights into the model, and return what validation says of them."""
    snapshots = run.state.snapshots
    if not snapshots:
        return {}  # the last weights, which the model has
    weights = [run.checkpoints.kept_weights(snapshot) for snapshot in snapshots]
    load_tensors(run.model, average(weights), run.checkpoints.folder)
    if run.validator is None:
        return {}
    if [snapshot.update for snapshot in snapshots] == [run.state.best_update]:
        return run.state.best_validation
    result = run.validator(run.model, stop_if_asked(run))
    run.reporter.say(f"average of {len(weights)} checkpoints: loss {result.loss:.3f}" + _bleu(result.to_dict()))
    return result.to_dict()


def _metrics(run: Run, prepared: Prepared, valid: dict[str, Any]) -> dict[str, Any]:
    state = run.state
    batches = len(run.plan.epoch(state.epoch))
    metrics: dict[str, Any] = {
        "updates": state.update,
        "best_update": state.best_update or state.update,
        "epochs": state.epoch + state.position / batches,
        "tokens": state.tokens,
        "seconds": state.seconds,
        "stopped_early": state.stopped_early,
        "parameters": sum(parameter.numel() for parameter in run.model.parameters()),
        "source_vocabulary": prepared.tokenizers.source.size,
        "target_vocabulary": prepared.tokenizers.target.size,
        "data": prepared.data,
        "machine": run.machine.to_dict(),
        "finished": time.strftime("%Y-%m-%d"),
    }
    if valid:
        metrics["valid"] = valid
    return metrics


def _bleu(valid: dict[str, Any]) -> str:
    return f"  BLEU {valid['bleu']:.1f}" if "bleu" in valid else ""


def _farewell(run: Run, valid: dict[str, Any]) -> str:
    state = run.state
    why = "stopped early" if state.stopped_early else "done"
    quality = f"; validation loss {valid['loss']:.3f}{_bleu(valid)}" if valid else ""
    return f"{why} after {state.update:,} updates in {duration(state.seconds)}{quality}; the model is in {run.out}"
