"""The output layer for few rows at a time, as translating a few sentences has them.

An ordinary product rearranges its weight for the processor at every call. With thousands of rows that is nothing; with
a handful it takes longer than the arithmetic. oneDNN can keep a weight in its own arrangement: for 5 rows and 8,000
pieces that was measured at twice the speed, for 64 at 1.2 times, and from about a hundred on at none.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

FEW = range(2, 97)  # rows for which packing pays; a single one is a product with a vector, which needs none
LARGE = 2**19  # elements of a weight from which it pays


class PackedLinear:
    """x Wᵀ + b for the many steps of one search, during which W must not change.

    It is made anew for each search, since packing costs no more than a step or two and nothing tells reliably that a
    weight has changed: torch's fused optimisers do not count their changes in a tensor's version.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight = weight
        self.bias = bias
        self.packed: Tensor | None = None  # once it has paid

    def __call__(self, inputs: Tensor) -> Tensor:
        """Rows (N, V) of inputs (N, D)."""
        if not self._pays(inputs):
            return functional.linear(inputs, self.weight, self.bias)
        if self.packed is None:
            self.packed = torch.ops.mkldnn._reorder_linear_weight(self.weight.detach(), inputs.size(0))
        product: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, self.packed, self.bias, "none", [], "")
        return product

    def _pays(self, inputs: Tensor) -> bool:
        return (
            inputs.dim() == 2
            and inputs.size(0) in FEW
            and self.weight.numel() >= LARGE
            and self.weight.device.type == "cpu"
            and self.weight.dtype == inputs.dtype == torch.float32
            and not torch.is_grad_enabled()
            and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        )
