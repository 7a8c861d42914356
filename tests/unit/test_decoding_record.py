"""The record of a search keeps what it was given, in few blocks."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.decoding.record import Steps


def recorded(tensors: list[Tensor]) -> Steps:
    steps = Steps()
    for tensor in tensors:
        steps.append(tensor)
    return steps


def test_rows_come_back_when_their_number_and_shape_change() -> None:
    generator = torch.Generator().manual_seed(0)
    rows = [2, *[8] * 40, *[4] * 40, 8, 1]
    fixed = [torch.randn(count, 3, generator=generator) for count in rows]
    growing = [torch.randn(count, 2, 1, 1 + step, generator=generator) for step, count in enumerate(rows)]
    for tensors in (fixed, growing):
        steps = recorded(tensors)
        assert len(steps) == len(tensors)
        for step, tensor in enumerate(tensors):
            for row in range(tensor.size(0)):
                assert torch.equal(steps.at(step, row), tensor[row])


def test_a_long_search_leaves_few_tensors_behind() -> None:
    steps = recorded([torch.full((5,), step) for step in range(3200)])
    storages = {steps.at(step, 0).untyped_storage().data_ptr() for step in range(3200)}
    assert len(storages) == 3200 // Steps.BLOCK
