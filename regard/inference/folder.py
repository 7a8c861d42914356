"""The folder of a translation model: reading and writing recipe, weights and tokenizers."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.config.settings import Recipe
from regard.data.text.hashes import Fingerprint
from regard.data.text.overlap import load_fingerprint
from regard.data.text.tokenizer import Tokenizer
from regard.decoding.shortlist import read_shortlist
from regard.decoding.text_model import LazyModel, TextModel
from regard.errors import ModelChanged, ModelFolderError, RegardError
from regard.process import device_name, tune_torch
from regard.storage.arrays import read_shapes
from regard.storage.compiled import Compiled
from regard.storage.folder import (
    CONFIG,
    FINGERPRINT_FILE,
    JOINT,
    SOURCE,
    TARGET,
    WEIGHTS,
    WORDS_FILE,
    read_config,
    read_metrics,
    write_model,
)
from regard.storage.reading import RESTORE, HeldFile, check_regular, exists, short

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from regard.models.contract import MakeModel, Model


@dataclass(frozen=True)
class Folder:
    """A validated model folder; the weights are read lazily."""

    path: Path
    recipe: Recipe
    version: str
    model_class: str | None  # the class of a user's own model, which only the user can build
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    metrics: dict[str, Any]
    compiled: Compiled

    def weights(self) -> dict[str, Tensor]:
        """The tensors of model.safetensors."""
        from regard.storage.weights import read_tensors

        return read_tensors(self.path / WEIGHTS)

    def model(self, own: MakeModel | None = None, weights: Path | None = None) -> Model:
        """The model with its weights, ready to translate; `own` is or builds the user's, if the folder holds one.

        `weights` is another path to the same file.
        """
        from regard.models import build_model
        from regard.models.contract import Model
        from regard.storage.weights import build_checked, load_tensors, read_tensors

        sizes = self.source_tokenizer.size, self.target_tokenizer.size
        model = own if own is None or isinstance(own, Model) else own(*sizes)
        if model is None:
            if self.model_class is not None:
                raise ModelFolderError(
                    f"{self.path}: holds a model of the class {self.model_class}, which Regard cannot build: "
                    "build it yourself and pass it as `model`."
                )
            model = build_checked(lambda: build_model(self.recipe.model, *sizes), weights or self.path / WEIGHTS)
        load_tensors(model, read_tensors(weights or self.path / WEIGHTS), self.path / WEIGHTS)
        return model.eval()

    def text_model(self, device: str | torch.device, own: MakeModel | None = None) -> TextModel:
        """The model with its tokenizers; unless it is the user's own, its weights are read when they are needed."""
        name = device_name(device)
        absolute = replace(self, path=self.path.absolute())  # the working directory may change before that
        held = HeldFile(absolute.path / WEIGHTS)  # a training may replace the model before that
        changed = ModelChanged(f"{self.path.resolve().name}: has changed since it was opened: load it again.")
        if self.compiled.is_of_another_model:  # the tokenizers were read before
            raise changed

        def read_model() -> Model:
            tune_torch()
            read = absolute.model(own, held.path)
            if held.has_changed:
                raise changed
            return read.to(name)

        source, target = self.source_tokenizer, self.target_tokenizer
        shortlist = read_shortlist(self.path, source, target)
        seen_words = load_fingerprint(self.path, WORDS_FILE)
        model = TextModel(LazyModel(read_model), source, target, name, self.path.resolve().name, shortlist, seen_words)
        if own is None and self.model_class is None:
            read_shapes(self.path / WEIGHTS)  # a damaged file is refused at once
            return replace(model, settings=self.recipe.model, compiled=self.compiled, int8_loss=int8_loss(self.metrics))
        model.lazy_model.get()
        return model


def int8_loss(metrics: Mapping[str, Any]) -> float | None:
    """The BLEU lost in int8, as training measured it."""
    measured = metrics.get("int8")
    if not isinstance(measured, dict):
        return None
    exact, rounded = measured.get("float32_bleu"), measured.get("int8_bleu")
    return exact - rounded if isinstance(exact, float) and isinstance(rounded, float) else None


def read_folder(path: str | Path) -> Folder:
    """Read and check a model folder."""
    path = Path(path)
    compiled = Compiled(path.absolute())  # first: it belongs to the files that are read below
    recipe, about = read_config(path, Recipe)
    if exists(path / JOINT):
        source = target = read_tokenizer(path / JOINT)
    else:
        source, target = read_tokenizer(path / SOURCE), read_tokenizer(path / TARGET)
    check_regular(path / WEIGHTS)
    own_class = about.get("model_class")
    if own_class is not None and not isinstance(own_class, str):
        raise ModelFolderError(f"{path / CONFIG}: is damaged (model_class is no name): {RESTORE}.")
    version = str(about.get("version", "?"))
    return Folder(path, recipe, version, own_class, source, target, read_metrics(path), compiled)


def write_folder(
    path: Path,
    *,
    recipe: Recipe,
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    weights: Mapping[str, Tensor],
    metrics: Mapping[str, Any],
    card: str,
    fingerprint: Fingerprint | None = None,
    words: Fingerprint | None = None,
    model_class: str | None = None,
) -> None:
    """Write the folder of a translation model."""
    if source_tokenizer is target_tokenizer:
        files = {JOINT: source_tokenizer.to_json().encode()}
    else:
        files = {SOURCE: source_tokenizer.to_json().encode(), TARGET: target_tokenizer.to_json().encode()}
    for name, hashes in ((FINGERPRINT_FILE, fingerprint), (WORDS_FILE, words)):
        if hashes is not None:
            buffer = io.BytesIO()
            np.save(buffer, hashes.astype("<u8"), allow_pickle=False)
            files[name] = buffer.getvalue()
    about = {"model_class": model_class}
    write_model(path, recipe=recipe, weights=weights, metrics=metrics, card=card, files=files, about=about)


def read_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer in a file of a model folder."""
    if not exists(path):
        raise ModelFolderError(f"{path}: is missing: {RESTORE}.")
    try:
        return Tokenizer.load(path)
    except RegardError as error:
        raise ModelFolderError(f"{path}: {error}") from None
    except Exception as error:  # tokenizers raises bare Exception for a damaged file
        raise ModelFolderError(f"{path}: is damaged ({short(error)}): {RESTORE}.") from None
