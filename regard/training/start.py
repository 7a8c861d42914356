"""What a training starts from: the recipe that is meant, a free folder, and a model with its first weights."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from shlex import quote

import torch

from regard.config.recipes import load_recipe, with_overrides
from regard.config.settings import Recipe
from regard.data.text.vectors import read_vectors
from regard.errors import ConfigError, ContractError, ModelFolderError
from regard.evaluation.forced_references import why_no_alignment
from regard.models import build_model
from regard.models.contract import MakeModel, Model, Predictor
from regard.storage.folder import Folder, holds_finished_model, load_tensors, read_folder
from regard.training.checkpoint import Checkpoints
from regard.training.loop import seed_of
from regard.training.prepare import RUN, Prepared
from regard.training.progress import Reporter

FilePath = str | PathLike[str]


def choose_recipe(
    recipe: Recipe | FilePath | None, start_from: FilePath | None, overrides: Sequence[str]
) -> tuple[Recipe, Folder | None]:
    """The recipe with its overrides; a folder to start from gives the model, the text and, if need be, the rest."""
    folder = None if start_from is None else read_folder(Path(start_from))
    if folder is None:
        if recipe is None:
            raise ConfigError("no recipe was given: name one (see `regard recipes`), or a model with --from.")
        if isinstance(recipe, Recipe):
            return with_overrides(recipe, overrides), None
        return load_recipe(Path(recipe), overrides), None
    if recipe is None:
        return with_overrides(folder.recipe, overrides), folder
    given = recipe if isinstance(recipe, Recipe) else load_recipe(Path(recipe))
    merged = given.model_copy(update={"model": folder.recipe.model, "text": folder.recipe.text})
    return with_overrides(merged, overrides), folder


def check_out(out: Path, overwrite: bool, command: str = "regard train") -> None:
    """Refuse a folder that is not free."""
    if out.exists() and not out.is_dir():
        raise ModelFolderError(f"{out}: is a file: choose another --out folder.")
    if overwrite:
        return
    if holds_finished_model(out):
        raise ModelFolderError(f"{out}: holds a model already: choose another --out, or add --overwrite to replace it.")
    training = out / "training"
    if (training / RUN).exists():
        if Checkpoints(training).latest() is None:
            raise ModelFolderError(f"{out}: holds a training without a checkpoint: add --overwrite to replace it.")
        resume = f"{command} --resume {quote(str(out))}"
        raise ModelFolderError(f"{out}: holds an unfinished training: go on with `{resume}`, or add --overwrite.")


def start_model(prepared: Prepared, model: MakeModel | None, start: Folder | None, reporter: Reporter) -> Model:
    """A model with its first weights: from the seed, from pretrained vectors, or from another model."""
    built = build(prepared, model)
    if start is not None:
        load_tensors(built, start.weights(), start.path)
    elif model is None:
        _start_vectors(prepared, built, reporter)
    if prepared.guide is not None and (reason := why_no_alignment(built)) is not None:
        raise ConfigError(f"training.guided_attention: {reason}")
    reporter.say(f"{type(built).__name__} with {count_parameters(built):,} parameters")
    return built


def count_parameters(model: Predictor) -> int:
    """The number of weights, shared ones once."""
    return sum(parameter.numel() for parameter in model.parameters())


def build(prepared: Prepared, model: MakeModel | None) -> Model:
    """The recipe's model, or the user's own; weights drawn from the seed."""
    source, target = prepared.tokenizers.source.size, prepared.tokenizers.target.size
    torch.manual_seed(seed_of(prepared.recipe.training.seed, 0))
    if model is None:
        return build_model(prepared.recipe.model, source, target)
    built = model if isinstance(model, Model) else model(source, target)
    if not isinstance(built, Model):
        raise ContractError(f"{type(built).__name__} is no regard.models.contract.Model: derive it from that class.")
    if built.vocabulary_size != target:
        raise ContractError(
            f"the model has {built.vocabulary_size} output words, the target vocabulary {target}: pass "
            "model=lambda source, target: YourModel(source, target), which is called with the right sizes."
        )
    return built


@torch.no_grad()
def _start_vectors(prepared: Prepared, model: Model, reporter: Reporter) -> None:
    """Put pretrained vectors into the embeddings, for the pieces that have one."""
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
        reporter.say(f"{path}: vectors for {found:,} of {tokenizer.size:,} {side} pieces")
