"""GNMT's score of a translation: s(Y, X) = log P(Y|X) / lp(Y) + cp(X; Y) (Wu et al. 2016, equation 14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray
    from torch import Tensor

Length = TypeVar("Length", float, "Tensor", "NDArray[float32]")

COVERAGE_FLOOR = 1e-3
"""Minimum coverage of a source position, to avoid log 0: local attention may skip a position in every hypothesis."""


def length_penalty(length: Length, alpha: float) -> Length:
    """lp(Y) = ((5 + |Y|) / 6)^alpha; |Y| includes EOS."""
    penalty: Length = ((length + 5.0) / 6.0) ** alpha
    return penalty


def coverage_penalty(coverage: Tensor, mask: Tensor, beta: float) -> Tensor:
    """cp(X; Y) = beta · Σ_j log min(Σ_i p_ij, 1), (N,), of the summed attention (N, S).

    Padding is excluded; coverage below COVERAGE_FLOOR counts as COVERAGE_FLOOR.
    """
    logarithm = coverage.clamp(COVERAGE_FLOOR, 1.0).log()
    return beta * logarithm.masked_fill(~mask, 0.0).sum(-1)
