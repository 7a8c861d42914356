"""The source sentence as the encoder graphs read it: embeddings with time first, masks, and the reversed order."""

from __future__ import annotations

import numpy as np

from regard.decoding.engines.graphs.builder import Graph


class Reader:
    """Reads the inputs `source` (B, S) and `lengths` (B,) of an encoder graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        zero, one = (graph.literal(f"scalar_{value}", np.array(value, dtype=np.int64)) for value in (0, 1))
        count = graph.op("Squeeze", graph.size("source", 1))
        self._positions = graph.op("Range", zero, count, one)  # (S,)
        self._ends = graph.op("Unsqueeze", "lengths", graph.numbers(1))  # (B, 1)
        self.mask = graph.op("Less", self._positions, self._ends)  # (B, S) True at words
        self.real = graph.op("Unsqueeze", graph.op("Transpose", self.mask, perm=[1, 0]), graph.numbers(2))  # (S, B, 1)

    def words(self, scale: float, reverse: bool = False) -> str:
        """Source embeddings (S, B, E) times `scale`, reversed if the model reads them so."""
        ids = "source"
        if reverse:
            ids = self._graph.op("GatherElements", ids, self._reversal(), axis=1)
        words = self._graph.embed(self._graph.op("Transpose", ids, perm=[1, 0]), "source")
        if scale == 1.0:
            return words
        return self._graph.op("Mul", words, self._graph.literal("source_scale", np.array(scale, dtype=np.float32)))

    def batch_first(self, outputs: str) -> str:
        """(B, S, D) of (S, B, D)."""
        return self._graph.op("Transpose", outputs, perm=[1, 0, 2])

    def reordered(self, outputs: str) -> str:
        """Outputs (B, S, D) of a reversed sentence in the order of the sentence."""
        index = self._graph.op("Unsqueeze", self._reversal(), self._graph.numbers(2))
        return self._graph.op(
            "GatherElements", outputs, self._graph.op("Expand", index, self._graph.op("Shape", outputs)), axis=1
        )

    def _reversal(self) -> str:
        """(B, S): the source index of each position of the reversed sentence; padding and EOS stay."""
        graph = self._graph
        ends = graph.op("Sub", self._ends, graph.numbers(1))
        swapped = graph.op("Sub", graph.op("Sub", ends, graph.numbers(1)), self._positions)
        return graph.op("Where", graph.op("Less", self._positions, ends), swapped, self._positions)
