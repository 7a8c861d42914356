"""`regard.load`: any model folder, opened as what it holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, overload

from regard.config.captioning import CaptionRecipe
from regard.config.classification import ClassifierRecipe
from regard.config.recipes import recipe_type
from regard.inference.box import model_folder
from regard.inference.translator import Translator
from regard.storage.folder import read_table

if TYPE_CHECKING:
    from regard.inference.captioner import Captioner
    from regard.inference.classifier import Classifier
    from regard.models.contract import MakeModel


@overload
def load(folder: str | Path, device: str = ..., model: None = ...) -> Translator | Captioner | Classifier: ...


@overload
def load(folder: str | Path, device: str = ..., *, model: MakeModel) -> Translator: ...


def load(
    folder: str | Path, device: str = "cpu", model: MakeModel | None = None
) -> Translator | Captioner | Classifier:
    """The model of a folder, or an installed one such as "de-en": a Translator, a Captioner or a Classifier.

    `model` is your own model, if you gave one to `train`.
    """
    folder = model_folder(folder)
    recipe = recipe_type(read_table(folder)[0])
    if recipe is CaptionRecipe:
        from regard.inference.captioner import Captioner

        return Captioner.load(folder, device)
    if recipe is ClassifierRecipe:
        from regard.inference.classifier import Classifier

        return Classifier.load(folder, device)
    return Translator.load(folder, device=device, model=model)
