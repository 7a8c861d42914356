"""The packed output layer: the numbers of an ordinary product, and packed only where that pays."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from regard.packed import FEW, LARGE, PackedLinear

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")


@pytest.fixture
def weight() -> torch.nn.Parameter:
    generator = torch.Generator().manual_seed(1)
    return torch.nn.Parameter(torch.randn(LARGE // 128, 128, generator=generator))


@pytest.mark.parametrize("rows", [2, 5, 32, 96])
@pytest.mark.parametrize("bias", [True, False])
def test_gives_the_numbers_of_an_ordinary_product(weight: torch.nn.Parameter, rows: int, bias: bool) -> None:
    inputs, shift = torch.randn(rows, 128), torch.randn(weight.size(0)) if bias else None
    linear = PackedLinear(weight, shift)
    with torch.inference_mode():
        found, again = linear(inputs), linear(inputs[:2])  # packed for some rows, it serves for others
    assert linear.packed is not None
    expected = functional.linear(inputs, weight, shift)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(again, expected[:2], atol=1e-4, rtol=1e-5)


def test_stays_out_of_training_and_of_what_does_not_pay(weight: torch.nn.Parameter) -> None:
    linear = PackedLinear(weight, None)
    linear(torch.randn(5, 128)).sum().backward()
    assert weight.grad is not None
    with torch.no_grad():
        linear(torch.randn(1, 128))
        linear(torch.randn(FEW.stop, 128))
        linear(torch.randn(2, 3, 128))
    assert linear.packed is None
    for other in (weight.double(), weight[:100]):
        linear = PackedLinear(other, None)
        with torch.no_grad():
            linear(torch.randn(5, 128, dtype=other.dtype))
        assert linear.packed is None
