"""Attention: `scores`, `local` windows, softmax and weighted sum (`attend`), and `multihead`.

Its names are imported at first use: `intervention` is data that a server needs before torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.nn.attention.attend import Attend, Attended, masked_softmax
    from regard.nn.attention.local import Focus, Monotonic, Predictive, Window, make_window
    from regard.nn.attention.scores import Additive, Cosine, Dot, General, Location, ScaledDot, Score, make_score

__all__ = [
    "Additive",
    "Attend",
    "Attended",
    "Cosine",
    "Dot",
    "Focus",
    "General",
    "Location",
    "Monotonic",
    "Predictive",
    "ScaledDot",
    "Score",
    "Window",
    "make_score",
    "make_window",
    "masked_softmax",
]

_MODULES = {
    "attend": ("Attend", "Attended", "masked_softmax"),
    "local": ("Focus", "Monotonic", "Predictive", "Window", "make_window"),
    "scores": ("Additive", "Cosine", "Dot", "General", "Location", "ScaledDot", "Score", "make_score"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"regard.nn.attention.{module}"), name)
    raise AttributeError(f"module 'regard.nn.attention' has no attribute {name!r}")
