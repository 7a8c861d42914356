"""Inputs and outputs of the graphs of a model.

    encode    source (B, S), lengths (B,)                                   -> memory.*, state.* (B, …)
    step      token (N,), parent (N,), position (1,), memory.*, state.*     -> hidden (N, D), state.* (N, …), alignment
    project   hidden (N, D), k (1,)                                         -> logits (N, V), best (N, k), token (N, k)

A row of a step continues row `parent` of the state: beams and finished sentences need no copies outside. The N rows are
those of B sentences, R = N / B each. `best` are the k largest log-probabilities, sorted, `token` their ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.decoding.engines.graphs.builder import Graph, Inputs

GROWS = "T"
"""The size of a state that grows by one with every step."""


@dataclass(frozen=True)
class Signature:
    """What an architecture's graphs pass to each other."""

    hidden: int  # D
    memory: Inputs
    states: Sequence[int | Sequence[int | str]]  # sizes of a row
    aligns: bool = False  # whether `step` has the output `alignment` (N, S)
    max_positions: int | None = None

    def encode_inputs(self) -> Inputs:
        """Of the encoder."""
        return {"source": ("int64", ["B", "S"]), "lengths": ("int64", ["B"])}

    def encode_outputs(self) -> Inputs:
        """Of the encoder."""
        return {**self.memory, **self._states("state", "B", 0)}

    def step_inputs(self) -> Inputs:
        """Of a step."""
        asked: Inputs = {"token": ("int64", ["N"]), "parent": ("int64", ["N"]), "position": ("int64", [1])}
        return {**asked, **self.memory, **self._states("state", "M", 0)}

    def step_outputs(self) -> Inputs:
        """Of a step."""
        alignment: Inputs = {"alignment": ("float32", ["N", "S"])} if self.aligns else {}
        return {"hidden": ("float32", ["N", self.hidden]), **self._states("next", "N", 1), **alignment}

    def _states(self, name: str, rows: str, more: int) -> dict[str, tuple[str, list[int | str]]]:
        found: dict[str, tuple[str, list[int | str]]] = {}
        for number, sizes in enumerate(self.states):
            row = [sizes] if isinstance(sizes, int) else list(sizes)
            if more:
                row = [f"{GROWS}+1" if size == GROWS else size for size in row]
            found[f"{name}.{number}"] = ("float32", [rows, *row])
        return found

    def manifest(self) -> dict[str, Any]:
        """For the file that describes the graphs."""
        return {
            "hidden": self.hidden,
            "memory": {name: {"type": kind, "shape": list(shape)} for name, (kind, shape) in self.memory.items()},
            "states": [[sizes] if isinstance(sizes, int) else list(sizes) for sizes in self.states],
            "aligns": self.aligns,
            "max_positions": self.max_positions,
        }


def states(graph: Graph, count: int) -> list[str]:
    """The states of a step's rows: rows `parent` of the states before."""
    return [graph.op("Gather", f"state.{number}", "parent") for number in range(count)]


def name_state(graph: Graph, tensors: Sequence[str], name: str = "state") -> None:
    """Name the states that a graph returns."""
    for number, tensor in enumerate(tensors):
        graph.op("Identity", tensor, name=f"{name}.{number}")
