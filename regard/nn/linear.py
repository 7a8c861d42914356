"""Products with weights that stay the same for a while, as those of a search do.

An ordinary product rearranges its weight for the processor at every call. With thousands of rows that is nothing; with
a handful, as translating a few sentences has them, it takes longer than the arithmetic. `PackedWeights` keeps weights
in oneDNN's own arrangement: for 5 rows and 8,000 pieces that was measured at twice the speed, for 64 at 1.2 times, and
from about a hundred on at none. `Int8Weights` keeps them as integers of eight bits: another 1.4 to 2 times for 5 to
1,000 rows and 8,000 pieces, at the price of some exactness.

Models multiply by `linear` and `Linear`; which weights these use is decided around them, by `multiplying_with`.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.errors import ConfigError
from regard.machine import processor

FEW = range(2, 97)  # rows for which packing pays; a single one is a product with a vector, which needs none
LARGE = 2**19  # elements of a weight from which it pays

INT8_ENGINES = ("x86", "fbgemm", "onednn")  # torch's, for processors of this kind
INT8_ROWS = 4  # rows from which eight bits pay, for weights of INT8_LARGE; for fewer rows INT8_HUGE
INT8_LARGE = 2**16
INT8_HUGE = 2**20


class Weights(ABC):
    """Weights as a processor likes them, each packed when it is first used; they must not change from then on."""

    def __init__(self) -> None:
        # by the place in memory; the weight is kept beside, so that nothing else can come to lie there
        self._packed: dict[tuple[int, torch.Size], tuple[Tensor, Any]] = {}
        self._packing = Lock()

    def linear(self, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """x Wᵀ + b."""
        if torch.is_grad_enabled() or not _is_plain(inputs, weight) or not self._pays(inputs, weight):
            return functional.linear(inputs, weight, bias)
        key = (weight.data_ptr(), weight.shape)
        found = self._packed.get(key)
        if found is None:
            with self._packing:  # threads that share the weights wait for one of them to pack
                found = self._packed.get(key)
                if found is None:
                    found = self._packed[key] = (weight, self._pack(weight, bias, inputs.size(0)))
        return self._multiply(inputs, found[1], bias)

    @abstractmethod
    def _pays(self, inputs: Tensor, weight: Tensor) -> bool: ...

    @abstractmethod
    def _pack(self, weight: Tensor, bias: Tensor | None, rows: int) -> Any: ...

    @abstractmethod
    def _multiply(self, inputs: Tensor, packed: Any, bias: Tensor | None) -> Tensor: ...


class PackedWeights(Weights):
    """Float32, in oneDNN's arrangement.

    They are made anew for each search, since packing costs no more than a step or two and nothing tells reliably that a
    weight has changed: torch's fused optimisers do not count their changes in a tensor's version.
    """

    def _pays(self, inputs: Tensor, weight: Tensor) -> bool:
        few = inputs.dim() == 2 and inputs.size(0) in FEW and weight.numel() >= LARGE
        return few and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]

    def _pack(self, weight: Tensor, bias: Tensor | None, rows: int) -> Any:
        return torch.ops.mkldnn._reorder_linear_weight(weight.detach(), rows)

    def _multiply(self, inputs: Tensor, packed: Any, bias: Tensor | None) -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, packed, bias, "none", [], "")
        return product


class Int8Weights(Weights):
    """Integers of eight bits with a scale for each row of a weight; inputs are rounded to seven bits as they come.

    Inputs share one scale, so that what is translated together with a sentence can change its last digits. Making
    them takes as long as translating a sentence, so a translator keeps them; a weight that changes is not noticed.
    """

    def __init__(self) -> None:
        super().__init__()
        if torch.backends.quantized.engine not in INT8_ENGINES or not hasattr(torch, "quantize_per_channel"):
            raise ConfigError(
                "search.int8 = true: this torch has no products of eight bits for this processor: translate without."
            )
        processor.use("int8", "search.int8 = true", "translate without")

    def _pays(self, inputs: Tensor, weight: Tensor) -> bool:
        rows = inputs.numel() // inputs.size(-1)
        return weight.numel() >= (INT8_LARGE if rows >= INT8_ROWS else INT8_HUGE)

    def _pack(self, weight: Tensor, bias: Tensor | None, rows: int) -> Any:
        weight = weight.detach().contiguous()
        scales = (weight.abs().amax(1).double() / 127).clamp_min(1e-12)
        zeros = torch.zeros(len(scales), dtype=torch.long)
        with warnings.catch_warnings():  # torch means to drop these types, and has no other products as quick yet
            warnings.simplefilter("ignore", UserWarning)
            rounded = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
        return torch.ops.quantized.linear_prepack(rounded, None if bias is None else bias.detach())

    def _multiply(self, inputs: Tensor, packed: Any, bias: Tensor | None) -> Tensor:
        # seven bits of the inputs: products of two bytes are added up in sixteen bits, which eight would overflow
        product: Tensor = torch.ops.quantized.linear_dynamic(inputs, packed, True)
        return product


def _is_plain(inputs: Tensor, weight: Tensor) -> bool:
    return weight.device.type == "cpu" and weight.dtype == inputs.dtype == torch.float32 and inputs.numel() > 0


_CURRENT: ContextVar[Weights | None] = ContextVar("weights", default=None)


@contextmanager
def multiplying_with(weights: Weights) -> Iterator[None]:
    """Let `linear` use these weights, in this thread and while the block runs."""
    token = _CURRENT.set(weights)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b, (..., rows of the weight) of inputs (..., columns of the weight)."""
    weights = _CURRENT.get()
    return functional.linear(inputs, weight, bias) if weights is None else weights.linear(inputs, weight, bias)


def linear_with_own_weights() -> Callable[[Tensor, Tensor, Tensor | None], Tensor]:
    """`linear` for weights that are made for one search: what is packed of them goes with the result."""
    weights = _CURRENT.get()
    return functional.linear if weights is None else type(weights)().linear


class Linear(nn.Linear):
    """torch's layer, computed by `linear`."""

    def forward(self, inputs: Tensor) -> Tensor:
        """x Wᵀ + b."""
        return linear(inputs, self.weight, self.bias)
