"""Matrix products with one weight over many decoder steps.

A step-by-step decoder multiplies by the same weight at every step. For the weight's gradient, autograd sums one small
product per step. `SummedProducts` collects the factors and computes one large product, which is faster. The result
differs only in the order of summation.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from regard.nn.linear import linear


class Products:
    """x Wᵀ, or x W[:, start:end]ᵀ."""

    def __call__(self, inputs: Tensor, weight: Tensor, start: int = 0, end: int | None = None) -> Tensor:
        """The product (..., rows of the weight) of inputs (..., columns of the weight)."""
        return linear(inputs, weight[:, start:end])


PRODUCTS = Products()


class SummedProducts(Products):
    """Products with one weight-gradient product over all steps; one instance per forward pass."""

    def __init__(self) -> None:
        self._shared: dict[tuple[int, int, int | None], tuple[Tensor, _Factors]] = {}

    def __call__(self, inputs: Tensor, weight: Tensor, start: int = 0, end: int | None = None) -> Tensor:
        if not weight.requires_grad:
            return super().__call__(inputs, weight, start, end)
        key = (id(weight), start, end)
        if key not in self._shared:
            factors = _Factors()
            self._shared[key] = (_Shared.apply(weight[:, start:end], factors), factors)  # type: ignore[no-untyped-call]
        shared, factors = self._shared[key]
        product: Tensor = _Product.apply(inputs, shared, factors)  # type: ignore[no-untyped-call]
        return product


def step_products() -> Products:
    """Products for a loop over steps: `SummedProducts` if gradients are enabled, else plain ones."""
    return SummedProducts() if torch.is_grad_enabled() else PRODUCTS


class _Factors:
    """The inputs of every product with one weight, and the gradients of their results."""

    def __init__(self) -> None:
        self.inputs: list[Tensor] = []
        self.gradients: list[Tensor] = []

    def weight_gradient(self) -> Tensor:
        gradients = torch.cat([gradient.flatten(0, -2) for gradient in self.gradients])
        inputs = torch.cat([factor.flatten(0, -2) for factor in self.inputs])
        self.inputs, self.gradients = [], []
        return gradients.t() @ inputs


class _Shared(torch.autograd.Function):
    """The identity on the weight; its backward runs after those of all products with the weight."""

    @staticmethod
    def forward(context: Any, weight: Tensor, factors: _Factors) -> Tensor:
        context.factors = factors
        context.set_materialize_grads(False)
        return weight.view_as(weight)

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor | None) -> tuple[Tensor | None, None]:
        return context.factors.weight_gradient(), None


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, inputs: Tensor, weight: Tensor, factors: _Factors) -> Tensor:
        context.save_for_backward(inputs, weight)
        context.factors = factors
        return functional.linear(inputs, weight)

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, None, None]:
        inputs, weight = context.saved_tensors
        context.factors.inputs.append(inputs.to(gradient.dtype))  # mixed precision: the output's dtype
        context.factors.gradients.append(gradient)
        return (gradient @ weight.to(gradient.dtype) if context.needs_input_grad[0] else None), None, None
