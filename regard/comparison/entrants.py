"""What is compared: a recipe, a recipe with changed settings, or a trained model.

luong                                        a recipe, trained under the common budget
luong:model.score=dot,model.layers=1         the same with changed settings
models/de-en, de-en/luong, de-en/*           a model folder or installed models, evaluated as they are
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from regard.config.captioning import CaptionRecipe
from regard.config.classification import ClassifierRecipe
from regard.config.recipes import TaskRecipe, load_recipe, recipe_names, recipe_type, with_overrides
from regard.config.settings import Recipe
from regard.errors import ConfigError, did_you_mean
from regard.inference.box import boxed_names, expanded, model_folder
from regard.storage.folder import holds_finished_model, read_table

_COMMA = re.compile(r",(?![^\[]*\])")  # between settings, not inside a list such as [0.9,0.98]
TASKS: dict[type[TaskRecipe], str] = {
    Recipe: "translation",
    CaptionRecipe: "captioning",
    ClassifierRecipe: "classification",
}


@dataclass(frozen=True)
class Entrant:
    """One thing to compare; `folder` is that of a trained model, else the recipe is trained."""

    name: str
    task: str
    recipe: TaskRecipe | None = None
    folder: Path | None = None
    slug: str = field(default="", compare=False)  # the name as part of a file name


def parse_entrants(words: Sequence[str], overrides: Sequence[str]) -> list[Entrant]:
    """The entrants of a command line; all must be of one task and none twice."""
    entrants = [_parse(word, overrides) for each in words for word in expanded(each)]
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


def _parse(word: str, overrides: Sequence[str]) -> Entrant:
    name, _, settings = word.partition(":")
    if not settings and (holds_finished_model(Path(word)) or word in boxed_names()):
        folder = model_folder(word)
        task = TASKS[recipe_type(read_table(folder)[0])]
        return Entrant(word.rstrip("/"), task, folder=folder, slug=slug(word))
    if not settings and Path(word).is_dir() and word not in recipe_names():
        raise ConfigError(f"{word}: is a folder, but not of a finished model: name a recipe or a model folder.")
    changes = [change for change in _COMMA.split(settings) if change]
    for change in changes:
        if "=" not in change:
            raise ConfigError(f"{word}: {change!r} is no setting: write RECIPE:KEY=VALUE,KEY=VALUE.")
    if name not in recipe_names() and not Path(name).is_file():
        raise ConfigError(f"{name}: there is no such recipe or model folder: {did_you_mean(name, recipe_names())}")
    recipe = load_recipe(name, [*overrides, *changes])
    return Entrant(word, TASKS[type(recipe)], recipe=recipe, slug=slug(word))


def labels(names: Sequence[str]) -> list[str]:
    """Short names for figures: settings that all variants of a recipe share are left out, and so is their table."""
    split = {name: (name.partition(":")[0], _COMMA.split(name.partition(":")[2])) for name in names}
    short = []
    for recipe, settings in split.values():
        siblings = [set(others) for other, others in split.values() if other == recipe]
        shared = set.intersection(*siblings) if len(siblings) > 1 else set()
        told = [setting.partition(".")[2] or setting for setting in settings if setting and setting not in shared]
        short.append(" ".join([recipe, ", ".join(told)]).strip())
    return short if len(set(short)) == len(short) else list(names)


def slug(name: str) -> str:
    """A name for files: letters, digits, dots and dashes."""
    return re.sub(r"[^\w.=-]+", "-", name).strip("-.")


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
