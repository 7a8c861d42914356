"""Attention over images: modules for any PyTorch network, classifiers, and a captioner.

    from regard.vision import BAM

    block = nn.Sequential(conv, BAM(channels=64))

Each name is imported when it is first used, so that this costs nothing and does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.vision.bam import BAM
    from regard.vision.captioner import Captioner
    from regard.vision.cbam import CBAM
    from regard.vision.classifier import Classification, Classifier
    from regard.vision.comparison import compare
    from regard.vision.self_attention import SelfAttention2d
    from regard.vision.squeeze_excitation import SqueezeExcitation
    from regard.vision.training import train
    from regard.vision.vit import VisionTransformer

__all__ = [
    "BAM",
    "CBAM",
    "Captioner",
    "Classification",
    "Classifier",
    "SelfAttention2d",
    "SqueezeExcitation",
    "VisionTransformer",
    "compare",
    "train",
]

# name -> the module that holds it; type checkers read the same above
_DOORS = {
    "BAM": "bam",
    "CBAM": "cbam",
    "Captioner": "captioner",
    "Classification": "classifier",
    "Classifier": "classifier",
    "SelfAttention2d": "self_attention",
    "SqueezeExcitation": "squeeze_excitation",
    "VisionTransformer": "vit",
    "compare": "comparison",
    "train": "training",
}


def __getattr__(name: str) -> Any:
    if name in _DOORS:
        return getattr(import_module(f"regard.vision.{_DOORS[name]}"), name)
    raise AttributeError(f"module 'regard.vision' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_DOORS})
