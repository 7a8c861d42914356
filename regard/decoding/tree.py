"""The search tree of a beam search: every ranked continuation, kept, pruned or finished."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

NodeState = Literal["kept", "pruned", "finished"]


@dataclass(frozen=True)
class SearchNode:
    """A token with its parent; `log_probability` is of the whole path."""

    number: int
    parent: int | None
    step: int
    token: int
    log_probability: float
    score: float  # with the length penalty
    state: NodeState


@dataclass
class BeamTree:
    """The tree of one sentence, parents before their children; a search fills it."""

    nodes: list[SearchNode] = field(default_factory=list)
    _rows: list[int | None] = field(default_factory=lambda: [None])  # the node of each row of this step

    def grow(
        self, step: int, parent: Tensor, token: Tensor, total: Tensor, penalty: float, state: Sequence[NodeState]
    ) -> None:
        """Add the ranked continuations (C,) of a step; the kept ones are the rows of the next step, in order.

        Continuations of probability 0 (total -inf) are skipped. `penalty` is the length penalty, which divides scores.
        """
        rows: list[int | None] = []
        for row, said, log_probability, its_state in zip(
            parent.tolist(), token.tolist(), total.tolist(), state, strict=True
        ):
            number = len(self.nodes)
            if log_probability != -math.inf:
                score = log_probability / penalty
                self.nodes.append(SearchNode(number, self._rows[row], step, said, log_probability, score, its_state))
            if its_state == "kept":
                rows.append(number)
        self._rows = rows

    def path(self, tokens: Sequence[int]) -> frozenset[int]:
        """The nodes of the longest prefix of these tokens in the tree."""
        children = {(node.parent, node.token): node.number for node in self.nodes}
        found: list[int] = []
        at: int | None = None
        for token in tokens:
            if (at, token) not in children:
                break
            at = children[at, token]
            found.append(at)
        return frozenset(found)
