"""Linear layers with prepacked or int8 weights, for decoding on a CPU.

A plain matrix product packs its weight at every call. With few rows, as in decoding a few sentences, packing takes
longer than the arithmetic. `PackedWeights` keeps weights in oneDNN's packed layout: 2 times faster for 5 rows and a
vocabulary of 8,000, 1.2 times for 64 rows, no gain from about 100 rows. `Int8Weights` quantises them: another 1.4 to 2
times faster for 5 to 1,000 rows, slightly less exact.

Models call `linear` and `Linear`; `multiplying_with` sets the weights that these use.
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

PACKED_ROWS = range(
    2, 97
)  # rows for which packing pays; a single row is a matrix-vector product, which needs no packing
PACKED_ELEMENTS = 2**19  # minimum elements of a weight for which packing pays

INT8_ENGINES = ("x86", "fbgemm", "onednn")  # torch's quantisation backends for x86
INT8_ROWS = 4  # with at least these rows int8 pays for weights of INT8_LARGE elements; with fewer, of INT8_HUGE
INT8_LARGE = 2**16
INT8_HUGE = 2**20


class Weights(ABC):
    """Weights packed at first use; they must not change afterwards."""

    def __init__(self) -> None:
        # Keyed by address. The entry keeps the weight alive, so its address cannot be reused.
        self._packed: dict[tuple[int, torch.Size], tuple[Tensor, Any]] = {}
        self._packing = Lock()

    def linear(self, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """x Wᵀ + b."""
        if torch.is_grad_enabled() or not _is_plain(inputs, weight) or not self._pays(inputs, weight):
            return functional.linear(inputs, weight, bias)
        key = (weight.data_ptr(), weight.shape)
        found = self._packed.get(key)
        if found is None:
            with self._packing:  # one thread packs, the others wait
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
    """Float32 weights in oneDNN's packed layout.

    Each search packs anew. Packing costs one or two steps, and changed weights cannot be detected reliably: torch's
    fused optimisers do not increment a tensor's version.
    """

    def _pays(self, inputs: Tensor, weight: Tensor) -> bool:
        few = inputs.dim() == 2 and inputs.size(0) in PACKED_ROWS and weight.numel() >= PACKED_ELEMENTS
        return few and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]

    def _pack(self, weight: Tensor, bias: Tensor | None, rows: int) -> Any:
        return torch.ops.mkldnn._reorder_linear_weight(weight.detach(), rows)

    def _multiply(self, inputs: Tensor, packed: Any, bias: Tensor | None) -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, packed, bias, "none", [], "")
        return product


class Int8Weights(Weights):
    """Int8 weights with one scale per row, and dynamic quantisation of inputs to 7 bits.

    Inputs have one scale per batch: results depend slightly on the other rows. Quantisation takes as long as the
    translation of a sentence, so a translator keeps the result; it does not detect changed weights.
    """

    def __init__(self) -> None:
        super().__init__()
        if torch.backends.quantized.engine not in INT8_ENGINES or not hasattr(torch, "quantize_per_channel"):
            raise ConfigError(
                "search.int8 = true: this torch has no int8 kernels for this processor: translate without."
            )
        processor.use("int8", "search.int8 = true", "translate without")

    def _pays(self, inputs: Tensor, weight: Tensor) -> bool:
        rows = inputs.numel() // inputs.size(-1)
        return weight.numel() >= (INT8_LARGE if rows >= INT8_ROWS else INT8_HUGE)

    def _pack(self, weight: Tensor, bias: Tensor | None, rows: int) -> Any:
        weight = weight.detach().contiguous()
        scales = (weight.abs().amax(1).double() / 127).clamp_min(1e-12)
        zeros = torch.zeros(len(scales), dtype=torch.long)
        with warnings.catch_warnings():  # deprecated in torch, which has no equally fast replacement yet
            warnings.simplefilter("ignore", UserWarning)
            rounded = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
        return torch.ops.quantized.linear_prepack(rounded, None if bias is None else bias.detach())

    def _multiply(self, inputs: Tensor, packed: Any, bias: Tensor | None) -> Tensor:
        # reduce_range: 7-bit inputs, since sums of 8-bit products would overflow the 16-bit accumulator
        product: Tensor = torch.ops.quantized.linear_dynamic(inputs, packed, True)
        return product


def _is_plain(inputs: Tensor, weight: Tensor) -> bool:
    return weight.device.type == "cpu" and weight.dtype == inputs.dtype == torch.float32 and inputs.numel() > 0


_CURRENT: ContextVar[Weights | None] = ContextVar("weights", default=None)


@contextmanager
def multiplying_with(weights: Weights) -> Iterator[None]:
    """Make `linear` use these weights in this thread within the block."""
    token = _CURRENT.set(weights)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b, (..., rows of the weight) of inputs (..., columns of the weight)."""
    weights = _CURRENT.get()
    return functional.linear(inputs, weight, bias) if weights is None else weights.linear(inputs, weight, bias)


def linear_for_one_search() -> Callable[[Tensor, Tensor, Tensor | None], Tensor]:
    """`linear` for weights made for one search, such as a shortlist's: the result owns their packed copies."""
    weights = _CURRENT.get()
    return functional.linear if weights is None else type(weights)().linear


class Linear(nn.Linear):
    """`nn.Linear`, computed by `linear`."""

    def forward(self, inputs: Tensor) -> Tensor:
        """x Wᵀ + b."""
        return linear(inputs, self.weight, self.bias)
