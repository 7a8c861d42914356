"""Pickling a translator, as multiprocessing does: the folder and the settings, never weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from regard.config.settings import SearchSettings
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.inference.translator import Translator


def reduced(translator: Translator) -> tuple[Callable[..., Translator], tuple[Any, ...]]:
    """How to make the translator anew in another process."""
    search = translator.recipe.search.model_dump()
    if translator.parts:
        return _join, (translator.parts, search)
    if translator.folder is None:
        raise ConfigError(
            f"{translator.name}: cannot be pickled, since a pickle holds the folder of a model and no weights, and "
            "this model was not loaded from one (or has a class of your own): load it in each process."
        )
    return _open, (str(translator.folder.resolve()), translator._model.device, search)


def _open(folder: str, device: str, search: dict[str, Any]) -> Translator:
    from regard.inference.translator import Translator

    return _with_search(Translator.load(folder, device), search)


def _join(parts: tuple[Translator, ...], search: dict[str, Any]) -> Translator:
    from regard.inference.translator import Translator

    return _with_search(Translator.ensemble(parts), search)


def _with_search(translator: Translator, search: dict[str, Any]) -> Translator:
    settings = SearchSettings.model_validate(search)
    translator.recipe = translator.recipe.model_copy(update={"search": settings})
    return translator
