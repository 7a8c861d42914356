"""Models of a server, loaded from folders, with their names and language pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.errors import ConfigError
from regard.inference.box import expanded, model_folder
from regard.inference.load import load
from regard.inference.translator import Translator
from regard.serve.examples import validation_samples
from regard.serve.image_models import ServedImageModel, served_images
from regard.serve.languages import Languages, languages_of, parse_pair


@dataclass(frozen=True)
class ServedModel:
    """A translator, its name in requests, and its language pair."""

    name: str
    translator: Translator
    languages: Languages
    samples: tuple[str, ...] = ()  # sentences of its validation text


class ServedModels:
    """All models of a server, in the order they were given; the first of a language pair translates it.

    Iterating yields the translators; `images` are the image models.
    """

    def __init__(self, models: Iterable[ServedModel], images: Iterable[ServedImageModel] = ()) -> None:
        translating, seeing = list(models), list(images)
        if not translating and not seeing:
            raise ConfigError("there is no model to serve: name at least one model folder.")
        self._by_name = {model.name: model for model in translating}
        self._seeing = {model.name: model for model in seeing}
        names = [model.name for model in translating] + [model.name for model in seeing]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f"two models are named {name!r}: rename one of them with NAME=FOLDER.")
        self._by_pair: dict[tuple[str, str], ServedModel] = {}
        for model in translating:
            self._by_pair.setdefault((model.languages.source, model.languages.target), model)

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def images(self) -> list[ServedImageModel]:
        """Image models."""
        return list(self._seeing.values())

    def named(self, name: str) -> ServedModel | None:
        """The translator with this name."""
        return self._by_name.get(name)

    def seeing(self, name: str) -> ServedImageModel | None:
        """The image model with this name."""
        return self._seeing.get(name)

    def translating(self, source: str, target: str) -> ServedModel | None:
        """The model from one language to another."""
        return self._by_pair.get((source, target))

    @property
    def languages(self) -> dict[str, list[str]]:
        """All languages, each with its sorted target languages, itself included."""
        codes = dict.fromkeys(code for pair in self._by_pair for code in pair)
        pairs = {*self._by_pair, *((code, code) for code in codes)}
        return {code: sorted(target for source, target in pairs if source == code) for code in codes}


def load_models(
    arguments: Sequence[str], languages: str | None = None, device: str = "cpu", overrides: Sequence[str] = ()
) -> ServedModels:
    """The models of `FOLDER` or `NAME=FOLDER` arguments; a folder may be an installed model, or a pattern of them.

    The language pair comes from `languages` ("de-en", for all), a NAME of that form, or the folder.
    `overrides` ("search.engine=ctranslate2") override the search settings of translators; unsupported models raise.
    """
    given = None
    if languages is not None and (given := parse_pair(languages)) is None:
        raise ConfigError(f"--languages {languages}: write it as source-target codes, such as de-en.")
    loaded = [_load(argument, given, device, overrides) for each in arguments for argument in expanded(each)]
    return ServedModels(
        [model for model in loaded if isinstance(model, ServedModel)],
        [model for model in loaded if isinstance(model, ServedImageModel)],
    )


def _load(
    argument: str, given: Languages | None, device: str, overrides: Sequence[str]
) -> ServedModel | ServedImageModel:
    name, equals, folder = argument.partition("=")
    if not equals or Path(argument).exists():
        name, folder = "", argument
    if equals and not name and folder != argument:
        raise ConfigError(f"{argument}: the name before = is empty: write NAME=FOLDER.")
    path = model_folder(folder)
    boxed = path != Path(folder)
    own_name = name or (folder if boxed else path.resolve().name)
    loaded = load(path, device)
    if not isinstance(loaded, Translator):
        return served_images(own_name, loaded)
    loaded.change_search(overrides)  # opens the engine: the first request does not wait for it
    languages = given or parse_pair(name) or languages_of(loaded.recipe, own_name)
    return ServedModel(own_name, loaded, languages, validation_samples(path))
