"""The lines that `repr` shows of models and their results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.config.settings import Recipe
from regard.decoding.text_model import TextModel

if TYPE_CHECKING:
    from torch import nn

LONGEST = 60  # characters of a text


def translator_line(model: TextModel, recipe: Recipe, engine: str, parts: int = 0) -> str:
    """Name, kind, sizes, device and engine of a translator; `parts` is the number of models in an ensemble."""
    settings = recipe.model
    from regard.models import MODELS

    own = not parts and type(model.model) is not MODELS[settings.kind]
    kind = type(model.model).__name__ if own else settings.kind
    facts = [
        f"vocabularies {model.source_tokenizer.size:,} → {model.target_tokenizer.size:,}",
        model.device,
        f"engine {engine}",
    ]
    return model_line("Translator", model.name, f"ensemble of {parts}" if parts else kind, model.model, facts)


def model_line(role: str, name: str, kind: str, module: nn.Module, facts: list[str]) -> str:
    """A model with its parameters and further facts."""
    parameters = short_number(sum(parameter.numel() for parameter in module.parameters()))
    return f"<{role} {name}: {', '.join([kind, f'{parameters} parameters', *facts])}>"


def result_line(kind: str, texts: list[str], score: float, finished: bool, count: int) -> str:
    """A translation or caption: its texts, cut to 60 characters each, and its score."""
    facts = [f"score {score:.2f}", *([] if finished else ["unfinished"]), *([f"n_best {count}"] if count > 1 else [])]
    return f"<{kind} {' → '.join(map(_quoted, texts))}, {', '.join(facts)}>"


def short_number(number: int) -> str:
    """A count in thousands or millions, to three digits."""
    for size, unit in ((1_000_000, "M"), (1_000, "K")):
        if number >= 0.9995 * size:
            return f"{number / size:.3g}{unit}"
    return str(number)


def _quoted(text: str) -> str:
    return repr(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…")
