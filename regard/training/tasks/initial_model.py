"""A translation model with its initial weights: from the seed, from pretrained vectors, or from another model."""

from __future__ import annotations

import torch

from regard.data.text.vectors import read_vectors
from regard.errors import ConfigError, ContractError
from regard.evaluation.forced_references import why_no_alignment
from regard.inference.folder import Folder
from regard.models import build_model
from regard.models.contract import MakeModel, Model
from regard.storage.weights import load_tensors
from regard.training.loop import seed_of
from regard.training.prepare import Prepared
from regard.training.progress import Reporter
from regard.training.start import count_parameters


def initial_model(prepared: Prepared, model: MakeModel | None, start: Folder | None, reporter: Reporter) -> Model:
    """The initial model of a new training."""
    built = build(prepared, model)
    if start is not None:
        load_tensors(built, start.weights(), start.path)
    elif model is None:
        _start_vectors(prepared, built, reporter)
    if prepared.guide is not None and (reason := why_no_alignment(built)) is not None:
        raise ConfigError(f"training.guided_attention: {reason}")
    reporter.say(f"{type(built).__name__} with {count_parameters(built):,} parameters")
    return built


def build(prepared: Prepared, model: MakeModel | None) -> Model:
    """The recipe's model, or the user's own, initialised from the seed."""
    source, target = prepared.tokenizers.source.size, prepared.tokenizers.target.size
    torch.manual_seed(seed_of(prepared.recipe.training.seed, 0))
    if model is None:
        return build_model(prepared.recipe.model, source, target)
    built = model if isinstance(model, Model) else model(source, target)
    if not isinstance(built, Model):
        raise ContractError(f"{type(built).__name__} is not a regard.models.contract.Model: derive it from that class.")
    if built.vocabulary_size != target:
        raise ContractError(
            f"the model has {built.vocabulary_size} output words, the target vocabulary {target}: pass "
            "model=lambda source, target: YourModel(source, target), which is called with the right sizes."
        )
    return built


@torch.no_grad()
def _start_vectors(prepared: Prepared, model: Model, reporter: Reporter) -> None:
    """Initialise embeddings with pretrained vectors, for pieces that have one."""
    settings, tokenizers = prepared.recipe.model, prepared.tokenizers
    for side, path, tokenizer in (
        ("source", settings.source_vectors, tokenizers.source),
        ("target", settings.target_vectors, tokenizers.target),
    ):
        if path is None:
            continue
        rows, found = read_vectors(path, tokenizer, settings.embedding_size)
        weight = model.get_parameter(f"embeddings.{side}.weight")
        for piece, vector in rows.items():
            weight[piece] = torch.from_numpy(vector)
        reporter.say(f"{path}: vectors for {found:,} of {tokenizer.size:,} {side} subwords")
