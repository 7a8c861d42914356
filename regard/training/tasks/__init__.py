"""The tasks: translation, captioning, classification. A recipe's model decides which one it is."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike

from regard.config.captioning import CaptionRecipe
from regard.config.recipes import TaskRecipe
from regard.config.settings import Recipe
from regard.data.images.image_set import ImageSet
from regard.data.text.parallel import TabbedFile
from regard.data.text.sources import NO_VALIDATION, FilePath, Given, Mix
from regard.errors import ConfigError
from regard.inference.captioner import Captioner
from regard.inference.classifier import Classifier
from regard.inference.folder import Folder
from regard.inference.translator import Translator
from regard.models.contract import MakeModel
from regard.training.task import Task
from regard.training.tasks.captioning import CaptioningTask
from regard.training.tasks.classification import ClassificationTask
from regard.training.tasks.translation import TranslationTask
from regard.training.watch import Watched

Data = Given | Mix | ImageSet
"""Text (see `Given`), a `Mix`, or images: a folder, a TSV file of captions, "toy:two-ears", an ImageSet."""

Trained = Translator | Captioner | Classifier
"""The model that training returns."""


def task_of(
    recipe: TaskRecipe,
    train: Data | None = None,
    valid: Data | None = None,
    *,
    model: MakeModel | None = None,
    start_from: Folder | None = None,
    watch: Sequence[Watched] = (),
) -> Task[Trained]:
    """The task of a recipe; data and options of another task are refused."""
    kind = recipe.model.kind
    if isinstance(recipe, Recipe):
        if isinstance(train, ImageSet) or isinstance(valid, ImageSet):
            raise ConfigError(f"a {kind} reads text, not images: give text, or another recipe.")
        return TranslationTask(recipe, train, valid, model, start_from, watch)
    columns = isinstance(train, TabbedFile) or isinstance(valid, TabbedFile)
    for name, given in {"model": model, "--from": start_from, "--watch-sentence": watch, "--columns": columns}.items():
        if given:
            raise ConfigError(f"{name}: is for models that read text, not for a {kind}: leave it out.")
    if isinstance(valid, str) and valid == NO_VALIDATION:
        raise ConfigError(f"--valid {valid}: a {kind} is always validated if it can be: leave it out.")
    images, valid_images = _images(train, kind), _images(valid, kind)
    if isinstance(recipe, CaptionRecipe):
        if isinstance(images, ImageSet) or isinstance(valid_images, ImageSet):
            raise ConfigError("a captioner learns from captions: give a TSV file of images and captions.")
        return CaptioningTask(recipe, images, valid_images)
    return ClassificationTask(recipe, images, valid_images)


def _images(given: Data | None, kind: str) -> FilePath | ImageSet | None:
    if given is None or isinstance(given, str | PathLike | ImageSet):
        return given
    raise ConfigError(f"a {kind} reads images: give one folder or file of images, not a pair and not sentences.")
