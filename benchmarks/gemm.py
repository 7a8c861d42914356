"""Prints the speed of a float32 product of two 2048 × 2048 matrices, in GFLOP/s: what the machine can do at best."""

from __future__ import annotations

import time

import torch

SIZE = 2048


def main(seconds: float = 3.0) -> None:
    """The median over some seconds, into an output that is there already."""
    left, right, out = torch.rand(SIZE, SIZE), torch.rand(SIZE, SIZE), torch.empty(SIZE, SIZE)
    torch.mm(left, right, out=out)
    times: list[float] = []
    until = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < until:
        started = time.perf_counter()
        torch.mm(left, right, out=out)
        times.append(time.perf_counter() - started)
    print(2 * SIZE**3 / sorted(times)[len(times) // 2] / 1e9)


if __name__ == "__main__":
    main()
