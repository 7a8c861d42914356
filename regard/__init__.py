"""Regard trains, translates with, and looks inside attention models, from seq2seq to the Transformer.

    translator = regard.load("models/de-en")
    print(translator.translate("ein Haus"))

    captioner = regard.load("models/scenes")
    print(captioner.caption("photo.png"))

This is the public door. Each name is imported when it is first used, so that `import regard` costs nothing
and does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.bulk.run import translate_shards
    from regard.comparison import compare
    from regard.data.text.aligner import align_text
    from regard.errors import RegardError
    from regard.inference.captioner import Captioner
    from regard.inference.classifier import Classifier
    from regard.inference.load import load
    from regard.inference.translation import Translation
    from regard.inference.translator import Translator
    from regard.training import train

__version__ = "0.1.0"

__all__ = [
    "Captioner",
    "Classifier",
    "RegardError",
    "Translation",
    "Translator",
    "__version__",
    "align_text",
    "compare",
    "load",
    "train",
    "translate_shards",
]

# name -> the module that holds it; type checkers read the same above
_MODULES = {
    "Captioner": "regard.inference.captioner",
    "Classifier": "regard.inference.classifier",
    "RegardError": "regard.errors",
    "Translation": "regard.inference.translation",
    "Translator": "regard.inference.translator",
    "align_text": "regard.data.text.aligner",
    "compare": "regard.comparison",
    "load": "regard.inference.load",
    "train": "regard.training",
    "translate_shards": "regard.bulk.run",
}
_PACKAGES = {
    "bulk",
    "comparison",
    "config",
    "data",
    "decoding",
    "errors",
    "evaluation",
    "inference",
    "look",
    "models",
    "nn",
    "testing",
    "training",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        if name == "train":
            from regard.process import limit_openmp_spinning

            limit_openmp_spinning()
        return getattr(import_module(_MODULES[name]), name)
    if name in _PACKAGES:
        return import_module(f"regard.{name}")
    raise AttributeError(f"module 'regard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_PACKAGES})
