"""The decoder steps of one batch, in preallocated buffers.

States go back and forth between two sets of buffers. Each pair of sets has its own IO binding, so a step is two calls
of ONNX Runtime and no Python work per tensor. New buffers are allocated when the number of rows changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import ContractError

if TYPE_CHECKING:
    from regard.decoding.engines.onnxruntime.model import OnnxRuntimeModel

Array = NDArray[Any]


@dataclass(frozen=True)
class Rows:
    """Buffers of N rows."""

    token: Array  # (N,) inputs of the step that fills the others
    parent: Array  # (N,)
    states: Sequence[Array]
    hidden: Array  # (N, D)
    alignment: Array | None  # (N, S)
    best: Array  # (N, k)
    best_token: Array  # (N, k)
    project: Any  # IO binding


class Steps:
    """The steps of a batch of sentences; B shrinks as sentences finish."""

    def __init__(
        self, model: OnnxRuntimeModel, sentences: Sequence[Sequence[int]], columns: Array | None, k: int
    ) -> None:
        self._model = model
        self.lengths = np.array([len(ids) for ids in sentences])
        source = np.zeros((len(sentences), int(self.lengths.max())), dtype=np.int64)  # 0 is PAD
        for row, ids in zip(source, sentences, strict=True):
            row[: len(ids)] = ids
        found = model.encode(source, self.lengths)
        self._memory = {name: model.value(found[name]) for name in model.memory}
        self._given = [found[f"state.{number}"] for number in range(len(model.states))]
        self._columns = None if columns is None else columns
        self._project, self._output = model.output_layer(columns)
        vocabulary = model.vocabulary if columns is None else len(columns)
        self.k = min(k, vocabulary)
        self._k = model.value(np.array([self.k]))
        self.position = 0
        self._position_buffer = np.zeros(1, dtype=np.int64)
        self._position = model.value(self._position_buffer)
        self._rows: list[Rows] = []  # at most two sets
        self._bindings: dict[tuple[int, int], Any] = {}
        self._last: Rows | None = None

    def step(self, token: Array, parent: Array) -> tuple[Array, Array]:
        """Run a step: the k largest log-probabilities (N, k) of each row and their tokens, valid until the next step.

        Row n reads `token[n]` and continues row `parent[n]` of the step before.
        """
        rows = self._buffers(len(token))
        np.copyto(rows.parent, parent)
        if self._columns is None:
            np.copyto(rows.token, token)
        else:
            np.take(self._columns, token, out=rows.token)
        self._position_buffer[0] = self.position
        run = self._model.run
        run("step", self._binding(rows))
        run(self._project, rows.project)
        self._last = rows
        self.position += 1
        if np.isnan(rows.best[:, 0]).any():  # one NaN or inf makes the whole softmax NaN
            raise ContractError(
                f"the compiled {self._model.architecture} gives logits that are not finite at step "
                f"{self.position - 1}: its weights are damaged or its training diverged; take an earlier checkpoint."
            )
        return rows.best, rows.best_token

    @property
    def aligns(self) -> bool:
        """Whether the model has attention."""
        return self._model.aligns

    @property
    def alignment(self) -> Array:
        """The alignment (N, S) of the last step's rows."""
        assert self._last is not None
        assert self._last.alignment is not None
        return self._last.alignment

    def keep(self, stay: Array) -> None:
        """Go on with the sentences `stay` only; the next step's parents name the rows to continue."""
        self.lengths = self.lengths[stay]
        kept = {name: np.ascontiguousarray(value.numpy()[stay]) for name, value in self._memory.items()}
        self._memory = {name: self._model.value(array) for name, array in kept.items()}
        self._bindings.clear()

    def _buffers(self, count: int) -> Rows:
        """Buffers of N rows that do not hold the current states."""
        if self._model.grows:
            return self._allocate(count)
        for rows in self._rows:
            if rows is not self._last and len(rows.token) == count:
                return rows
        self._rows = [rows for rows in self._rows if rows is self._last]
        self._bindings.clear()
        self._rows.append(self._allocate(count))
        return self._rows[-1]

    def _allocate(self, count: int) -> Rows:
        model = self._model
        shapes = [[size if isinstance(size, int) else self.position + 1 for size in sizes] for sizes in model.states]
        hidden = np.empty((count, model.hidden), dtype=np.float32)
        best = np.empty((count, self.k), dtype=np.float32)
        best_token = np.empty((count, self.k), dtype=np.int64)
        inputs = {"hidden": model.value(hidden), "k": self._k, **self._output}
        outputs = {"best": model.value(best), "token": model.value(best_token)}
        return Rows(
            np.empty(count, dtype=np.int64),
            np.empty(count, dtype=np.int64),
            [np.empty((count, *shape), dtype=np.float32) for shape in shapes],
            hidden,
            np.empty((count, self._source_length), dtype=np.float32) if model.aligns else None,
            best,
            best_token,
            model.bind(self._project, inputs, outputs),
        )

    @property
    def _source_length(self) -> int:
        return int(self._memory["memory.mask"].shape()[-1])

    def _binding(self, rows: Rows) -> Any:
        """The IO binding from the current states to these rows."""
        key = (id(self._last), id(rows))
        if key in self._bindings:
            return self._bindings[key]
        before = self._given if self._last is None else self._last.states
        value = self._model.value
        inputs = {"token": value(rows.token), "parent": value(rows.parent), "position": self._position}
        inputs |= {f"state.{number}": value(state) for number, state in enumerate(before)}
        outputs = {"hidden": value(rows.hidden)}
        outputs |= {f"next.{number}": value(state) for number, state in enumerate(rows.states)}
        if rows.alignment is not None:
            outputs["alignment"] = value(rows.alignment)
        binding = self._model.bind("step", {**inputs, **self._memory}, outputs)
        if not self._model.grows and self._last is not None:
            self._bindings[key] = binding
        return binding
