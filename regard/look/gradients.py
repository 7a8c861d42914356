"""How far the gradient of the loss reaches back into the source: ‖∂loss/∂x_j‖ by the distance of word j from the end.

x_j is the embedding of source word j, the input of h_j. Without attention the gradient passes through every recurrent
step between word j and the end of the sentence and shrinks (or grows) on the way; attention is a direct path from each
decoder step to each h_j.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from regard.config.vocabulary import BOS, EOS, SPECIAL_PIECES
from regard.models.contract import Batch, Model

Pair = tuple[Sequence[int], Sequence[int]]
"""Source and target ids, without BOS and EOS."""


@dataclass(frozen=True)
class GradientReach:
    """Mean gradient norm by distance, in words, from the end of the source sentence."""

    name: str
    norms: tuple[float, ...]

    def relative(self, distance: int) -> float:
        """The norm at a distance divided by the norm at the last word."""
        return self.norms[distance] / self.norms[0]


def random_pairs(vocabulary: int, length: int, count: int, seed: int = 1) -> list[Pair]:
    """Pairs of random words of one length, the target a copy of the source."""
    generator = torch.Generator().manual_seed(seed)
    lowest = len(SPECIAL_PIECES)
    rows = torch.randint(lowest, vocabulary, (count, length), generator=generator).tolist()
    return [(row, row) for row in rows]


def gradient_reach(name: str, model: Model, pairs: Sequence[Pair]) -> GradientReach:
    """Average over sentence pairs, one at a time: their lengths may differ."""
    model.eval()
    shortest = min(len(source) for source, _ in pairs)
    sums = torch.zeros(shortest)
    for source, target in pairs:
        norms = word_gradients(model, source, target)[:-1]  # without EOS
        sums += norms.flip(0)[:shortest]
    return GradientReach(name, tuple((sums / len(pairs)).tolist()))


def word_gradients(model: Model, source: Sequence[int], target: Sequence[int]) -> Tensor:
    """‖∂loss/∂x_j‖ for each source word and EOS; the loss is the mean cross-entropy of the target."""
    ids = torch.tensor([[*source, EOS]])
    first, last = torch.tensor([[BOS, *target]]), torch.tensor([[*target, EOS]])
    batch = Batch(ids, torch.ones_like(ids, dtype=torch.bool), first, last, torch.ones_like(last, dtype=torch.bool))
    found: list[Tensor] = []

    def keep(_: torch.nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if torch.equal(inputs[0].flatten(), ids[0]):  # a Transformer reads all words of a batch as one row
            output.retain_grad()
            found.append(output)

    with torch.enable_grad():
        hooks = [part.register_forward_hook(keep) for part in model.modules() if isinstance(part, torch.nn.Embedding)]
        try:
            hidden = model(batch).hidden
        finally:
            for hook in hooks:
                hook.remove()
        torch.autograd.backward([functional.cross_entropy(model.project(hidden[0]), last[0])])
    model.zero_grad()
    assert found, "the model looks up its source in an nn.Embedding"
    gradient = found[0].grad
    assert gradient is not None
    norms: Tensor = torch.linalg.vector_norm(gradient.reshape(ids.size(1), -1), dim=-1)
    return norms
