"""`regard train` with Muon (Jordan et al. 2024) instead of Adam for the weight matrices, in float32.

    python benchmarks/muon.py fast --train train.en train.de --valid val.en val.de --out models/muon

takes the arguments of `regard train`; the processes of `--workers` would use Adam, so it trains in one. Muon moves a
matrix along the orthogonal factor of its momentum, found by five Newton-Schulz steps, and scaled to the size of Adam's
steps (Liu et al. 2025), so that one learning rate serves both. Embeddings, biases and gains keep Adam. torch's own Muon
computes in bfloat16. docs/results.md has what it gained.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from regard.cli.app import main
from regard.config.settings import LoopSettings
from regard.training import session

MOMENTUM = 0.95
STEPS, COEFFICIENTS = 5, (3.4445, -4.7750, 2.0315)


class Muon(Optimizer):
    """Muon for matrices, Adam for the rest; groups say which by `matrices`."""

    def __init__(self, model: nn.Module, settings: LoopSettings) -> None:
        tables = {id(each.weight) for each in model.modules() if isinstance(each, nn.Embedding)}
        matrices, rest = [], []
        for parameter in model.parameters():
            is_matrix = parameter.dim() == 2 and min(parameter.shape) > 1 and id(parameter) not in tables
            (matrices if is_matrix else rest).append(parameter)
        groups = [{"params": matrices, "matrices": True}, {"params": rest, "matrices": False}]
        super().__init__(groups, {"lr": settings.learning_rate, "betas": settings.betas, "eps": settings.epsilon})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:
        """One update of every parameter that has a gradient."""
        assert closure is None
        for group in self.param_groups:
            change = self._muon if group["matrices"] else self._adam
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.sub_(change(parameter, parameter.grad, group), alpha=group["lr"])

    def _muon(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> Tensor:
        state = self.state[parameter]
        momentum = state.setdefault("momentum", torch.zeros_like(parameter))
        momentum.lerp_(gradient, 1 - MOMENTUM)
        change = orthogonal(gradient.lerp(momentum, MOMENTUM))  # Nesterov's
        return change.mul_(0.2 * max(parameter.shape) ** 0.5)

    def _adam(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> Tensor:
        state = self.state[parameter]
        if not state:
            state.update(step=torch.zeros(()), mean=torch.zeros_like(parameter), square=torch.zeros_like(parameter))
        state["step"] += 1
        (first, second), count = group["betas"], float(state["step"])
        mean = state["mean"].lerp_(gradient, 1 - first)
        square = state["square"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
        root = square.div(1 - second**count).sqrt_().add_(group["eps"])
        return mean.div(1 - first**count).div_(root)


def orthogonal(matrix: Tensor) -> Tensor:
    """U Vᵀ of the singular value decomposition U S Vᵀ, about: singular values end between 0.7 and 1.2."""
    a, b, c = COEFFICIENTS
    tall = matrix.size(0) > matrix.size(1)
    found = (matrix.T if tall else matrix) / (matrix.norm() + 1e-7)
    for _ in range(STEPS):
        square = found @ found.T
        found = torch.addmm(found, torch.addmm(square, square, square, beta=b, alpha=c), found, beta=a)
    return found.T if tall else found


if __name__ == "__main__":
    session.build_optimizer = Muon
    sys.argv[1:] = ["train", *sys.argv[1:], "--workers", "1"]
    sys.exit(main())
