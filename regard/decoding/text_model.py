"""A text model with its tokenizers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING

from regard.config.settings import SearchSettings
from regard.data.text.hashes import Fingerprint
from regard.data.text.tokenizer import Tokenizer
from regard.decoding.shortlist import Shortlist
from regard.errors import ConfigError
from regard.process import thread_count
from regard.storage.compiled import Compiled

if TYPE_CHECKING:
    from regard.config.models import ModelConfig
    from regard.models.contract import Model


class LazyModel:
    """The torch model, read at first use: a compiled engine translates without it, and without importing torch."""

    def __init__(self, read: Callable[[], Model]) -> None:
        self._read = read
        self._model: Model | None = None
        self._lock = Lock()

    def get(self) -> Model:
        """The model; read now if it was not yet."""
        with self._lock:
            if self._model is None:
                self._model = self._read()
            return self._model

    def after_fork(self) -> None:
        """Replace the lock in a forked process: a thread of the parent may have held it."""
        self._lock = Lock()


@dataclass(frozen=True)
class TextModel:
    """A model with its tokenizers; engines are made from it."""

    lazy_model: LazyModel
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    device: str = "cpu"
    name: str = ""
    shortlist: Shortlist | None = None
    seen_words: Fingerprint | None = None  # of the training text; None: unknown
    threads: int = field(default_factory=thread_count)  # for engines with their own threads
    workers: int = 1  # processes of the torch engine
    settings: ModelConfig | None = None  # of a single model that Regard built
    compiled: Compiled = field(default_factory=Compiled)
    int8_loss: float | None = None  # BLEU lost in int8 on the validation sentences; None: not measured

    @property
    def model(self) -> Model:
        """The torch model."""
        return self.lazy_model.get()

    def shortlist_for(self, settings: SearchSettings) -> Shortlist | None:
        """The shortlist, if the settings ask for it."""
        if not settings.shortlist:
            return None
        if self.shortlist is None:
            raise ConfigError(
                f"{self.name}: this model has no shortlist: `regard shortlist` makes one for a model folder; "
                "or translate without (search.shortlist = false)."
            )
        return self.shortlist

    def replaces_unknown(self, settings: SearchSettings) -> bool:
        """Whether a search records the most attended source position for <unk> replacement."""
        has_attention = self.settings is None or self.settings.kind != "seq2seq"
        return settings.replace_unknown and self.target_tokenizer.says_unknown and has_attention


def join_models(models: Sequence[TextModel]) -> TextModel:
    """An ensemble of models that share their tokenizers; it has no shortlist."""
    from regard.models.ensemble import Ensemble

    first = models[0]
    for number, other in enumerate(models[1:], 2):
        for side in ("source_tokenizer", "target_tokenizer"):
            if getattr(other, side) != getattr(first, side):
                raise ConfigError(
                    f"ensemble: the {side.replace('_', ' ')} of model {number} differs from that of the first: "
                    "train the models with the same vocabularies (`regard train --from`)."
                )
    ensemble = Ensemble([each.model for each in models])
    name = " + ".join(each.name for each in models)
    return replace(
        first,
        lazy_model=LazyModel(lambda: ensemble),
        name=name,
        shortlist=None,
        settings=None,
        compiled=Compiled(),
        int8_loss=None,
    )
