"""Regard trains, translates with, and looks inside attention models, from seq2seq to the Transformer.

    translator = regard.load("models/de-en")
    print(translator.translate("ein Haus"))

    captioner = regard.load("models/scenes")  # a folder is a folder: what it holds decides
    print(captioner.caption("photo.png"))

This is the public door. Each name is imported when it is first used, so that `import regard` costs nothing
and does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from regard.data.text.aligner import align_text
    from regard.inference.translation import Translation
    from regard.inference.translator import Translator
    from regard.models.contract import MakeModel
    from regard.training import train

__version__ = "0.1.0"

__all__ = ["Translation", "Translator", "__version__", "align_text", "load", "train"]

# name -> the module that holds it; type checkers read the same above
_DOORS = {
    "Translation": "regard.inference.translation",
    "Translator": "regard.inference.translator",
    "align_text": "regard.data.text.aligner",
    "train": "regard.training",
}
_PACKAGES = {
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


def load(folder: "str | Path", device: str = "cpu", model: "MakeModel | None" = None) -> Any:
    """What a model folder holds, ready to use: a Translator, a Captioner or a Classifier.

    `model` is what was given to `train`, where it was your own.
    """
    from pathlib import Path

    from regard.storage.folder import model_kind, read_table

    kind = model_kind(read_table(Path(folder))[0])
    if kind == "captioner":
        from regard.inference.captioner import Captioner

        return Captioner.load(folder, device)
    if kind in ("resnet", "vit"):
        from regard.inference.classifier import Classifier

        return Classifier.load(folder, device)
    from regard.inference.translator import Translator

    return Translator.load(folder, device=device, model=model)


def __getattr__(name: str) -> Any:
    if name in _DOORS:
        if name == "train":
            from regard.process import wait_patiently

            wait_patiently()
        return getattr(import_module(_DOORS[name]), name)
    if name in _PACKAGES:
        return import_module(f"regard.{name}")
    raise AttributeError(f"module 'regard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_DOORS, *_PACKAGES})
