"""Attention: `scores`, `local` windows, softmax and weighted sum (`attend`), and `multihead`."""

from regard.nn.attention.attend import Attend, Attended, masked_softmax
from regard.nn.attention.local import Focus, Monotonic, Predictive, Window, make_window
from regard.nn.attention.scores import (
    Additive,
    Cosine,
    Dot,
    General,
    Location,
    ScaledDot,
    Score,
    make_score,
)

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
