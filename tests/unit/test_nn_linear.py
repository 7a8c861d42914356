"""Weights in another arrangement: the numbers of an ordinary product, packed only where that pays, and nothing kept."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.errors import ConfigError
from regard.nn.embedding import Embeddings
from regard.nn.linear import (
    INT8_HUGE,
    INT8_LARGE,
    INT8_ROWS,
    PACKED_ELEMENTS,
    PACKED_ROWS,
    Int8Weights,
    Linear,
    PackedWeights,
    Weights,
    linear,
    multiplying_with,
)

COLUMNS = 64


@pytest.fixture
def weight() -> Tensor:
    torch.manual_seed(1)
    return torch.randn(PACKED_ELEMENTS // COLUMNS, COLUMNS)


def int8() -> Int8Weights:
    if torch.backends.quantized.engine not in ("x86", "fbgemm", "onednn"):
        pytest.skip("torch has no int8 kernels for this processor")
    return Int8Weights()


@contextmanager
def searching_with(weights: Weights) -> Iterator[None]:
    with torch.inference_mode(), multiplying_with(weights):
        yield


@pytest.mark.parametrize("rows", [PACKED_ROWS[0], 5, PACKED_ROWS[-1]])
@pytest.mark.parametrize("with_bias", [True, False])
def test_packed_weights_give_an_ordinary_products_numbers(weight: Tensor, rows: int, with_bias: bool):
    inputs, bias = torch.randn(rows, COLUMNS), torch.randn(len(weight)) if with_bias else None
    weights = PackedWeights()
    with searching_with(weights):
        found, again = linear(inputs, weight, bias), linear(inputs[:2], weight, bias)  # packed for some, serves others
    assert len(weights._packed) == 1
    expected = torch.nn.functional.linear(inputs, weight, bias)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(again, expected[:2], rtol=1e-5, atol=1e-4)


def test_weights_are_packed_only_where_it_pays(weight: Tensor):
    weights = PackedWeights()
    with searching_with(weights):
        for rows in (PACKED_ROWS[0] - 1, PACKED_ROWS[-1] + 1):
            linear(torch.randn(rows, COLUMNS), weight)
        linear(torch.randn(5, COLUMNS), weight[:-1])
        linear(torch.randn(5, COLUMNS).double(), weight.double())
    with multiplying_with(weights):  # gradients are wanted
        linear(torch.randn(5, COLUMNS), weight.clone().requires_grad_()).sum().backward()
    assert not weights._packed


@pytest.mark.processor("int8")
def test_int8_is_close_and_knows_its_rows_and_bias():
    weights = int8()
    torch.manual_seed(2)
    weight = torch.randn(512, INT8_LARGE // 512)
    weight[7] *= 100  # a large row does not take the others' digits
    inputs, bias = torch.randn(2, 9, weight.size(1)), torch.randn(512)
    with searching_with(weights):
        found = linear(inputs, weight, bias)
        linear(inputs[:1, : INT8_ROWS - 1], weight[1:], None)  # too few rows for so small a weight
        assert len(weights._packed) == 1
        linear(torch.randn(1, 1024), torch.randn(INT8_HUGE // 1024, 1024))  # but not for one so large
        assert len(weights._packed) == 2
    expected = torch.nn.functional.linear(inputs, weight, bias)
    error = (found - expected).abs().amax((0, 1)) / expected.std((0, 1))
    assert 0 < error.max() < 0.15


@pytest.mark.processor("int8")
def test_parts_of_one_weight_are_told_apart():
    weights = int8()
    torch.manual_seed(3)
    whole, inputs = torch.randn(1024, 256), torch.randn(8, 256)
    with searching_with(weights):
        parts = [linear(inputs, part) for part in (whole, whole[:512], whole[512:])]
    assert len(weights._packed) == 3
    torch.testing.assert_close(torch.cat(parts[1:], 1), parts[0])


@pytest.mark.processor("int8")
def test_a_layer_is_torchs_own_outside_a_search():
    torch.manual_seed(4)
    layer = Linear(COLUMNS, 2048)
    inputs = torch.randn(5, COLUMNS)
    plain = torch.nn.functional.linear(inputs, layer.weight, layer.bias)
    assert torch.equal(layer(inputs), plain)
    with searching_with(int8()):
        assert not torch.equal(layer(inputs), plain)
    assert torch.equal(layer(inputs), plain)


@pytest.mark.processor("int8")
def test_weights_that_a_shortlist_takes_out_are_not_kept():
    from regard.config.models import BahdanauSettings

    weights = int8()
    embeddings = Embeddings(BahdanauSettings(embedding_size=256), 300, 2000, 256)
    with searching_with(weights):
        for count in (1000, 1500):
            hidden = torch.randn(6, 256)
            got = embeddings.projection(torch.arange(count))(hidden)
            torch.testing.assert_close(got, embeddings.project(hidden)[:, :count], rtol=0, atol=0.2)
        assert not weights._packed
        embeddings.projection()(hidden)
        assert len(weights._packed) == 1


def test_a_processor_without_int8_is_told(monkeypatch: pytest.MonkeyPatch):
    class Engine:
        engine: Any = "qnnpack"

    monkeypatch.setattr(torch.backends, "quantized", Engine())
    with pytest.raises(ConfigError, match="no int8 kernels for this processor: translate without"):
        Int8Weights()
