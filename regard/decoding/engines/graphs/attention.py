"""Attention of one query per row as ONNX operations; the equations are those of `nn/attention/`.

The encoder graph leaves prepared keys, values and a mask for every sentence; the R rows of a sentence share them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from regard.config.models import ScoreName, WindowName
from regard.decoding.engines.graphs.builder import Graph, Inputs

LOWEST = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class Attention:
    """A score with a window, and the sizes of its queries, prepared keys and values."""

    score: ScoreName
    query_size: int
    value_size: int
    name: str = "attend"  # prefix of the weights
    attention_size: int = 0  # of the additive score
    sharpness: float | None = None
    reach: int | None = None  # positions of the location score
    window: WindowName = "global"
    width: int = 0  # D of a local window

    @property
    def is_additive(self) -> bool:
        """Whether the score is vᵀ tanh(W q + U k)."""
        return self.score in ("additive", "concat")

    def memory(self) -> Inputs:
        """The memory that `prepare` leaves and `attend` reads, by name."""
        key_size = self.attention_size if self.is_additive else self.query_size
        keys: Inputs = {
            "memory.keys": ("float32", ["B", 1, "S", key_size] if self.is_additive else ["B", key_size, "S"])
        }
        return {
            **({} if self.score == "location" else keys),
            "memory.values": ("float32", ["B", "S", self.value_size]),
            "memory.mask": ("float32", ["B", 1, "S"]),
            **({} if self.window == "global" else {"memory.lengths": ("float32", ["B", 1])}),
        }

    # --- once per sentence --------------------------------------------------------------------------------------------

    def prepare(self, graph: Graph, keys: str, mask: str, lengths: str) -> None:
        """Name the memory of keys (B, S, Dk), which are the values too; `mask` (B, S) is True at words."""
        graph.op("Identity", keys, name="memory.values")
        if self.is_additive:
            projected = graph.apply(keys, f"{self.name}.score.key")  # U k
            graph.op("Unsqueeze", projected, graph.numbers(1), name="memory.keys")
        elif self.score != "location":
            prepared = keys
            if self.score == "general":
                weight = graph.tensor(f"{self.name}.score.weight")
                prepared = graph.linear(keys, weight, None, f"{self.name}.score")
            elif self.score == "cosine":
                prepared = _unit(graph, keys)
            graph.op("Transpose", prepared, perm=[0, 2, 1], name="memory.keys")
        if self.reach is not None:
            positions = _positions(graph, graph.size(keys, 1))
            mask = graph.op("And", mask, graph.op("Less", positions, graph.numbers(self.reach)))
        forbidden = graph.op("Where", mask, graph.number(0.0), graph.number(LOWEST))
        graph.op("Unsqueeze", forbidden, graph.numbers(1), name="memory.mask")
        if self.window != "global":
            if self.reach is not None:
                lengths = graph.op("Min", lengths, graph.numbers(self.reach))
            counted = graph.op("Cast", lengths, to=1)
            graph.op("Unsqueeze", counted, graph.numbers(1), name="memory.lengths")

    # --- once per step ------------------------------------------------------------------------------------------------

    def attend(self, graph: Graph, query: str) -> tuple[str, str]:
        """Context (N, Dv) and weights (N, S) of queries (N, Dq)."""
        sentences = graph.size("memory.values", 0)
        asked = self._reshape(graph, query, sentences, self.query_size)  # (B, R, Dq)
        scores = graph.op("Add", self._scores(graph, query, asked, sentences), "memory.mask")  # (B, R, S)
        gaussian = ""
        if self.window != "global":
            inside, gaussian = self._window(graph, asked)
            scores = graph.op("Where", inside, scores, graph.number(LOWEST))
        weights = graph.op("Softmax", scores, axis=-1)
        if gaussian:
            weights = graph.op("Mul", weights, gaussian)
        context = graph.op("MatMul", weights, "memory.values")  # (B, R, Dv)
        length = graph.size("memory.values", 1)
        rows = graph.op("Concat", graph.numbers(-1), length, axis=0)
        flat = graph.op("Reshape", context, graph.numbers(-1, self.value_size))
        return flat, graph.op("Reshape", weights, rows)

    def _scores(self, graph: Graph, query: str, asked: str, sentences: str) -> str:
        name = f"{self.name}.score"
        if self.is_additive:
            projected = graph.apply(query, f"{name}.query")  # W q
            shape = graph.op("Concat", sentences, graph.numbers(-1, 1, self.attention_size), axis=0)
            projected = graph.op("Reshape", projected, shape)  # (B, R, 1, A)
            hidden = graph.op("Tanh", graph.op("Add", projected, "memory.keys"))  # (B, R, S, A)
            v = graph.constant(f"{name}.v", graph.tensor(f"{name}.v"))
            return graph.op("MatMul", hidden, v)
        if self.score == "location":
            assert self.reach is not None
            each = self._reshape(graph, graph.apply(query, f"{name}.position"), sentences, self.reach)  # (B, R, reach)
            positions = _positions(graph, graph.size("memory.values", 1))
            return graph.op("Gather", each, graph.op("Min", positions, graph.numbers(self.reach - 1)), axis=2)
        if self.score == "scaled_dot":
            asked = graph.op("Mul", asked, graph.number(1 / math.sqrt(self.query_size)))
        elif self.score == "cosine":
            asked = _unit(graph, asked)
        scores = graph.op("MatMul", asked, "memory.keys")
        if self.score != "cosine":
            return scores
        learned = f"{name}.log_sharpness"
        if graph.has(learned):
            return graph.op("Mul", scores, graph.op("Exp", graph.constant(learned, graph.tensor(learned))))
        return graph.op("Mul", scores, graph.number(self.sharpness or 1.0))

    def _window(self, graph: Graph, asked: str) -> tuple[str, str]:
        """Mask (B, R, S) of the window and its Gaussian, or ""; positions run 1…S."""
        if self.window == "local-m":
            t = graph.op("Cast", graph.op("Add", "position", graph.numbers(1)), to=1)
            centre = graph.op("Unsqueeze", graph.op("Min", t, "memory.lengths"), graph.numbers(2))  # (B, 1, 1)
        else:
            hidden = graph.op("Tanh", graph.apply(asked, f"{self.name}.window.weight"))
            share = graph.op("Sigmoid", graph.apply(hidden, f"{self.name}.window.v"))  # (B, R, 1)
            centre = graph.op("Mul", share, graph.op("Unsqueeze", "memory.lengths", graph.numbers(2)))
        places = graph.op("Add", _positions(graph, graph.size("memory.values", 1)), graph.numbers(1))
        distance = graph.op("Sub", graph.op("Cast", places, to=1), centre)  # (B, R, S)
        inside = graph.op("LessOrEqual", graph.op("Abs", distance), graph.number(float(self.width)))
        if self.window == "local-m":
            return inside, ""
        squared = graph.op("Mul", distance, distance)
        return inside, graph.op("Exp", graph.op("Mul", squared, graph.number(-2 / self.width**2)))

    def _reshape(self, graph: Graph, rows: str, sentences: str, size: int) -> str:
        """(B, R, size) of (N, size)."""
        return graph.op("Reshape", rows, graph.op("Concat", sentences, graph.numbers(-1, size), axis=0))


def _positions(graph: Graph, count: str) -> str:
    """0 … S − 1, for a count (1,)."""
    zero, one = (graph.literal(f"scalar_{value}", np.array(value, dtype=np.int64)) for value in (0, 1))
    return graph.op("Range", zero, graph.op("Squeeze", count), one)


def _unit(graph: Graph, vectors: str) -> str:
    """Vectors of norm 1."""
    norm = graph.op("ReduceL2", vectors, axes=[-1], keepdims=1)
    return graph.op("Div", vectors, graph.op("Max", norm, graph.number(1e-12)))
