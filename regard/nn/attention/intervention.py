"""Interventions: changes of attention weights at inference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from regard.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor

Kind = Literal["cross", "encoder-self", "decoder-self"]


@dataclass(frozen=True)
class Edit:
    """One change of attention weights; None as layer, head, step or source position means all."""

    kind: Kind = "cross"
    layer: int | None = None
    head: int | None = None
    step: int | None = None
    position: int | None = None
    replace: float | None = None
    multiply: float | None = None

    def __post_init__(self) -> None:
        for name in ("layer", "head", "step", "position"):
            _check_place(getattr(self, name), f"the {name} of an edit")


@dataclass(frozen=True)
class Intervention:
    """Bans and edits of attention weights.

    A banned source position is masked before every softmax. An edit replaces or multiplies weights after the softmax,
    without renormalisation. Positions are counted from 0; a position beyond the end of a sentence has no effect.
    `regard.nn.attention` applies both: a model that uses it only passes the intervention on.
    """

    ban: tuple[int, ...] = ()
    edits: tuple[Edit, ...] = ()

    def __post_init__(self) -> None:
        for position in self.ban:
            _check_place(position, "a banned position")

    def touches(self, kind: Kind, layer: int) -> bool:
        """Whether it can change these weights; a ban affects all attention over the source."""
        edits = (edit for edit in self.edits if edit.replace is not None or edit.multiply not in (None, 1.0))
        return (bool(self.ban) and kind != "decoder-self") or any(
            edit.kind == kind and edit.layer in (None, layer) for edit in edits
        )

    def allow(self, mask: Tensor) -> Tensor:
        """The mask (B, S) without banned source positions."""
        if not self.ban:
            return mask
        allowed = mask.clone()
        allowed[:, [place for place in self.ban if place < mask.size(1)]] = False
        return allowed

    def apply(self, weights: Tensor, kind: Kind, layer: int, steps: Sequence[int], head: int = 0) -> Tensor:
        """Apply the edits to the weights (B, T, S) of one head; `steps` are the T target steps."""
        edited = weights
        for edit in self.edits:
            if edit.kind != kind or edit.layer not in (None, layer) or edit.head not in (None, head):
                continue
            rows = [row for row, step in enumerate(steps) if edit.step in (None, step)]
            if not rows:
                continue
            columns = slice(None) if edit.position is None else slice(edit.position, edit.position + 1)
            if edited is weights:
                edited = weights.clone()
            if edit.multiply is not None:
                edited[:, rows, columns] = edited[:, rows, columns] * edit.multiply
            if edit.replace is not None:
                edited[:, rows, columns] = edit.replace
        return edited


def _check_place(place: int | None, name: str) -> None:
    if place is not None and place < 0:
        raise ConfigError(f"{name} is {place}: places are counted from 0.")
