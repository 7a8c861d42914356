"""The numbers of one box of the diagram at one position: gates, states, feed-forward units, residuals, embeddings.

The sentence is decoded again by a copy of the model that shares its weights; hooks on the copy record what its parts
read and write, so requests at the same time never meet them.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from regard.config.vocabulary import BOS
from regard.errors import ConfigError, did_you_mean
from regard.look.record import Look, Row, rounded
from regard.look.trace import Walk, walk_along
from regard.models.contract import Model
from regard.models.inside import Inside, SubLayer
from regard.nn.attention.intervention import Intervention
from regard.nn.attention.multihead import MultiHead
from regard.nn.cells import reversal
from regard.nn.transformer import FeedForward

MOST_NUMBERS = 1024  # of a vector that are sent

GroupName = Literal[
    "cell", "state", "residual", "joined", "hidden", "embedding", "centre", "self-attention", "feed-forward"
]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class NodeVector(_Part):
    """One vector of a box; mean and norm are of all its numbers."""

    name: str
    gate: bool  # between 0 and 1
    values: Row
    size: int
    mean: float
    norm: float


class NodeGroup(_Part):
    """The vectors of one equation."""

    name: GroupName
    equation: str
    vectors: list[NodeVector]
    active: float | None = None  # share of the feed-forward units above 0
    centre: float | None = None  # p_t of local attention, counted from 1


class NodeNumbers(_Part):
    """The numbers of a box at a position, a source piece or a decoder step, counted from 0."""

    node: str
    place: int
    groups: list[NodeGroup]


def node_numbers(model: Model, look: Look, node: str, place: int) -> NodeNumbers:
    """The numbers of a box, such as `decoder.1`, at a position of a look."""
    source = [piece.id for piece in look.source.pieces]
    return numbers_of(model, source, [step.id for step in look.steps], node, place, look.intervention)


@torch.inference_mode()
def numbers_of(
    model: Model,
    source: Sequence[int],
    target: Sequence[int],
    node: str,
    place: int,
    intervention: Intervention | None = None,
) -> NodeNumbers:
    """The same, of piece ids; both sentences end with EOS."""
    twin = copy.deepcopy(model, {id(tensor): tensor for tensor in chain(model.parameters(), model.buffers())})
    inside = twin.inside()
    if inside is None:
        raise ConfigError(f"{type(model).__name__} does not say what stands behind its boxes: see `Model.inside`.")
    reads_source = _reads_source(node)
    _check(inside, node, place, len(source if reads_source else target))
    recorder = _Recorder(inside)
    mask = torch.ones(1, len(source), dtype=torch.bool)
    steps = target if not reads_source else target[:1]
    walk = walk_along(twin, torch.tensor([source]), mask, steps, intervention)
    reader = _Reader(inside, recorder.calls, walk, source, [BOS, *target[:-1]])
    return NodeNumbers(node=node, place=place, groups=reader.groups(node, place))


def known_nodes(inside: Inside) -> list[str]:
    """The boxes that have numbers."""
    named = (inside.cells, inside.sub_layers, inside.residuals, inside.joined, inside.starts)
    boxes = [name for names in named for name in names]
    return ["embed.source", "embed.target", *boxes, *([inside.hidden] if inside.hidden else []), "centre"]


def _reads_source(node: str) -> bool:
    return node.removeprefix("sum.").partition(".")[0] in ("encoder", "annotation", "joined") or node == "embed.source"


def _check(inside: Inside, node: str, place: int, length: int) -> None:
    known = known_nodes(inside)
    if node not in known:
        raise ConfigError(f"{node}: no box with numbers has that name: {did_you_mean(node, known)}")
    if not 0 <= place < length:
        raise ConfigError(f"{node} at {place}: its positions are 0 to {length - 1}.")


@dataclass(frozen=True)
class _Call:
    """One call of a part: its inputs and its output."""

    inputs: tuple[Any, ...]
    output: Any


class _Recorder:
    """Hooks on the parts of a model; the calls of each, in order."""

    def __init__(self, inside: Inside) -> None:
        self.calls: dict[nn.Module, list[_Call]] = {}
        for cell in inside.cells.values():
            cell.kernel = False  # the readable path calls the cell at every word
            self._watch(cell)
        for sub_layer in chain.from_iterable(inside.sub_layers.values()):
            for part in _watched(sub_layer):
                self._watch(part)

    def _watch(self, part: nn.Module) -> None:
        calls = self.calls.setdefault(part, [])

        def record(_: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            # the activation of a feed-forward network works in place
            calls.append(_Call(inputs, output.clone() if isinstance(output, Tensor) else output))

        part.register_forward_hook(record)


def _watched(sub_layer: SubLayer) -> list[nn.Module]:
    """The residual connection, the output of its function and, of a feed-forward network, the units."""
    function = sub_layer.function
    if isinstance(function, MultiHead):
        return [sub_layer.norm, function.output]
    return [sub_layer.norm, function, function.inner]


@dataclass(frozen=True)
class _Reader:
    """The numbers of boxes, from the recorded calls."""

    inside: Inside
    calls: Mapping[nn.Module, list[_Call]]
    walk: Walk
    source: Sequence[int]
    read: Sequence[int]  # the decoder's inputs

    def groups(self, node: str, place: int) -> list[NodeGroup]:
        inside = self.inside
        if node in inside.cells:
            return [self._cell(node, place)]
        if node in inside.sub_layers:
            return [self._sub_layer(each, place) for each in inside.sub_layers[node]]
        if node in inside.residuals:
            names = inside.residuals[node]
            parts = {name: self._output(name, place) for name in reversed(names)}
            return [_group("residual", "x + f(x)", dict(zip(("x", "f(x)"), parts.values(), strict=True)), summed=True)]
        if node in inside.joined:
            forward, backward = (self._output(name, place) for name in inside.joined[node])
            return [_group("joined", "[→; ←]", {"→": forward, "←": backward})]
        if node in inside.starts:
            _, state, *_ = self.calls[inside.cells[inside.starts[node]]][0].inputs
            return [_group("state", "", {"h₀": state[0][0]})]
        if node.startswith("embed."):
            return [self._embedding(node, place)]
        if node == "centre":
            return [self._centre(place)]
        return [_group("hidden", "", {"h": self.walk.steps[place].hidden[0]})]

    def _cell(self, node: str, place: int) -> NodeGroup:
        cell, call = self.inside.cells[node], self._call(node, place)
        projected, before, *_ = call.inputs
        gates = {name: values[0] for name, values in cell.gate_values(projected, before).items()}
        states = {"c": call.output[1][0]} if cell.state_tensors > 1 else {}
        shown = {"h₋₁": before[0][0], **gates, **states, "h": call.output[0][0]}
        closed = {name for name in gates if not name.startswith("candidate")}
        return _group("cell", cell.equation, shown, gates=closed)

    def _sub_layer(self, sub_layer: SubLayer, place: int) -> NodeGroup:
        norm, function = sub_layer.norm, sub_layer.function
        active = None
        if isinstance(function, FeedForward):
            output, units = self._row(function, place).output, self._row(function.inner, place).output
            active = rounded(float((units > 0).float().mean()))
        else:
            output = self._row(function.output, place).output
        whole = self._row(norm, place)
        equation = "x + f(norm(x))" if norm.is_pre else "norm(x + f(x))"
        shown = {"x": whole.inputs[0], "f": output, equation: whole.output}
        return _group(sub_layer.name, equation, shown).model_copy(update={"active": active})

    def _row(self, part: nn.Module, place: int) -> _Call:
        """The inputs and output of a position: a row of one call in the encoder, a call of its own in the decoder."""
        calls = self.calls[part]
        if len(calls) == 1 and len(calls[0].output) > 1:
            call, row = calls[0], place
        else:
            call, row = calls[place], 0
        return _Call((call.inputs[0][row],), call.output[row])

    def _embedding(self, node: str, place: int) -> NodeGroup:
        side: Literal["source", "target"] = "source" if node == "embed.source" else "target"
        ids = torch.tensor(self.source if side == "source" else self.read)
        parts = {name: values[place] for name, values in self.inside.embed(side, ids).items()}
        return _group("embedding", " + ".join(parts), parts, summed=len(parts) > 1)

    def _centre(self, place: int) -> NodeGroup:
        centre = next((trace.centre for trace in self.walk.steps[place].trace if trace.centre is not None), None)
        if centre is None:
            raise ConfigError("centre: this model has no local attention.")
        group = _group("centre", "p = S · sigmoid(vᵀ tanh(W h))", {})
        return group.model_copy(update={"centre": rounded(float(centre[0]))})

    def _output(self, name: str, place: int) -> Tensor:
        """The output (D,) of a box."""
        if name in self.inside.residuals:
            one, other = (self._output(each, place) for each in self.inside.residuals[name])
            return one + other
        if name in self.inside.joined:
            return torch.cat([self._output(each, place) for each in self.inside.joined[name]])
        output: Tensor = self._call(name, place).output[0][0]
        return output

    def _call(self, name: str, place: int) -> _Call:
        """The call of a cell at a position; an encoder reads in its own order."""
        calls, number = self.calls[self.inside.cells[name]], place
        if name.startswith("encoder."):
            if self.inside.reads_backwards:
                order = reversal(torch.tensor([len(calls)]), len(calls), keep_last=True)[0].tolist()
                number = order.index(place)
            if name.endswith(".backward"):
                number = len(calls) - 1 - number
        return calls[number]


def _group(
    name: GroupName,
    equation: str,
    vectors: Mapping[str, Tensor],
    *,
    gates: set[str] | frozenset[str] = frozenset(),
    summed: bool = False,
) -> NodeGroup:
    """Named vectors (D,); `summed`: with their sum."""
    shown = dict(vectors)
    if summed:
        shown[equation] = torch.stack(list(vectors.values())).sum(0)
    return NodeGroup(
        name=name,
        equation=equation,
        vectors=[
            NodeVector(
                name=each,
                gate=each in gates,
                values=rounded(values[:MOST_NUMBERS].tolist()),
                size=len(values),
                mean=rounded(float(values.mean())),
                norm=rounded(float(values.norm())),
            )
            for each, values in shown.items()
        ],
    )
