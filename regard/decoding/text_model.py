"""A text model with its tokenizers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch

from regard.config.settings import SearchSettings
from regard.data.text.overlap import Fingerprint
from regard.data.text.tokenizer import Tokenizer
from regard.decoding.shortlist import Shortlist
from regard.errors import ConfigError
from regard.models.contract import Model
from regard.models.ensemble import Ensemble


@dataclass(frozen=True)
class TextModel:
    """A model with its tokenizers; engines are made from it."""

    model: Model
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    device: torch.device
    name: str = ""
    shortlist: Shortlist | None = None
    seen_words: Fingerprint | None = None  # of the training text; None: unknown
    threads: int = field(default_factory=torch.get_num_threads)  # for engines with their own threads

    def shortlist_for(self, settings: SearchSettings) -> Shortlist | None:
        """The shortlist, if the settings ask for it."""
        if not settings.shortlist:
            return None
        if self.shortlist is None:
            raise ConfigError(
                f"{self.name}: this model has no shortlist: make one with `regard shortlist MODEL`, "
                "or translate without (search.shortlist = false)."
            )
        return self.shortlist

    def replaces_unknown(self, settings: SearchSettings) -> bool:
        """Whether a search records the most attended source position for <unk> replacement."""
        return settings.replace_unknown and self.target_tokenizer.says_unknown


def join_models(models: Sequence[TextModel]) -> TextModel:
    """An ensemble of models that share their tokenizers; it has no shortlist."""
    first = models[0]
    for number, other in enumerate(models[1:], 2):
        for side in ("source_tokenizer", "target_tokenizer"):
            if getattr(other, side) != getattr(first, side):
                raise ConfigError(
                    f"ensemble: the {side.replace('_', ' ')} of model {number} differs from that of the first: "
                    "train the models with the same vocabularies (`regard train --from`)."
                )
    ensemble = Ensemble([each.model for each in models])
    return replace(first, model=ensemble, name=" + ".join(each.name for each in models), shortlist=None)
