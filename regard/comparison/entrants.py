"""What is compared: a recipe, a recipe with changed settings, or a trained model.

luong                                        a recipe, trained under the common budget
luong:model.score=dot,model.layers=1         the same with changed settings
models/de-en, de-en/luong, de-en/*           a model folder or installed models, evaluated as they are
de-en/luong:search.beam=1                    the same with changed search settings
luong:model.score={dot,general}              a grid: one entrant for each value

If a recipe and a group of installed models share a name, such as two-ears, it means the recipe; two-ears/bam is the
model.

Search settings do not change a training: variants that differ in nothing else are trained once.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from regard.comparison.grid import parts, variants
from regard.config.captioning import CaptionRecipe
from regard.config.classification import ClassifierRecipe
from regard.config.recipes import TaskRecipe, load_recipe, recipe_names, recipe_type, with_overrides
from regard.config.settings import Recipe
from regard.config.vocabulary import SPECIAL_PIECES
from regard.errors import ConfigError, did_you_mean
from regard.inference.box import boxed_names, expanded, model_folder
from regard.models import build_model
from regard.storage.folder import holds_finished_model, read_config, read_table

SEARCH = "search."
TASKS: dict[type[TaskRecipe], str] = {
    Recipe: "translation",
    CaptionRecipe: "captioning",
    ClassifierRecipe: "classification",
}


class SkippedVariant(UserWarning):
    """A combination of a grid that no model allows."""


@dataclass(frozen=True)
class Entrant:
    """One thing to compare; `folder` is that of a trained model, else the recipe is trained."""

    name: str
    task: str
    recipe: TaskRecipe | None = None
    folder: Path | None = None
    search: tuple[str, ...] = ()  # changed search settings, search.key=value
    slug: str = field(default="", compare=False)  # the name as part of a file name
    training: str = field(default="", compare=False)  # the same without search settings


def parse_entrants(words: Sequence[str], overrides: Sequence[str]) -> list[Entrant]:
    """The entrants of a command line; all must be of one task and none twice."""
    entrants = [entrant for word in words for entrant in _grid(word, overrides)]
    if not entrants:
        raise ConfigError("nothing to compare: name recipes (see `regard recipes`) or model folders.")
    names = [entrant.name for entrant in entrants]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{name}: is named twice: name each once, and use --seeds for repeated trainings.")
    tasks = {entrant.task: entrant.name for entrant in entrants}
    if len(tasks) > 1:
        told = " and ".join(f"{name} ({task})" for task, name in tasks.items())
        raise ConfigError(f"{told} are of different tasks: compare models of one task.")
    return entrants


def _grid(word: str, overrides: Sequence[str]) -> list[Entrant]:
    """The entrants of a word with braces; a combination that contradicts itself is skipped with a warning.

    A setting that is wrong in every combination is wrong by itself, and raises.
    """
    found: list[Entrant] = []
    refused: dict[str, ConfigError] = {}
    for variant in variants(word):
        model, colon, settings = variant.partition(":")
        for name in expanded(model):
            try:
                found.append(_parse(f"{name}{colon}{settings}", overrides))
            except ConfigError as error:
                refused[f"{name}{colon}{settings}"] = error
    good = {part for entrant in found for part in parts(entrant.name)}
    for name, reason in refused.items():
        if not good.issuperset(parts(name)):
            raise reason
        warnings.warn(f"{name} is skipped: {reason}", SkippedVariant, stacklevel=3)
    return found


def _parse(word: str, overrides: Sequence[str]) -> Entrant:
    name, *changes = parts(word)
    for change in changes:
        if "=" not in change:
            raise ConfigError(f"{word}: {change!r} is no setting: write RECIPE:KEY=VALUE,KEY=VALUE.")
    search = tuple(change for change in changes if change.startswith(SEARCH))
    others = [change for change in changes if change not in search]
    installed = name in boxed_names() and name not in recipe_names()  # a group may have the name of a recipe
    if installed or holds_finished_model(Path(name)):
        return _trained(word, name, search, others)
    if not changes and Path(name).is_dir() and name not in recipe_names():
        raise ConfigError(f"{name}: is a folder, but not of a finished model: name a recipe or a model folder.")
    if name not in recipe_names() and not Path(name).is_file():
        raise ConfigError(f"{name}: there is no such recipe or model folder: {did_you_mean(name, recipe_names())}")
    recipe = load_recipe(name, [*overrides, *others])
    _check_search(recipe, search)
    _check_sizes(name, recipe)
    training = slug(f"{name}:{','.join(others)}" if others else name)
    return Entrant(word, TASKS[type(recipe)], recipe=recipe, search=search, slug=slug(word), training=training)


def _trained(word: str, name: str, search: tuple[str, ...], others: Sequence[str]) -> Entrant:
    if others:
        raise ConfigError(f"{name}: is trained, {others[0]} cannot change it: only search settings can, {SEARCH}KEY.")
    folder = model_folder(name)
    kind = recipe_type(read_table(folder)[0])
    if search:
        _check_search(read_config(folder, kind)[0], search)
    word = word.rstrip("/")
    return Entrant(word, TASKS[kind], folder=folder, search=search, slug=slug(word))


def _check_search(recipe: TaskRecipe, search: Sequence[str]) -> None:
    """Refuse wrong search settings before anything is trained."""
    if search and not isinstance(recipe, Recipe):
        raise ConfigError(f"{search[0]}: only translation models are compared by search settings: leave it out.")
    with_overrides(recipe, search)


def _check_sizes(name: str, recipe: TaskRecipe) -> None:
    """Refuse sizes that do not fit before anything is trained; the meta device allocates nothing."""
    if not isinstance(recipe, Recipe):
        return
    try:
        with torch.device("meta"):
            build_model(recipe.model, len(SPECIAL_PIECES), len(SPECIAL_PIECES))
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


def slug(name: str) -> str:
    """A name for files: letters, digits, dots and dashes; with a digest where other signs are replaced."""
    plain = re.sub(r"[^\w.=-]+", "-", name).strip("-.")
    return plain if plain == name else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def with_common_text(entrants: Sequence[Entrant], vocabulary: int | None) -> list[Entrant]:
    """Translation recipes with one joint vocabulary of the same size, so that tokens are comparable."""
    texts = [entrant.recipe.text for entrant in entrants if isinstance(entrant.recipe, Recipe)]
    if not texts:
        return list(entrants)
    size = vocabulary or max(text.vocabulary_size for text in texts)
    common = ["text.joint=true", f"text.vocabulary_size={size}", f"text.tokenizer={texts[0].tokenizer}"]
    return [
        replace(each, recipe=with_overrides(each.recipe, common)) if isinstance(each.recipe, Recipe) else each
        for each in entrants
    ]


def with_one_precision(entrants: Sequence[Entrant]) -> list[Entrant]:
    """`training.precision = "auto"` is float32: measured for each training, it could differ from one to the next."""
    return [
        replace(each, recipe=with_overrides(each.recipe, ["training.precision=float32"]))
        if each.recipe is not None and each.recipe.training.precision == "auto"
        else each
        for each in entrants
    ]
