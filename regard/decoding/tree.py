"""The beam as a tree: every continuation that a beam search ranked, kept, dropped or finished, for looking at it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

NodeState = Literal["kept", "pruned", "finished"]


@dataclass(frozen=True)
class SearchNode:
    """A token after its parent; `log_probability` is that of the whole path."""

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
    _rows: list[int | None] = field(default_factory=lambda: [None])  # the node that each row of this step stands at

    def grow(
        self, step: int, parent: Tensor, token: Tensor, total: Tensor, penalty: float, state: Sequence[NodeState]
    ) -> None:
        """Note the ranked continuations (C,) of a step; those that are kept are the rows of the next, in order.

        Impossible ones (total -inf) are left out. `penalty` is the length penalty that scores are divided by.
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
        """The nodes along these tokens, from the first on, as far as the tree goes."""
        children = {(node.parent, node.token): node.number for node in self.nodes}
        found: list[int] = []
        at: int | None = None
        for token in tokens:
            if (at, token) not in children:
                break
            at = children[at, token]
            found.append(at)
        return frozenset(found)
