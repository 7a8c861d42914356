"""Regard trains, translates with, and looks inside attention models, from seq2seq to the Transformer.

This is the public door. Each name is imported when it is first used, so that `import regard` costs nothing
and does not import torch.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# name -> the module that holds it
_DOORS = {
    "Translation": "regard.translation",
    "Translator": "regard.translator",
    "load": "regard.translator",
    "train": "regard.training",
}
_SUBPACKAGES = ("attention", "config", "errors", "evaluation", "look", "models", "search", "testing", "text")

__all__ = ["Translation", "Translator", "__version__", "attention", "load", "train"]


def __getattr__(name: str) -> Any:
    if name in _DOORS:
        return getattr(import_module(_DOORS[name]), name)
    if name in _SUBPACKAGES:
        return import_module(f"regard.{name}")
    raise AttributeError(f"module 'regard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_DOORS, *_SUBPACKAGES})
