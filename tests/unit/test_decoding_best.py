"""Fast top-k of wide rows: agrees with `topk` at every width."""

import pytest
import torch

from regard.decoding.top_k import COLUMNS, MAX_K, MIN_ROWS, best


@pytest.mark.parametrize("count", [1, 2, 6, MAX_K])
@pytest.mark.parametrize("width", [17, 500, COLUMNS * MIN_ROWS - 1, COLUMNS * MIN_ROWS, 8000, 8063])
def test_finds_what_topk_finds(count: int, width: int) -> None:
    scores = torch.randn(70, width, generator=torch.Generator().manual_seed(width))
    scores[0] = -torch.inf  # one token alone may come
    scores[0, width // 2] = -3.0
    scores[1, -1] = scores[2, 0] = 50.0  # the ends of a row
    expected = scores.topk(count)
    values, places = best(scores, count)
    torch.testing.assert_close(values, expected.values, rtol=0, atol=0)
    assert torch.equal(places[1:], expected.indices[1:])
    assert places[0, 0] == width // 2
    assert all(len(set(row)) == count for row in places.tolist())  # no place twice, even among equal ones


def test_reads_rows_that_are_part_of_wider_ones() -> None:
    wider = torch.randn(20, 9000)
    assert torch.equal(best(wider[:, :8000], 6)[1], wider[:, :8000].topk(6).indices)
