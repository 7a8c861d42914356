"""The graph of a model unrolled over a sentence, as drawn by `regard diagram`. Nothing here imports torch.

Each model file ends with `wire`, which adds the boxes and edges of that model.

Node names: `decoder.2.1` is the second layer's state at the first step, `encoder.1.backward.3` the backward state of
the third source word, `attend.2` the attention of the second step. Source positions are in the order of the input
sentence, even if the model reads it reversed; `column` is where the node is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

BoxKind = Literal["word", "vector", "cell", "backward", "forward", "attend", "centre", "add", "layer", "zero"]
DiagramHalf = Literal["encoder", "decoder"]
Role = Literal[
    "input", "word", "recurrent", "self", "start", "keys", "query", "centre", "context", "feeding", "residual"
]


@dataclass(frozen=True)
class DiagramBox:
    """One quantity; `text` may have subscripts such as `h_{t−1}`."""

    name: str
    kind: BoxKind
    text: str
    part: DiagramHalf
    column: int  # encoder: from 1 in reading order; decoder: from 1, 0 before the first step
    row: float  # from 0 at the bottom


@dataclass(frozen=True)
class Edge:
    """`source` is an input of `target`."""

    source: str
    target: str
    role: Role


@dataclass(frozen=True)
class Diagram:
    """Boxes, edges, labels and notes."""

    nodes: dict[str, DiagramBox]
    edges: tuple[Edge, ...]
    row_labels: tuple[tuple[DiagramHalf, float, str], ...]
    notes: tuple[str, ...]  # equations and remarks

    def into(self, target: str) -> set[tuple[str, Role]]:
        """The inputs of a node."""
        return {(edge.source, edge.role) for edge in self.edges if edge.target == target}


class Wiring:
    """Builder of a diagram over the words of a source and a target; each model of `models/` adds its boxes."""

    def __init__(self, source: Sequence[str], target: Sequence[str]) -> None:
        self.nodes: dict[str, DiagramBox] = {}
        self.edges: list[Edge] = []
        self.row_labels: list[tuple[DiagramHalf, float, str]] = []
        self.notes: list[str] = []
        self.source, self.target = source, target
        self.positions = range(1, len(source) + 1)
        self.steps = range(1, len(target) + 1)
        self.order = list(self.positions)

    def add(self, name: str, kind: BoxKind, text: str, part: DiagramHalf, column: int, row: float) -> None:
        """Add a node at a column and row."""
        self.nodes[name] = DiagramBox(name, kind, text, part, column, row)

    def link(self, source: str, target: str, role: Role) -> None:
        """Add an edge."""
        self.edges.append(Edge(source, target, role))

    def label(self, part: DiagramHalf, row: float, text: str) -> None:
        """Label a row."""
        self.row_labels.append((part, row, text))

    def column(self, position: int) -> int:
        """The column of a source position."""
        return self.order.index(position) + 1

    def read_source(self, reverse: bool = False) -> None:
        """Source words and embeddings, in reading order; EOS stays last."""
        if reverse:
            self.order = [*reversed(self.positions[:-1]), self.positions[-1]]
        for position, word in zip(self.positions, self.source, strict=True):
            column = self.column(position)
            self.add(f"source.{position}", "word", word, "encoder", column, 0)
            self.add(f"embed.source.{position}", "vector", f"E x_{position}", "encoder", column, 1)
            self.link(f"source.{position}", f"embed.source.{position}", "input")
        self.label("encoder", 0, "source, reversed" if reverse else "source")
        self.label("encoder", 1, "embedding")

    def read_target(self) -> None:
        """Previous target words and their embeddings."""
        for step, word in zip(self.steps, ["<s>", *self.target[:-1]], strict=True):
            self.add(f"target.{step}", "word", word, "decoder", step, 0)
            self.add(f"embed.target.{step}", "vector", f"E y_{step - 1}", "decoder", step, 1)
            self.link(f"target.{step}", f"embed.target.{step}", "input")
        self.label("decoder", 0, "previous word")
        self.label("decoder", 1, "embedding")

    def encode(self, layers: int, cell: str, letter: str, first_row: int = 2) -> list[str]:
        """A unidirectional stack; returns the names of its top states."""
        below = "embed.source"
        for layer in range(1, layers + 1):
            row = first_row + layer - 1
            self.encoder_layer(layer, row, letter, numbered=layers > 1)
            for position in self.positions:
                self.link(f"{below}.{position}", f"encoder.{layer}.{position}", "input")
            self.label("encoder", row, layer_name(cell, layer, layers))
            below = f"encoder.{layer}"
        return [f"{below}.{position}" for position in self.positions]

    def encoder_layer(self, layer: int, row: float, letter: str, numbered: bool) -> None:
        """The states of one recurrent layer."""
        for position in self.positions:
            name = f"encoder.{layer}.{position}"
            text = state_text(letter, position, layer, numbered)
            self.add(name, "cell", text, "encoder", self.column(position), row)
        for before, after in zip(self.order, self.order[1:], strict=False):
            self.link(f"encoder.{layer}.{before}", f"encoder.{layer}.{after}", "recurrent")

    def both_directions(self, layer: int, row: float, below: str) -> None:
        """A bidirectional layer: forward states in `row`, backward states in the row above."""
        for position in self.positions:
            column = self.column(position)
            forward, backward = f"encoder.{layer}.forward.{position}", f"encoder.{layer}.backward.{position}"
            self.add(forward, "forward", f"→h_{position}", "encoder", column, row)
            self.add(backward, "backward", f"←h_{position}", "encoder", column, row + 1)
            self.link(f"{below}.{position}", forward, "input")
            self.link(f"{below}.{position}", backward, "input")
        for before, after in zip(self.order, self.order[1:], strict=False):
            self.link(f"encoder.{layer}.forward.{before}", f"encoder.{layer}.forward.{after}", "recurrent")
            self.link(f"encoder.{layer}.backward.{after}", f"encoder.{layer}.backward.{before}", "recurrent")

    def decoder_layer(self, layer: int, row: float, letter: str, numbered: bool) -> None:
        """The states of one recurrent layer over the steps."""
        for step in self.steps:
            text = state_text(letter, step, layer, numbered)
            self.add(f"decoder.{layer}.{step}", "cell", text, "decoder", step, row)
            if step > 1:
                self.link(f"decoder.{layer}.{step - 1}", f"decoder.{layer}.{step}", "recurrent")

    def attend(self, row: float, score: str, keys: Sequence[str]) -> None:
        """The attention of every step over all keys."""
        for step in self.steps:
            self.add(f"attend.{step}", "attend", score, "decoder", step, row)
            for key in keys:
                self.link(key, f"attend.{step}", "keys")

    def write(self, row: float, below: str) -> None:
        """The predicted words."""
        for step, word in zip(self.steps, self.target, strict=True):
            self.add(f"output.{step}", "word", word, "decoder", step, row)
            self.link(f"{below}.{step}", f"output.{step}", "input")
        self.label("decoder", row, "softmax: next word")


def literal(text: str) -> str:
    """Escape user text: underscore and caret are not subscript and superscript."""
    return text.replace("\\", "\\\\").replace("_", "\\_").replace("^", "\\^")


def state_text(letter: str, index: int, layer: int, numbered: bool) -> str:
    """A state's letter with its position and, in a stack, its layer."""
    return f"{letter}_{index}^{{{layer}}}" if numbered else f"{letter}_{index}"


def layer_name(cell: str, layer: int, layers: int) -> str:
    """The label of a layer's row."""
    return f"{cell.upper()} {layer}" if layers > 1 else cell.upper()


def stacked_decoder(wiring: Wiring, layers: int, cell: str, first_row: int) -> None:
    """A stack of layers over the target words."""
    below = "embed.target"
    for layer in range(1, layers + 1):
        wiring.decoder_layer(layer, first_row + layer - 1, "h", numbered=layers > 1)
        for step in wiring.steps:
            wiring.link(f"{below}.{step}", f"decoder.{layer}.{step}", "input")
        wiring.label("decoder", first_row + layer - 1, layer_name(cell, layer, layers))
        below = f"decoder.{layer}"


def maxout_decoder(wiring: Wiring, contexts: dict[int, str], previous: bool = False) -> None:
    """The decoder of Cho and Bahdanau, in rows 3 to 5: a maxout output of state, word and context.

    The output reads the state after the step, or the `previous` one.
    """
    wiring.decoder_layer(1, 3, "s", numbered=False)
    wiring.link("start", "decoder.1.1", "recurrent")
    for step in wiring.steps:
        state, maxout, word = f"decoder.1.{step}", f"maxout.{step}", f"embed.target.{step}"
        wiring.add(maxout, "layer", f"t_{step}", "decoder", step, 4)
        wiring.link(word, state, "input")
        wiring.link(contexts[step], state, "context")
        before = "start" if step == 1 else f"decoder.1.{step - 1}"
        wiring.link(before if previous else state, maxout, "input")
        wiring.link(word, maxout, "word")
        wiring.link(contexts[step], maxout, "context")
    wiring.label("decoder", 3, "GRU")
    wiring.label("decoder", 4, "maxout")
    wiring.write(5, "maxout")


def score_formula(score: str, query: str, key: str, sharpness: float | None = 1.0) -> str:
    """A score between a query and a key, as its paper writes it."""
    beta = "β " if sharpness is None else "" if sharpness == 1 else f"{sharpness:g} "
    return {
        "dot": f"{query}^T {key}",
        "scaled_dot": f"{query}^T {key} / √d",
        "general": f"{query}^T W {key}",
        "additive": f"v^T tanh(W {query} + U {key})",
        "concat": f"v^T tanh(W [{query}; {key}])",
        "location": f"(W {query})_s",
        "cosine": f"{beta}cos({query}, {key})",
    }[score]


def sharpness_note(score: str, sharpness: float | None) -> str:
    """A note if the sharpness of the cosine score is learned."""
    return ";  β is learned" if score == "cosine" and sharpness is None else ""
