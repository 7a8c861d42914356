"""Recurrent cells and layers as ONNX operations; the equations are those of `nn/cells.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from regard.config.models import CellName
from regard.decoding.engines.graphs.builder import Array, Graph, Inputs
from regard.decoding.engines.graphs.proto import Shape

CellKind = CellName | Literal["paper_gru", "cho"]
State = tuple[str, ...]

STATE_TENSORS: dict[CellKind, int] = {"rnn": 1, "gru": 1, "lstm": 2, "paper_gru": 1, "cho": 1}


@dataclass(frozen=True)
class Cell:
    """A cell of the model: its kind and the prefix of its weights."""

    kind: CellKind
    name: str

    def size(self, graph: Graph) -> int:
        """D."""
        return int(graph.tensor(f"{self.name}.weight_hidden").shape[1])

    def has_norm(self, graph: Graph) -> bool:
        """Whether it has layer normalisation."""
        names = (f"{self.name}.norm_input.weight", f"{self.name}.norm_input.gates.weight")
        return any(graph.has(name) for name in names)

    def input_weight(self, graph: Graph) -> tuple[Array, Array]:
        """W and b, as `step` expects their product: b is 0 with layer normalisation, which `step` adds after it."""
        weight, bias = (self._rows(graph, graph.tensor(f"{self.name}.{part}")) for part in ("weight_input", "bias"))
        return weight, np.zeros_like(bias) if self.has_norm(graph) else bias

    def project(self, graph: Graph, inputs: str) -> str:
        """W x + b of the whole input."""
        return graph.linear(inputs, *self.input_weight(graph), f"{self.name}.input")

    def step(self, graph: Graph, projected: str, state: State, summary: str = "") -> State:
        """The next state, from the input product (N, gates·D) and the current state; `summary` is Cho's C c."""
        projected = self._normalised_input(graph, projected)
        size = self.size(graph)
        match self.kind:
            case "rnn":
                return (graph.op("Tanh", graph.op("Add", projected, self._hidden(graph, state[0]))),)
            case "lstm":
                return self._lstm(graph, projected, state, size)
            case "paper_gru":
                return (self._paper_gru(graph, projected, state[0], size),)
            case _:
                return (self._gru(graph, projected, state[0], size, summary),)

    def _lstm(self, graph: Graph, projected: str, state: State, size: int) -> State:
        gates = graph.op("Add", projected, self._hidden(graph, state[0]))
        three, candidate = graph.split(gates, 3 * size, size)  # the candidate is last, see `_rows`
        input_gate, forget_gate, output_gate = graph.split(graph.op("Sigmoid", three), size, size, size)
        kept = graph.op("Mul", forget_gate, state[1])
        cell = graph.op("Add", kept, graph.op("Mul", input_gate, graph.op("Tanh", candidate)))
        norm = f"{self.name}.norm_cell"
        normalised = graph.norm(cell, norm) if graph.has(f"{norm}.weight") else cell
        return graph.op("Mul", output_gate, graph.op("Tanh", normalised)), cell

    def _gru(self, graph: Graph, projected: str, hidden: str, size: int, summary: str) -> str:
        """The reset gate is applied after the matrix; Cho's update gate comes first, and C c joins U s."""
        product = self._hidden(graph, hidden)
        if summary:
            product = graph.op("Add", product, summary)
        input_gates, input_candidate = graph.split(projected, 2 * size, size)
        hidden_gates, hidden_candidate = graph.split(product, 2 * size, size)
        gates = graph.op("Sigmoid", graph.op("Add", input_gates, hidden_gates))
        reset, update = graph.split(gates, size, size)[:: -1 if summary else 1]
        kept = graph.op("Mul", reset, hidden_candidate)
        candidate = graph.op("Tanh", graph.op("Add", input_candidate, kept))
        return graph.lerp(candidate, hidden, update)

    def _paper_gru(self, graph: Graph, projected: str, hidden: str, size: int) -> str:
        """The reset gate is applied before the matrix."""
        input_gates, input_candidate = graph.split(projected, 2 * size, size)
        gates = graph.op("Sigmoid", graph.op("Add", input_gates, self._hidden(graph, hidden)))
        reset, update = graph.split(gates, size, size)
        weight, norm = graph.tensor(f"{self.name}.weight_candidate"), f"{self.name}.norm_candidate"
        product = graph.linear(graph.op("Mul", reset, hidden), weight, None, f"{self.name}.candidate")
        if graph.has(f"{norm}.weight"):
            product = graph.norm(product, norm)
        return graph.lerp(hidden, graph.op("Tanh", graph.op("Add", input_candidate, product)), update)

    def _hidden(self, graph: Graph, hidden: str) -> str:
        """U h, normalised, with its bias."""
        weight = self._rows(graph, graph.tensor(f"{self.name}.weight_hidden"))
        own = f"{self.name}.bias_hidden"
        bias = graph.tensor(own) if graph.has(own) else None
        if not self.has_norm(graph):
            return graph.linear(hidden, weight, bias, f"{self.name}.hidden")
        product = self._norm(graph, graph.linear(hidden, weight, None, f"{self.name}.hidden"), "norm_hidden")
        return product if bias is None else graph.op("Add", product, graph.constant(own, bias))

    def _normalised_input(self, graph: Graph, projected: str) -> str:
        if not self.has_norm(graph):
            return projected
        bias = self._rows(graph, graph.tensor(f"{self.name}.bias"))
        normalised = self._norm(graph, projected, "norm_input")
        return graph.op("Add", normalised, graph.constant(f"{self.name}.bias_after", bias))

    def _norm(self, graph: Graph, product: str, part: str) -> str:
        name = f"{self.name}.{part}"
        if graph.has(f"{name}.gates.weight"):  # a GRU has one norm for both gates and one for the candidate
            size = self.size(graph)
            gates, candidate = graph.split(product, 2 * size, size)
            both = graph.norm(gates, f"{name}.gates"), graph.norm(candidate, f"{name}.candidate")
            return graph.op("Concat", *both, axis=-1)
        if self.kind != "lstm":
            return graph.norm(product, name)
        parts = (f"{name}.weight", f"{name}.bias")
        rows = [graph.constant(f"{each}.rows", self._rows(graph, graph.tensor(each))) for each in parts]
        return graph.op("LayerNormalization", product, *rows, epsilon=1e-5, axis=-1)

    def _rows(self, graph: Graph, values: Array) -> Array:
        """The rows of the gates; those of an LSTM in the order i, f, o, g, so that one sigmoid does for three."""
        if self.kind != "lstm":
            return values
        input_gate, forget_gate, candidate, output_gate = np.split(values, 4)
        return np.concatenate([input_gate, forget_gate, output_gate, candidate])


@dataclass(frozen=True)
class Direction:
    """A cell that reads a sentence from its first or from its last word."""

    cell: Cell
    backwards: bool = False


def run(graph: Graph, inputs: str, real: str, directions: Sequence[Direction]) -> tuple[list[str], list[State]]:
    """Outputs (S, B, D), 0 at padding, and the final state of each direction, for inputs (S, B, I).

    `real` (S, B, 1) is True at words; padding keeps the state.
    """
    body = Graph(graph.weights, prefix=f"loop{len(graph.nodes)}.", outer=graph)
    starts, products, names, after, shown = [], [], [], [], []
    batch = graph.size(inputs, 1)
    for number, each in enumerate(directions):
        size, own = each.cell.size(graph), f"{body.prefix}{number}"
        zeros = graph.op("Expand", graph.number(0.0), graph.op("Concat", batch, graph.numbers(size), axis=0))
        before = tuple(f"{own}.before.{part}" for part in range(STATE_TENSORS[each.cell.kind]))
        starts += [zeros] * len(before)
        products += [each.cell.project(graph, inputs), real]
        names.append((before, f"{own}.product", f"{own}.real"))
        new = each.cell.step(body, f"{own}.product", before)
        kept = [body.op("Where", f"{own}.real", *pair) for pair in zip(new, before, strict=True)]
        after += kept
        shown.append(body.op("Identity", kept[0]))
    given: dict[str, tuple[str, Shape]] = {part: ("float32", ["B", "D"]) for before, _, _ in names for part in before}
    for _, product, mask in names:
        given |= {product: ("float32", ["B", "G"]), mask: ("bool", ["B", 1])}
    found: Inputs = {part: ("float32", ["B", "D"]) for part in (*after, *shown)}
    content = body.serialise("loop", given, found)
    ways = [int(each.backwards) for each in directions]
    results = graph.ops(
        "Scan",
        *starts,
        *products,
        names=[f"{body.prefix}out.{part}" for part in range(len(after) + len(shown))],
        body=content,
        num_scan_inputs=len(products),
        scan_input_directions=[way for way in ways for _ in range(2)],
        scan_output_directions=ways,
    )
    final, outputs = results[: len(after)], results[len(after) :]
    mask = graph.op("Cast", real, to=1)
    states, place = [], 0
    for each in directions:
        count = STATE_TENSORS[each.cell.kind]
        states.append(tuple(final[place : place + count]))
        place += count
    return [graph.op("Mul", output, mask) for output in outputs], states
